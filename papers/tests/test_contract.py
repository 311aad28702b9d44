"""Every scoring method of this package meets the contract of corpusfit's."""

import pytest

from corpusfit.core.gone import PAPERS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.scoring.names import METHODS
from method_promises import *  # noqa: F403
from method_promises import SETTINGS

OURS = [name for name in METHODS.plugins() if METHODS.package_of(name) == PAPERS]
ALONE = {name for name in OURS if issubclass(registry.load(name), Method)}
NAMES = sorted({*ALONE, "pyod:ECOD", "pyod:KNN"} - {"pyod"})
ON_WORDS = [name for name in NAMES if registry.load(name).family == "lexical"] + ["cross_entropy"]
ON_WORDS.remove("conditional_loss")


@pytest.fixture(scope="module", autouse=True)
def small_models(tiny_encoder, tiny_lm):
    """What a method with a model of its own gets here."""
    SETTINGS["domain_finetune"]["embedder"] = str(tiny_encoder)
    SETTINGS["conditional_loss"]["model"] = str(tiny_lm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corpusfit_papers.methods.conditional_loss.READ", 400)
        yield
