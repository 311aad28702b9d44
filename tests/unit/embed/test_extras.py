"""A message names the extra that is missing."""

import sys

import pytest

from corpusfit.core.errors import MissingDependencyError
from corpusfit.embed.folders import LIBRARIES, require_extra


@pytest.mark.parametrize(
    ("installed", "extra", "named"),
    [((), "train", "train"), (("torch",), "models", ""), (("torch",), "train", "train")],
)
def test_an_extra_that_is_missing_is_named(installed, extra, named, monkeypatch):
    for library in {*LIBRARIES.values()} - {*installed}:
        monkeypatch.setitem(sys.modules, library, None)
    found = ""
    try:
        require_extra("A test", extra)
    except MissingDependencyError as e:
        found = str(e).partition("corpusfit[")[2].partition("]")[0]
    assert found == named
