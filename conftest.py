"""For all tests, those of benchmarks too."""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A `long` test is `slow`, whatever else it is marked with."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports leave no garbage to look for, which takes a fifth of the time of collecting."""
    gc.disable()
    found = yield
    gc.enable()
    return found
