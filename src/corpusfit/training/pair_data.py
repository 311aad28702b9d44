"""Aligned pairs as the data of a training: their checks, their domains and their chunks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.engine import Progress
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.languages import code_of
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text.pair_languages import Pair, check_sources, sampled, with_side
from corpusfit.training.chunks import Chunks, cut_chunks, whole_pairs
from corpusfit.training.inputs import TrainingInputs
from corpusfit.training.plan import AdaptPlan
from corpusfit.training.tokens import PairTokens, Tokens
from corpusfit.training.translators import domain_tags

_UNKNOWN = 0.01  # share of a side's tokens from which a warning is shown


def require_pairs(texts: TrainingInputs, progress: Progress) -> tuple[TrainingInputs, Pair | None]:
    """The texts of a translation, which are aligned pairs; the target of a selection is none."""
    cure = "Name two line-aligned files: `{0}=pair:all.de,all.en`."
    pairs = corpus.is_parallel(texts.data)
    if texts.selection is not None:
        pairs = bool(texts.selection["selected"].get("aligned"))
        texts = dataclasses.replace(texts, read=ReadPlan())  # the first side is the text
        if texts.own_task and not corpus.is_parallel(texts.task):
            progress.note(
                "The selection's target has no translations, so the loss on the task is not "
                "measured. Name pairs of the task with `task=pair:dev.de,dev.en`."
            )
            texts = dataclasses.replace(texts, task=[], own_task=False)
    others = {"task": texts.task, "replay": texts.replay}
    unlike = [role for role, found in others.items() if not corpus.is_parallel(found)]
    for role in ([] if pairs else ["data"]) + unlike:
        allowed = "aligned pairs, or a selection of them, with `objective.name=translation`"
        raise bad_setting(f"`{role}`", allowed, "texts", cure.format(role))
    return texts, check_sources(texts.data, texts.read, "`data`", progress.warn)


def check_marks(tokenizer: Any, languages: Pair, progress: Progress) -> None:
    """Warn of a multilingual tokenizer that marks a side as another language than it is in."""
    marks = (("source", "src_lang"), ("target", "tgt_lang"))
    for (side, field), language in zip(marks, languages, strict=True):
        mark = str(getattr(tokenizer, field, ""))
        try:
            marked = code_of(mark)
        except UsageError:
            continue  # no mark, or none of a language, as of programs
        if marked != language:
            progress.warn(
                f"The {side} side of `data` is in {language}, by a sample, and the model's "
                f"tokenizer marks it as {mark}. If it is, save the tokenizer with another {field}."
            )


def choose_side(
    plan: AdaptPlan, texts: TrainingInputs, progress: Progress
) -> tuple[AdaptPlan, TrainingInputs]:
    """The plan and the texts with the side that is read of pairs that are no translation's."""
    roles = (
        (texts.data, texts.read),
        (texts.task, texts.task_read),
        *((own, plan.read) for own in (texts.replay, texts.then)),
    )
    if not any(own and corpus.is_parallel(own) for own, _ in roles):
        return plan, texts
    read = with_side(plan.read, "", progress.note, *(sampled(*role) for role in roles))
    data_read = texts.read if texts.selection else read
    task_read = texts.task_read if texts.own_task else read
    texts = dataclasses.replace(texts, read=data_read, task_read=task_read)
    return dataclasses.replace(plan, read=read), texts


def tags_of(texts: TrainingInputs) -> list[str]:
    """The tags of the domains of all pairs, sorted; those of a selection are of its corpus."""
    data = texts.data
    if texts.selection is not None:
        data = [Source(**s) for s in texts.selection["corpus"]]
    return domain_tags(s.name for s in (*data, *texts.task, *texts.replay, *texts.then))


def chunks_of(tokens: Tokens, weights: NDArray[np.float32], room: int, *, store: int = 0) -> Chunks:
    """The chunks of texts, or one chunk for each pair; see `cut_chunks` and `whole_pairs`."""
    if isinstance(tokens, PairTokens):
        return whole_pairs(tokens.sides, weights, room, store=store)
    return cut_chunks(tokens.lengths, weights, room, store=store)


def describe_pairs(
    kind: str, tokens: PairTokens, counts: dict[str, Any], longest: int, progress: Progress
) -> dict[str, Any]:
    """Count pairs that are too long, and warn of a side that the vocabulary cannot spell."""
    long = int((tokens.sides.max(1, initial=0) > longest).sum())
    if long:
        progress.note(
            f"{long:,} of {len(tokens):,} pairs of {kind} have a side of more than {longest} "
            "tokens and are left out (`train.length`)."
        )
    totals = {"source": counts["source_tokens"]}
    totals["target"] = counts["tokens"] - totals["source"]
    for side, total in totals.items():
        unknown = counts[f"unknown_{side}"]
        if unknown > _UNKNOWN * total:
            progress.warn(
                f"The model's vocabulary cannot spell the {side} side of {kind}: {unknown:,} of "
                f"{total:,} tokens ({100 * unknown / total:.0f} %) are unknown. Name a model of "
                "both languages, or start from an untrained one with `model.init=small`."
            )
    return {"too_long": long}
