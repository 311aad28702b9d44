"""Report which held-out texts of a task are in text to train on, and where."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.decontamination.finder import HeldoutIndex
from corpusfit.decontamination.leaks import Leaks, find_all_leaks
from corpusfit.labeled.heldout import each_text, held_out, with_first_text
from corpusfit.selection.result import read_selected
from corpusfit.text.context import Machine
from corpusfit.training.inputs import find_training_inputs

_EXAMPLES = 6


@dataclass(frozen=True)
class SplitContamination:
    """Contamination by one split of a task."""

    texts: int  # number of different texts of the split
    found: int  # number of these that a training text contains
    holders: int  # number of training texts that contain one
    sources: dict[str, int]  # number of such training texts by origin, in descending order


@dataclass(frozen=True)
class Example:
    """One contaminated text."""

    split: str  # split of the task
    text: str  # the task's text
    containment: float  # share of its 5-grams that was found (an estimate for a long text)
    source: str  # origin of the text that contains it
    row: int  # row of that text in its file
    excerpt: str  # excerpt of that text, from about where the match begins


@dataclass(frozen=True)
class Contamination:
    """Contamination of text to train on by a task's held-out texts.

    Attributes:
        task: the held-out input, as the user named it.
        texts: number of texts to train on.
        holders: number of those that contain a held-out text.
        splits: contamination by split.
        examples: a few finds of each split, from the highest to the lowest containment.
        rows: contaminated rows by source; for a selection, rows of its corpus.
    """

    task: tuple[str, ...]
    texts: int
    holders: int
    splits: dict[str, SplitContamination]
    examples: list[Example]
    rows: dict[str, list[int]]


def report_contamination(
    task: Sequence[str],
    data: Sequence[str],
    *,
    read: ReadPlan,
    task_field: str = "",
    machine: Machine,
) -> Contamination:
    """Report which of a task's held-out texts are in text to train on.

    The rows are read once for each of their texts: of aligned pairs both, and of other rows those
    of all fields that `text_field` lists.

    Reference: Aharoni and Goldberg (2020), Table 8, for overlaps within a task.
    """
    read.check()
    with machine.running() as context:
        task_read = dataclasses.replace(read, text_field=task_field or read.text_field)
        splits = held_out(task, task_read, context.progress, setting="task")
        heldout = HeldoutIndex.of_texts(t for texts in splits.values() for t in texts)
        inputs = find_training_inputs(data, (), (), with_first_text(read), context)
        selection = inputs.selection
        if selection is None:
            reads = each_text(inputs.data, read)
        else:
            aligned = bool(selection["selected"].get("aligned"))
            reads = list(inputs.read.sides()) if aligned else [inputs.read]
        leaks = find_all_leaks(heldout, inputs.data, reads, context)
    if not leaks.texts:
        raise EmptyInputError(
            f"`data` has no usable row ({leaks.reasons}). Set `read.text_field` to the field with "
            "the text."
        )
    origins = _origins(leaks, inputs.data, of_selection=selection is not None)
    numbers = {name: heldout.numbers(texts) for name, texts in splits.items()}
    # the rows that leak of any split, each once, by file
    rows: dict[str, list[int]] = {}
    for name, row in sorted(set(origins)):
        rows.setdefault(name, []).append(row)
    return Contamination(
        tuple(task),
        leaks.texts,
        len(np.unique(leaks.places(), axis=0)),
        {name: _counted(leaks, of_split, origins) for name, of_split in numbers.items()},
        [
            example
            for name, texts in splits.items()
            for example in _examples(name, texts, leaks, numbers[name], origins)
        ],
        rows,
    )


def _origins(
    leaks: Leaks, sources: Sequence[Source], *, of_selection: bool
) -> list[tuple[str, int]]:
    """The file and the row of each pair's text; those of a selection are traced to the corpus."""
    pairs = leaks.places()
    origins: dict[tuple[int, int], tuple[str, int]] = {}
    different = np.unique(pairs, axis=0).tolist()
    for source, places in itertools.groupby(different, lambda place: int(place[0])):
        numbers = {row for _, row in places}
        if not of_selection:
            origins |= {(source, row): (sources[source].name, row) for row in numbers}
            continue
        for row, segment in enumerate(read_selected(Path(sources[source].url))):
            if row in numbers:
                origins[source, row] = segment["source"], segment["row"]
    return [origins[source, row] for source, row in pairs.tolist()]


def _counted(
    leaks: Leaks, numbers: NDArray[np.int64], origins: Sequence[tuple[str, int]]
) -> SplitContamination:
    """The contamination by the held-out texts of these numbers."""
    pairs = np.flatnonzero(np.isin(leaks.heldout, numbers))
    # a row that contains several held-out texts counts once
    _, first = np.unique(leaks.places()[pairs], axis=0, return_index=True)
    by_source = Counter(origins[pair][0] for pair in pairs[first].tolist())
    return SplitContamination(
        len(numbers),
        int(np.isin(numbers, leaks.heldout).sum()),
        len(first),
        dict(sorted(by_source.items(), key=lambda c: (-c[1], c[0]))),
    )


def _examples(
    split: str,
    texts: Sequence[str],
    leaks: Leaks,
    numbers: NDArray[np.int64],
    origins: Sequence[tuple[str, int]],
) -> list[Example]:
    """A few pairs to show, from the highest to the lowest containment."""
    pairs = np.flatnonzero(np.isin(leaks.heldout, numbers))
    shown = [pair for pair in pairs.tolist() if pair in leaks.excerpts]
    shown.sort(key=lambda pair: (-leaks.containment[pair], pair))
    if len(shown) > _EXAMPLES:
        shown = [shown[int(i)] for i in np.linspace(0, len(shown) - 1, _EXAMPLES)]
    by_number = dict(zip(numbers.tolist(), texts, strict=True))
    return [
        Example(
            split,
            by_number[int(leaks.heldout[pair])],
            round(float(leaks.containment[pair]), 3),
            *origins[pair],
            leaks.excerpts[pair],
        )
        for pair in shown
    ]
