"""The command `contamination`: reports held-out texts of a task in text to train on."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.evaluation.contamination.finder import HeldoutIndex
from corpusfit.evaluation.contamination.heldout import held_out
from corpusfit.evaluation.contamination.match import Leaks, find_all_leaks, find_leaks_in_rows
from corpusfit.selection.write_job import read_selected
from corpusfit.text.context import Machine
from corpusfit.training.inputs import find_training_inputs

_EXAMPLES = 6

Place = Callable[[int, int], tuple[str, int]]
"""From the number of a source and a row in it to the names that people know."""


@dataclass(frozen=True)
class SplitContamination:
    """Contamination by one split of a task.

    Attributes:
        texts: number of different texts of the split.
        found: number of those that a text to train on contains.
        holders: number of texts to train on that contain one.
        sources: number of those texts by origin, in descending order.
    """

    texts: int
    found: int
    holders: int
    sources: dict[str, int]


@dataclass(frozen=True)
class Example:
    """One find.

    Attributes:
        split: split of the task.
        text: the task's text.
        containment: share of its 5-grams that was found (an estimate for a long text).
        source: origin of the text that contains it.
        row: row of that text in its file.
        excerpt: excerpt of that text, from about where the match begins.
    """

    split: str
    text: str
    containment: float
    source: str
    row: int
    excerpt: str


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
        texts = find_training_inputs(data, (), (), read, context)
        began = time.perf_counter()
        origin = "source" if texts.selection is not None else ""
        pairs = texts.selection is not None and texts.selection["selected"].get("aligned")
        find = find_leaks_in_rows if pairs else find_all_leaks
        leaks = find(watched, texts.data, texts.read, context, origin=origin)
        seconds = time.perf_counter() - began
    if not leaks.texts:
        raise EmptyInputError(
            f"`data` has no usable row ({leaks.reasons}). Set `read.text_field` to the field with "
            "the text."
        )
    place = _in_corpus(texts.data) if texts.selection is not None else _in_data(texts.data)
    return _reported(tuple(task), splits, watched, leaks, place, seconds)


def _in_data(sources: Sequence[Source]) -> Place:
    return lambda source, row: (sources[source].name, row)


def _in_corpus(parts: Sequence[Source]) -> Place:
    """Where a row of a selection's part stands in the corpus."""

    @cache
    def rows(part: int) -> list[tuple[str, int]]:
        found = read_selected(Path(parts[part].url))
        return [(segment["source"], segment["row"]) for segment in found]

    return lambda source, row: rows(source)[row]


def _reported(
    task: tuple[str, ...],
    splits: Mapping[str, list[str]],
    watched: HeldoutIndex,
    leaks: Leaks,
    place: Place,
    seconds: float,
) -> Contamination:
    """The finds, by split and by source."""
    counts: dict[str, SplitContamination] = {}
    examples: list[Example] = []
    for name, texts in splits.items():
        numbers = watched.numbers(texts)
        pairs = np.flatnonzero(np.isin(leaks.watched, numbers))
        counts[name] = _counted(leaks, numbers, pairs)
        by_number = dict(zip(numbers.tolist(), texts, strict=True))
        examples += _examples(name, leaks, by_number, pairs, place)
    different = np.unique(leaks.places(), axis=0)
    rows: dict[str, list[int]] = {}
    for name, row in sorted({place(*found) for found in different.tolist()}):
        rows.setdefault(name, []).append(row)
    return Contamination(
        task,
        leaks.texts,
        leaks.size,
        len(different),
        counts,
        examples,
        rows,
        np.unique(leaks.keys),
        round(seconds, 3),
    )


def _counted(
    leaks: Leaks, numbers: NDArray[np.int64], pairs: NDArray[np.int64]
) -> SplitContamination:
    """The contamination by a split, from the numbers of its texts and of their pairs."""
    _, first = np.unique(leaks.places()[pairs], axis=0, return_index=True)
    origins = Counter(leaks.origins[p] for p in pairs[first])
    return SplitContamination(
        len(numbers),
        int(np.isin(numbers, leaks.watched).sum()),
        len(first),
        dict(sorted(origins.items(), key=lambda c: (-c[1], c[0]))),
    )


def _examples(
    split: str,
    leaks: Leaks,
    texts: Mapping[int, str],
    pairs: NDArray[np.int64],
    place: Place,
) -> list[Example]:
    """A few finds of a split, whose texts are given by number."""
    return [
        Example(
            split,
            texts[int(leaks.watched[pair])],
            round(float(leaks.containment[pair]), 3),
            leaks.origins[pair],
            place(int(leaks.source[pair]), int(leaks.rows[pair]))[1],
            leaks.excerpts[pair],
        )
        for pair in _spread(leaks, pairs)
    ]


def _spread(leaks: Leaks, pairs: NDArray[np.int64]) -> list[int]:
    """A few pairs to show, from the highest to the lowest containment."""
    shown = [p for p in pairs.tolist() if p in leaks.excerpts]
    shown.sort(key=lambda p: (-leaks.containment[p], p))
    if len(shown) <= _EXAMPLES:
        return shown
    return [shown[int(i)] for i in np.linspace(0, len(shown) - 1, _EXAMPLES)]
