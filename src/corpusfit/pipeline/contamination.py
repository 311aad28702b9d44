"""Look for a task's held-out texts in text that is to be trained on: `contamination`, `--guard`.

What: reads the task's dev and test texts, scans the other text for them, says what was found where;
and what must be left out of a training.
Why: pre-training on the test texts makes every score after it worthless, and piles of web text
hold them more often than one thinks.
Trade-off: the text is read once more for it, at the speed of a lexical method. What is found is
held in memory: some 30 bytes for each pair of a watched text and a text that holds it.
Reference: Broder (1997); Aharoni and Goldberg (2020), Table 8, for overlaps between splits.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.engine import Engine
from corpusfit.errors import EmptyInputError
from corpusfit.evaluate.contamination import Watched
from corpusfit.jobs.contamination import Finds, FindWatched
from corpusfit.jobs.reading import Reasons
from corpusfit.pipeline.given import given
from corpusfit.pipeline.run import Machine
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

__all__ = [
    "Contamination",
    "Example",
    "Overlap",
    "SplitOverlap",
    "contamination",
    "find_overlap",
    "held_out",
]

HELD_OUT = frozenset({"dev", "devel", "val", "valid", "validation", "test"})
_EXAMPLES = 6
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class SplitOverlap:
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
        excerpt: of that text, about the middle of what was found.
    """

    split: str
    text: str
    containment: float
    source: str
    row: int
    excerpt: str


@dataclass(frozen=True, eq=False)
class Overlap:
    """What sources hold of watched texts: m pairs, by shard, row and watched text.

    Attributes:
        texts: read.
        size: their bytes.
        source: int64 [m], the number of the source of the text that holds.
        rows: int64 [m], its row there.
        watched: int64 [m], the number of the text that is held.
        containment: float32 [m].
        keys: uint64 [m], the key of the text that holds.
        origins: where it is from.
        excerpts: by pair, of some pairs.
        reasons: of rows that could not be read.
    """

    texts: int
    size: int
    source: NDArray[np.int64]
    rows: NDArray[np.int64]
    watched: NDArray[np.int64]
    containment: NDArray[np.float32]
    keys: NDArray[np.uint64]
    origins: list[str]
    excerpts: dict[int, str]
    reasons: Reasons = field(default_factory=Reasons)


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
    splits: dict[str, SplitOverlap]
    examples: list[Example]
    rows: dict[str, list[int]]
    keys: NDArray[np.uint64]
    seconds: float


def held_out(
    inputs: Sequence[str], read: ReadPlan, spool: Path, *, setting: str
) -> dict[str, list[str]]:
    """The texts that may not be trained on, by split.

    Args:
        inputs: one folder, of which the files that are named for dev or test are meant; or files.
        read: how rows become texts.
        spool: folder for a copy of standard input.
        setting: what they were given as, for errors.

    Raises:
        CorpusfitError: an input cannot be found or read.
        EmptyInputError: there is no dev or test split, or no text in it.
    """
    sources = corpus.find(inputs, read, spool=spool, role=setting)
    if any(Path(given).is_dir() for given in inputs):
        sources = [s for s in sources if HELD_OUT & set(_WORD.findall(s.name.lower()))]
    splits: dict[str, list[str]] = {}
    reasons = Reasons()
    for shard in corpus.shards(sources, read):
        found, rejected = corpus.documents(shard, read)
        reasons.add((r.row, r.byte, r.reason) for r in rejected)
        name = sources[shard.source].name.partition(".")[0]
        splits.setdefault(name, []).extend(found.texts.to_pylist())
    if not any(splits.values()):
        why = str(reasons) if sources else "no file of the folder is named dev or test"
        raise EmptyInputError(
            f"--{setting} has no text to look for ({why}). Name the files of dev and test, and the "
            "field that their texts are in with --text-field."
        )
    return splits


def find_overlap(
    watched: Watched,
    sources: list[Source],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
    *,
    origin: str = "",
) -> Overlap:
    """Look for watched texts in every text of some sources.

    Args:
        watched: what may not be trained on.
        sources: found before.
        read: how their rows become texts.
        spool: folder that the workers see.
        engine: started.
        machine: told of progress.
        origin: the field that says where a row is from, if not its source.

    Raises:
        CorpusfitError: a source cannot be read.
    """
    path = spool / "watched.safetensors"
    watched.write(path)
    job = FindWatched(read, tuple(s.name for s in sources), path, origin)
    machine.progress.begin("look for held-out texts", sum(s.size for s in sources))
    before = Counter[int]()

    def pieces() -> Any:
        for shard in corpus.shards(sources, read):
            machine.progress.advance(shard.position - before[shard.source])
            before[shard.source] = shard.position
            yield shard

    try:
        found = sorted(engine.map(job, pieces()), key=lambda f: f.shard)
    finally:
        machine.progress.end()
        path.unlink(missing_ok=True)
    return _joined(found)


def _joined(found: list[Finds]) -> Overlap:
    """The finds of all shards, in their order."""
    reasons = Reasons()
    excerpts: dict[int, str] = {}
    origins: list[str] = []
    for finds in found:
        reasons.add(finds.tally.rejects)
        excerpts |= {len(origins) + e.find: e.text for e in finds.excerpts}
        origins += finds.origins
    source = [np.full(len(f.rows), f.tally.source, np.int64) for f in found]
    return Overlap(
        sum(f.tally.documents for f in found),
        sum(f.size for f in found),
        np.concatenate([np.empty(0, np.int64), *source]),
        np.concatenate([np.empty(0, np.int64), *(f.rows for f in found)]),
        np.concatenate([np.empty(0, np.int64), *(f.watched for f in found)]),
        np.concatenate([np.empty(0, np.float32), *(f.containment for f in found)]),
        np.concatenate([np.empty(0, np.uint64), *(f.keys for f in found)]),
        origins,
        excerpts,
        reasons,
    )


def contamination(
    task: Sequence[str],
    data: Sequence[str],
    *,
    read: ReadPlan | None = None,
    machine: Machine | None = None,
) -> Contamination:
    """Report what of a task's held-out texts lies in text that is to be trained on.

    Args:
        task: a folder with dev and test splits, or files of such texts.
        data: the folder of a selection, or inputs as `--corpus` takes them.
        read: how rows become texts, of both.
        machine: where it runs.

    Raises:
        CorpusfitError: an input cannot be found or read, or has no text.
    """
    read, machine = read or ReadPlan(), machine or Machine()
    with machine.start() as engine, machine.scratch() as spool:
        engine.require_shared(spool, "--cache")
        splits = held_out(task, read, spool, setting="task")
        watched = Watched.of_texts(t for texts in splits.values() for t in texts)
        texts = given(data, (), (), read, spool, engine, machine)
        began = time.perf_counter()
        origin = "source" if texts.selection is not None else ""
        overlap = find_overlap(
            watched, texts.data, texts.read, spool, engine, machine, origin=origin
        )
        seconds = time.perf_counter() - began
    if not overlap.texts:
        raise EmptyInputError(
            f"--data has no usable row ({overlap.reasons}). Name the field with the text with "
            "--text-field."
        )
    return _reported(splits, watched, overlap, texts.data, seconds)


def _reported(
    splits: Mapping[str, list[str]],
    watched: Watched,
    overlap: Overlap,
    sources: Sequence[Source],
    seconds: float,
) -> Contamination:
    """What was found, by split and by source."""
    counts: dict[str, SplitOverlap] = {}
    examples: list[Example] = []
    places = np.stack([overlap.source, overlap.rows], 1)
    for name, texts in splits.items():
        numbers = watched.numbers(texts)
        pairs = np.flatnonzero(np.isin(overlap.watched, numbers))
        _, first = np.unique(places[pairs], axis=0, return_index=True)
        origins = Counter(overlap.origins[p] for p in pairs[first])
        counts[name] = SplitOverlap(
            len(texts),
            int(np.isin(numbers, overlap.watched).sum()),
            len(first),
            dict(sorted(origins.items(), key=lambda c: (-c[1], c[0]))),
        )
        texts_of = dict(zip(numbers.tolist(), texts, strict=True))
        for pair in _spread(overlap, pairs):
            examples.append(
                Example(
                    name,
                    texts_of[int(overlap.watched[pair])],
                    round(float(overlap.containment[pair]), 3),
                    overlap.origins[pair],
                    int(overlap.rows[pair]),
                    overlap.excerpts[pair],
                )
            )
    different = np.unique(places, axis=0)
    rows: dict[str, list[int]] = {}
    for source, row in different.tolist():
        rows.setdefault(sources[source].name, []).append(row)
    return Contamination(
        overlap.texts,
        overlap.size,
        len(different),
        counts,
        examples,
        rows,
        np.unique(overlap.keys),
        round(seconds, 3),
    )


def _spread(overlap: Overlap, pairs: NDArray[np.int64]) -> list[int]:
    """A few pairs to show, from the fullest to the least."""
    shown = [p for p in pairs.tolist() if p in overlap.excerpts]
    shown.sort(key=lambda p: (-overlap.containment[p], p))
    if len(shown) <= _EXAMPLES:
        return shown
    return [shown[int(i)] for i in np.linspace(0, len(shown) - 1, _EXAMPLES)]
