"""Training objectives, one file each."""

from __future__ import annotations

import dataclasses

from corpusfit.core.errors import ModelError
from corpusfit.training.objectives.contract import Network, Objective
from corpusfit.training.objectives.language_models import Causal, MaskedLM, MaskedPairs
from corpusfit.training.objectives.translation import Translation
from corpusfit.training.objectives.tsdae import Tsdae
from corpusfit.training.plan import TRANSLATION, TSDAE, ObjectivePlan
from corpusfit.training.special_tokens import SpecialTokens

__all__ = [
    "Causal",
    "MaskedLM",
    "MaskedPairs",
    "Network",
    "Objective",
    "Translation",
    "Tsdae",
    "objective",
]


def objective(plan: ObjectivePlan, special: SpecialTokens, length: int = 0) -> Objective:
    """The objective that a plan names, for sequences of at most `length` tokens.

    Raises:
        ModelError: whole words are masked and the tokenizer does not mark where words begin.
    """
    if plan.name == TRANSLATION:
        return Translation(special, plan.smoothing, length)
    if plan.name == TSDAE:
        return Tsdae(special, plan.delete)
    if plan.name == "causal":
        # texts end with that token already, and the parts of a text should not
        if special.end in special.suffix:
            special = dataclasses.replace(special, suffix=())
        return Causal(special)
    if plan.whole_word and special.begins is None:
        raise ModelError(
            "`objective.whole_word` needs a tokenizer that marks where words begin (WordPiece, "
            "byte-level BPE or SentencePiece); this model's tokenizer does not. Leave out "
            "`objective.whole_word`."
        )
    return (MaskedPairs if plan.name == "mlm+nsp" else MaskedLM)(special, plan)
