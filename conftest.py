"""For all tests, those of benchmarks too."""

import gc

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A `long` test is `slow`, whatever else it is marked with."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What was imported stays; a tenth of the time is spent looking at it for garbage, else."""
    gc.collect()
    gc.freeze()
