"""Find, report and leave out training texts that contain held-out texts of a task."""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Job
from corpusfit.core.errors import EmptyInputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Source, Texts, file_of, in_file
from corpusfit.evaluation.decontamination.finder import (
    ContaminationFinder,
    ContaminationMatches,
    HeldoutIndex,
)
from corpusfit.evaluation.decontamination.heldout import each_text, held_out, with_first_text
from corpusfit.selection.result import read_selected
from corpusfit.text.context import Machine, Run
from corpusfit.text.reading import Reasons, Tally, read_shard
from corpusfit.text.same_text import folded, text_keys
from corpusfit.training.inputs import TrainingInputs, find_training_inputs

_SHOWN = 8  # excerpts of a shard
_LENGTH = 300  # bytes of an excerpt


@dataclass(frozen=True, eq=False)
class Leaks:
    """m pairs of a text and a held-out text that it contains, by shard, row and held-out text."""

    # Each takes about 30 bytes of memory.

    texts: int  # number of texts that were read
    source: NDArray[np.int64]  # int64 [m], number of the source of the text
    rows: NDArray[np.int64]  # int64 [m], row of the text in its source
    watched: NDArray[np.int64]  # int64 [m], number of the held-out text
    containment: NDArray[np.float32]  # float32 [m], share of the held-out text's 5-grams
    keys: NDArray[np.uint64]  # uint64 [m], key of the text
    excerpts: dict[int, str]  # from the match on, of a few texts, by pair
    reasons: Reasons = field(default_factory=Reasons)  # of rejected rows

    def places(self) -> NDArray[np.int64]:
        """int64 [m, 2]: source and row of the text of each pair."""
        return np.stack([self.source, self.rows], 1)


@dataclass(frozen=True)
class FindWatched(Job[Shard, tuple[int, Tally, Leaks]]):
    """Find held-out texts in the texts of a shard."""

    read: ReadPlan
    names: tuple[str, ...]
    watched: Path  # file of the held-out texts, as `HeldoutIndex.write` wrote it

    def start(self) -> Callable[[Shard], tuple[int, Tally, Leaks]]:
        finder = ContaminationFinder(HeldoutIndex.read(self.watched))

        def work(shard: Shard) -> tuple[int, Tally, Leaks]:
            documents, tally = read_shard(shard, self.read, self.names)
            matches = finder.find(documents.texts)
            # a text that contains several held-out ones is hashed once
            texts, nth = np.unique(matches.text, return_inverse=True)
            keys = text_keys([documents.texts[i].as_py() for i in texts.tolist()])
            holders = documents.row[matches.text]
            leaks = Leaks(
                tally.documents,
                tally.source + file_of(holders),
                in_file(holders),
                matches.watched,
                matches.containment,
                keys[nth],
                _excerpts(documents.texts, matches),
            )
            return shard.index, tally, leaks

        return work


def _excerpts(texts: Texts, matches: ContaminationMatches) -> dict[int, str]:
    """Excerpts of a few matches, spread from the highest containment to the lowest."""
    if not len(matches):
        return {}
    fullest = np.argsort(-matches.containment, kind="stable")
    shown = np.unique(np.linspace(0, len(matches) - 1, _SHOWN).astype(np.int64))
    excerpts = {}
    for match in fullest[shown].tolist():
        text = texts[int(matches.text[match])].as_py()
        byte = int(matches.byte[match])
        # the offset counts bytes of the `folded` text: find the character that reaches it
        ends = range(len(text))
        begin = bisect_left(ends, byte, key=lambda end: len(folded(text[:end]).encode()))
        data = text[begin : begin + _LENGTH].encode()[:_LENGTH]
        excerpts[match] = data.decode(errors="ignore")
    return excerpts


def find_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: Run,
) -> Leaks:
    """Search all texts of the sources for held-out texts.

    Reference: Broder (1997), On the resemblance and containment of documents.
    """
    path = context.work / "watched.safetensors"
    watched.write(path)
    job = FindWatched(read, tuple(s.name for s in sources), path)
    try:
        with context.progress.showing("look for held-out texts", sum(s.size for s in sources)):
            shards = context.shards_of(sources, read, corpus.packed)
            parts = list(context.map(job, shards))
    finally:
        path.unlink(missing_ok=True)
    parts.sort(key=lambda part: part[0])
    reasons = Reasons()
    for _, tally, _ in parts:
        reasons.add(tally.rejects)
    return dataclasses.replace(_joined([leaks for *_, leaks in parts]), reasons=reasons)


def find_all_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    reads: Sequence[ReadPlan],
    context: Run,
) -> Leaks:
    """As `find_leaks`, in each text of a row: all that the plans read."""
    of_texts = [find_leaks(watched, sources, read, context) for read in reads]
    # a row is one text to train on; its key is that of the text that contains the held-out text
    first = of_texts[0]
    return dataclasses.replace(_joined(of_texts), texts=first.texts, reasons=first.reasons)


def _joined(parts: Sequence[Leaks]) -> Leaks:
    excerpts: dict[int, str] = {}
    pairs = 0
    for part in parts:
        excerpts |= {pairs + at: text for at, text in part.excerpts.items()}
        pairs += len(part.rows)
    return Leaks(
        sum(part.texts for part in parts),
        np.concatenate([np.empty(0, np.int64), *(part.source for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.watched for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.containment for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        excerpts,
    )


def find_contaminated(
    splits: Mapping[str, Sequence[str]],
    texts: TrainingInputs,
    read: ReadPlan,
    cache_file: Path,
    context: Run,
    *,
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
    roles = {"data": (texts.data or texts.task, texts.read), "replay": (texts.replay, read)}
    if then_task:
        roles["task"] = texts.task, texts.task_read
    for role, (sources, how) in roles.items():
        if not sources:
            continue
        run = context.at(cache_file.parent)
        leaks = find_all_leaks(index, sources, how.sides() if pairs else [how], run)
        different = len(np.unique(leaks.watched))
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


_MANY = 0.05
"""Share of texts that a guard leaves out, from which that is a warning."""
_EXAMPLES = 6


@dataclass(frozen=True)
class SplitContamination:
    """Contamination by one split of a task."""

    texts: int  # number of different texts of the split
    found: int  # number of these that a training text contains
    holders: int  # number of training texts that contain one
    sources: dict[str, int]  # number of those texts by origin, in descending order


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
        rows: contaminated rows, by source; of a selection, those of the corpus.
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
        watched = HeldoutIndex.of_texts(t for texts in splits.values() for t in texts)
        inputs = find_training_inputs(data, (), (), with_first_text(read), context)
        selection = inputs.selection
        if selection is None:
            reads = each_text(inputs.data, read)
        else:
            aligned = bool(selection["selected"].get("aligned"))
            reads = list(inputs.read.sides()) if aligned else [inputs.read]
        leaks = find_all_leaks(watched, inputs.data, reads, context)
    if not leaks.texts:
        raise EmptyInputError(
            f"`data` has no usable row ({leaks.reasons}). Set `read.text_field` to the field with "
            "the text."
        )

    # file and row to show; rows of a selection are traced back to the corpus
    everywhere = leaks.places()
    different = np.unique(everywhere, axis=0)
    named: dict[tuple[int, int], tuple[str, int]] = {}
    for source, places in itertools.groupby(different.tolist(), lambda place: int(place[0])):
        found = {row for _, row in places}
        if selection is None:
            named |= {(source, row): (inputs.data[source].name, row) for row in found}
            continue
        for row, segment in enumerate(read_selected(Path(inputs.data[source].url))):
            if row in found:
                named[source, row] = segment["source"], segment["row"]
    origins = [named[source, row] for source, row in everywhere.tolist()]

    counts: dict[str, SplitContamination] = {}
    examples: list[Example] = []
    for name, texts in splits.items():
        numbers = watched.numbers(texts)
        pairs = np.flatnonzero(np.isin(leaks.watched, numbers))
        # a row that contains several held-out texts counts once
        _, first = np.unique(everywhere[pairs], axis=0, return_index=True)
        by_source = Counter(origins[pair][0] for pair in pairs[first].tolist())
        counts[name] = SplitContamination(
            len(numbers),
            int(np.isin(numbers, leaks.watched).sum()),
            len(first),
            dict(sorted(by_source.items(), key=lambda c: (-c[1], c[0]))),
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
                *origins[pair],
                leaks.excerpts[pair],
            )
            for pair in shown
        ]
    # the rows of all splits, each once, by file
    rows: dict[str, list[int]] = {}
    for name, row in sorted(set(named.values())):
        rows.setdefault(name, []).append(row)
    return Contamination(
        tuple(task),
        leaks.texts,
        len(different),
        counts,
        examples,
        rows,
    )
