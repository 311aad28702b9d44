"""Training objectives, one file each."""

from __future__ import annotations

import dataclasses

from corpusfit.adapt.objectives.causal import Causal
from corpusfit.adapt.objectives.contract import Network, Objective
from corpusfit.adapt.objectives.masked import MaskedLM, MaskedPairs
from corpusfit.adapt.objectives.simcse import SimCse
from corpusfit.adapt.objectives.translation import Translation
from corpusfit.adapt.objectives.tsdae import Tsdae
from corpusfit.adapt.plan import SIMCSE, TRANSLATION, TSDAE, ObjectivePlan
from corpusfit.adapt.special_tokens import SpecialTokens
from corpusfit.errors import ModelError

__all__ = [
    "Causal",
    "MaskedLM",
    "MaskedPairs",
    "Network",
    "Objective",
    "SimCse",
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
    if plan.name == SIMCSE:
        return SimCse(special, plan.temperature)
    if plan.name == "causal":
        if special.end in special.suffix:  # texts end with it already, and their parts should not
            special = dataclasses.replace(special, suffix=())
        return Causal(special)
    if plan.whole_word and special.begins is None:
        raise ModelError(
            "<objective.whole_word> needs a tokenizer that marks where words begin (WordPiece, "
            "byte-level BPE or SentencePiece); this model's tokenizer does not. Leave out "
            "<objective.whole_word>."
        )
    return (MaskedPairs if plan.name == "mlm+nsp" else MaskedLM)(special, plan)
