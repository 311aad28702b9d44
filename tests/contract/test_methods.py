"""Every scoring method of the core meets the contract of `scoring/contract.py`."""

import pytest

from corpusfit.core.errors import CorpusfitError, UnknownMethodError
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.scoring.names import METHODS
from method_promises import *  # noqa: F403
from method_promises import SETTINGS

OURS = list(METHODS.built_in())
ALONE = {name for name in OURS if issubclass(registry.load(name), Method)}
NAMES = sorted({*ALONE, "field:edu"} - {"field", "fasttext"})
ON_WORDS = [name for name in NAMES if registry.load(name).family == "lexical"]


@pytest.fixture(scope="module", autouse=True)
def small_models(tiny_classifier):
    """What a method with a model of its own gets here."""
    SETTINGS["model"] = {"model": f"{tiny_classifier}#LABEL_1"}


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownMethodError, match="isolation_forest"):
        registry.load("isolationforest")
    assert issubclass(UnknownMethodError, CorpusfitError)
