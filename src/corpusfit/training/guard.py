"""Which texts a training leaves out, as they contain a held-out text; found once, then stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.plan import ReadPlan
from corpusfit.decontamination.finder import HeldoutIndex
from corpusfit.decontamination.leaks import find_all_leaks
from corpusfit.text.context import Run
from corpusfit.training.inputs import TrainingInputs

_MANY = 0.05
"""Share of texts that a guard leaves out, from which that is a warning."""


def find_contaminated(
    splits: Mapping[str, Sequence[str]],
    texts: TrainingInputs,
    read: ReadPlan,
    cache_file: Path,
    context: Run,
    *,
    replayed: bool = True,
    then_task: bool = False,
    pairs: bool = False,
) -> tuple[NDArray[np.uint64], dict[str, Any]]:
    """The keys of all contaminated texts: those that contain a held-out text."""
    # a document or a segment is left out whole
    if cache_file.exists():
        arrays, figures = read_arrays(cache_file)
        return arrays["keys"], figures
    index = HeldoutIndex.of_texts(text for split in splits.values() for text in split)
    figures = {"texts": int(index.texts.max(initial=-1)) + 1}
    keys = np.empty(0, np.uint64)
    roles = {"data": (texts.data or texts.task, texts.read)}
    if replayed:
        roles["replay"] = texts.replay, read
    if then_task:
        roles["task"] = texts.task, texts.task_read
    for role, (sources, how) in roles.items():
        if not sources:
            continue
        run = context.at(cache_file.parent)
        leaks = find_all_leaks(index, sources, how.sides() if pairs else [how], run)
        different = len(np.unique(leaks.heldout))
        holders = len(np.unique(leaks.places(), axis=0))
        figures[role] = {"texts": leaks.texts, "holders": holders, "held": different}
        keys = np.union1d(keys, leaks.keys)
        if holders:
            # a few are what the guard is for
            many = holders > _MANY * leaks.texts
            (context.progress.warn if many else context.progress.note)(
                f"{different:,} of {figures['texts']:,} different held-out texts are in `{role}`: "
                f"{holders:,} of {leaks.texts:,} texts contain one and are left out."
            )
        else:
            context.progress.note(
                f"None of {figures['texts']:,} different held-out texts is in `{role}` "
                f"({leaks.texts:,} texts)."
            )
    write_arrays(cache_file, {"keys": keys}, figures)
    return keys, figures
