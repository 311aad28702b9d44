"""Report what of a task's held-out texts lies in text to train on: the command `contamination`.

What: by split, how many texts were found, in how many texts to train on, from where; and examples.
Why: pre-training on the test texts makes every score after it worthless, and piles of web text
hold them more often than one thinks.
Trade-off: the text is read once more for it, at about the speed at which it is cut into words;
aligned pairs twice, as a text of either side may be the task's.
Reference: Aharoni and Goldberg (2020), Table 8, for overlaps within a task.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import EmptyInputError
from corpusfit.evaluate.contamination import HeldoutIndex
from corpusfit.pipeline.contamination.heldout import held_out
from corpusfit.pipeline.contamination.match import Leaks, find_all_leaks
from corpusfit.pipeline.inputs import given
from corpusfit.pipeline.run import Machine
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

_EXAMPLES = 6


@dataclass(frozen=True)
class SplitContamination:
    """What was found of one split of a task.

    Attributes:
        texts: it has.
        found: how many of them are held by a text to train on.
        holders: how many texts to train on hold one.
        sources: these, by where they are from, the most first.
    """

    texts: int
    found: int
    holders: int
    sources: dict[str, int]


@dataclass(frozen=True)
class Example:
    """One find.

    Attributes:
        split: of the task.
        text: the task's.
        containment: the share of its 5-grams that was found (an estimate for a long one).
        source: where the text that holds it is from.
        row: its row in the file that was read.
        excerpt: of that text, from about where what was found begins.
    """

    split: str
    text: str
    containment: float
    source: str
    row: int
    excerpt: str


@dataclass(frozen=True, eq=False)
class Contamination:
    """How much of a task's held-out text lies in text that is to be trained on.

    Attributes:
        texts: to train on, that were read.
        size: their bytes.
        holders: how many of them hold a held-out text.
        splits: by the name of the split.
        examples: of each split a few, from the fullest to the least.
        rows: by source, the rows that hold one.
        keys: uint64, the different keys of these texts (`adapt/keys.py`), increasing.
        seconds: that reading and looking took.
    """

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
    """Report what of a task's held-out texts lies in text that is to be trained on.

    Args:
        task: as `held_out` takes it; labels are not needed.
        data: the folder of a selection, or inputs as `--corpus` takes them.
        read: how rows become texts, of both.
        task_field: the field with the task's text, where it is another than the data's.
        machine: where it runs.

    Raises:
        CorpusfitError: an input cannot be found or read, or has no text.
    """
    read.check()
    with machine.start() as engine, machine.scratch() as spool:
        engine.require_shared(spool, "--cache")
        task_read = dataclasses.replace(read, text_field=task_field or read.text_field)
        splits = held_out(task, task_read, spool, machine.progress, setting="task")
        watched = HeldoutIndex.of_texts(t for texts in splits.values() for t in texts)
        texts = given(data, (), (), read, spool, engine, machine)
        began = time.perf_counter()
        origin = "source" if texts.selection is not None else ""
        leaks = find_all_leaks(
            watched, texts.data, texts.read, spool, engine, machine, origin=origin
        )
        seconds = time.perf_counter() - began
    if not leaks.texts:
        raise EmptyInputError(
            f"--data has no usable row ({leaks.reasons}). Name the field with the text with "
            "--text-field."
        )
    return _reported(splits, watched, leaks, texts.data, seconds)


def _reported(
    splits: Mapping[str, list[str]],
    watched: HeldoutIndex,
    leaks: Leaks,
    sources: Sequence[Source],
    seconds: float,
) -> Contamination:
    """What was found, by split and by source."""
    counts: dict[str, SplitContamination] = {}
    examples: list[Example] = []
    for name, texts in splits.items():
        numbers = watched.numbers(texts)
        pairs = np.flatnonzero(np.isin(leaks.watched, numbers))
        counts[name] = _counted(leaks, numbers, pairs)
        examples += _examples(name, leaks, dict(zip(numbers.tolist(), texts, strict=True)), pairs)
    different = np.unique(leaks.places(), axis=0)
    rows: dict[str, list[int]] = {}
    for source, row in different.tolist():
        rows.setdefault(sources[source].name, []).append(row)
    return Contamination(
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
    """What was found of a split, whose texts have these numbers and are in these pairs."""
    _, first = np.unique(leaks.places()[pairs], axis=0, return_index=True)
    origins = Counter(leaks.origins[p] for p in pairs[first])
    return SplitContamination(
        len(numbers),
        int(np.isin(numbers, leaks.watched).sum()),
        len(first),
        dict(sorted(origins.items(), key=lambda c: (-c[1], c[0]))),
    )


def _examples(
    split: str, leaks: Leaks, texts: Mapping[int, str], pairs: NDArray[np.int64]
) -> list[Example]:
    """A few of a split's finds; its texts by number."""
    return [
        Example(
            split,
            texts[int(leaks.watched[pair])],
            round(float(leaks.containment[pair]), 3),
            leaks.origins[pair],
            int(leaks.rows[pair]),
            leaks.excerpts[pair],
        )
        for pair in _spread(leaks, pairs)
    ]


def _spread(leaks: Leaks, pairs: NDArray[np.int64]) -> list[int]:
    """A few pairs to show, from the fullest to the least."""
    shown = [p for p in pairs.tolist() if p in leaks.excerpts]
    shown.sort(key=lambda p: (-leaks.containment[p], p))
    if len(shown) <= _EXAMPLES:
        return shown
    return [shown[int(i)] for i in np.linspace(0, len(shown) - 1, _EXAMPLES)]
