"""For all tests, those of benchmarks too."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A `long` test is `slow`, whatever else it is marked with."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("slow")
