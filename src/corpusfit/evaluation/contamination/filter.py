"""Leaves texts that contain held-out texts out of a training (`adapt --guard`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Progress
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.contamination.finder import HeldoutIndex
from corpusfit.evaluation.contamination.match import find_all_leaks, find_leaks, find_leaks_in_rows
from corpusfit.text.context import RunContext
from corpusfit.training.inputs import TrainingInputs


def find_contaminated(
    splits: Mapping[str, Sequence[str]],
    texts: TrainingInputs,
    read: ReadPlan,
    kept: Path,
    context: RunContext,
    *,
    then_task: bool = False,
    pairs: bool = False,
) -> tuple[NDArray[np.uint64], dict[str, Any]]:
    """The keys of all contaminated texts: those that contain a held-out text.

    A contaminated text, a document or a segment, is left out whole.
    """
    if kept.exists():
        arrays, figures = read_arrays(kept)
        return arrays["keys"], figures
    held_out = HeldoutIndex.of_texts(t for found in splits.values() for t in found)
    figures = {"texts": int(held_out.texts.max(initial=-1)) + 1}
    keys = np.empty(0, np.uint64)
    roles = {"data": (texts.data or texts.task, texts.read), "replay": (texts.replay, read)}
    if then_task:
        roles["task"] = texts.then or texts.task, texts.task_read
    for role, (sources, how) in roles.items():
        if sources:
            here = context.at(kept.parent)
            if pairs and not corpus.is_parallel(sources):  # the rows of a selection
                found = find_leaks_in_rows(held_out, sources, how, here)
            else:
                found = (find_all_leaks if pairs else find_leaks)(held_out, sources, how, here)
            holders, found_count = found.holders(), len(np.unique(found.watched))
            figures[role] = {"texts": found.texts, "holders": holders, "held": found_count}
            keys = np.union1d(keys, found.keys)
            _report(context.progress, role, figures)
    write_arrays(kept, {"keys": keys}, figures)
    return keys, figures


def _report(progress: Progress, role: str, figures: dict[str, Any]) -> None:
    counts = figures[role]
    if counts["holders"]:
        progress.warn(
            f"{counts['held']:,} of {figures['texts']:,} different texts of `guard` are in "
            f"`{role}`: {counts['holders']:,} of {counts['texts']:,} texts contain one and are "
            "left out."
        )
    else:
        progress.note(
            f"None of {figures['texts']:,} different texts of `guard` is in `{role}` "
            f"({counts['texts']:,} texts)."
        )
