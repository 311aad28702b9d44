"""The command `contamination`: reports held-out texts of a task in text to train on."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.decontamination.finder import HeldoutIndex
from corpusfit.evaluation.decontamination.heldout import held_out
from corpusfit.evaluation.decontamination.search import find_all_leaks
from corpusfit.selection.result import read_selected
from corpusfit.text.context import Machine
from corpusfit.training.inputs import find_training_inputs

_EXAMPLES = 6


@dataclass(frozen=True)
class SplitContamination:
    """Contamination by one split of a task."""

    texts: int  # number of different texts of the split
    found: int  # number of those that a text to train on contains
    holders: int  # number of texts to train on that contain one
    sources: dict[str, int]  # number of those texts by origin, in descending order


@dataclass(frozen=True)
class Example:
    """One find."""

    split: str  # split of the task
    text: str  # the task's text
    containment: float  # share of its 5-grams that was found (an estimate for a long text)
    source: str  # origin of the text that contains it
    row: int  # row of that text in its file
    excerpt: str  # excerpt of that text, from about where the match begins


@dataclass(frozen=True, eq=False)
class Contamination:
    """Contamination of text to train on by a task's held-out texts.

    Attributes:
        task: what was looked for, as it was named.
        texts: number of texts to train on.
        size: their size in bytes.
        holders: number of those that contain a held-out text.
        splits: contamination by split.
        examples: a few finds of each split, from the highest to the lowest containment.
        rows: contaminated rows, by source; of a selection, those of the corpus.
        keys: uint64, different keys of the contaminated texts (`text/same_text.py`), increasing.
        seconds: time of reading and matching.
    """

    task: tuple[str, ...]
    texts: int
    size: int
    holders: int
    splits: dict[str, SplitContamination]
    examples: list[Example]
    rows: dict[str, list[int]]
    keys: NDArray[np.uint64]
    seconds: float


def report_contamination(
    task: Sequence[str],
    data: Sequence[str],
    *,
    read: ReadPlan,
    task_field: str = "",
    machine: Machine,
) -> Contamination:
    """Report which of a task's held-out texts are in text to train on.

    The text is read once, a parallel corpus once for each side.

    Reference: Aharoni and Goldberg (2020), Table 8, for overlaps within a task.
    """
    read.check()
    with machine.running() as context:
        task_read = dataclasses.replace(read, text_field=task_field or read.text_field)
        splits = held_out(task, task_read, context.work, context.progress, setting="task")
        watched = HeldoutIndex.of_texts(t for texts in splits.values() for t in texts)
        inputs = find_training_inputs(data, (), (), read, context)
        began = time.perf_counter()
        selection = inputs.selection
        leaks = find_all_leaks(
            watched,
            inputs.data,
            inputs.read,
            context,
            origin="" if selection is None else "source",
            selected_pairs=selection is not None and bool(selection["selected"].get("aligned")),
        )
        seconds = time.perf_counter() - began
    if not leaks.texts:
        raise EmptyInputError(
            f"`data` has no usable row ({leaks.reasons}). Set `read.text_field` to the field with "
            "the text."
        )

    @cache
    def selected_rows(part: int) -> list[tuple[str, int]]:
        segments = read_selected(Path(inputs.data[part].url))
        return [(segment["source"], segment["row"]) for segment in segments]

    def named(source: int, row: int) -> tuple[str, int]:
        """File and row as people know them: of a selection, those of the corpus."""
        if selection is not None:
            return selected_rows(source)[row]
        return inputs.data[source].name, row

    counts: dict[str, SplitContamination] = {}
    examples: list[Example] = []
    for name, texts in splits.items():
        numbers = watched.numbers(texts)
        pairs = np.flatnonzero(np.isin(leaks.watched, numbers))
        _, first = np.unique(leaks.places()[pairs], axis=0, return_index=True)
        origins = Counter(leaks.origins[pair] for pair in pairs[first])
        counts[name] = SplitContamination(
            len(numbers),
            int(np.isin(numbers, leaks.watched).sum()),
            len(first),
            dict(sorted(origins.items(), key=lambda c: (-c[1], c[0]))),
        )
        # a few pairs to show, from the highest to the lowest containment
        shown = [pair for pair in pairs.tolist() if pair in leaks.excerpts]
        shown.sort(key=lambda pair: (-leaks.containment[pair], pair))
        if len(shown) > _EXAMPLES:
            shown = [shown[int(i)] for i in np.linspace(0, len(shown) - 1, _EXAMPLES)]
        by_number = dict(zip(numbers.tolist(), texts, strict=True))
        examples += [
            Example(
                name,
                by_number[int(leaks.watched[pair])],
                round(float(leaks.containment[pair]), 3),
                leaks.origins[pair],
                named(int(leaks.source[pair]), int(leaks.rows[pair]))[1],
                leaks.excerpts[pair],
            )
            for pair in shown
        ]
    different = np.unique(leaks.places(), axis=0)
    rows: dict[str, list[int]] = {}
    for name, row in sorted({named(*place) for place in different.tolist()}):
        rows.setdefault(name, []).append(row)
    return Contamination(
        tuple(task),
        leaks.texts,
        leaks.size,
        len(different),
        counts,
        examples,
        rows,
        np.unique(leaks.keys),
        round(seconds, 3),
    )
