"""Settings of a method against the defaults of its fields."""

from dataclasses import dataclass

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.scoring import registry


@dataclass(frozen=True)
class Sizes:
    """Settings of a method of another package."""

    sizes: tuple[int, ...] = (1, 2)
    name: str | None = None
    words: int = 3


@pytest.fixture(autouse=True)
def _sizes(monkeypatch):
    monkeypatch.setattr(registry, "load", lambda name: Sizes)


def test_a_list_becomes_the_tuple_of_a_default():
    assert registry.build("sizes", {"sizes": [4]}) == Sizes((4,))
    assert registry.build("sizes", {"sizes": (4, 5)}) == Sizes((4, 5))
    assert registry.build("sizes", {"name": "a"}) == Sizes(name="a")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [("sizes", 4, "a list"), ("sizes", "4", "a list"), ("words", [3], "a whole number")],
)
def test_a_value_of_another_type_is_refused(name, value, allowed):
    with pytest.raises(UsageError, match=rf"^`method\.{name}` must be {allowed}; got "):
        registry.build("sizes", {name: value})
