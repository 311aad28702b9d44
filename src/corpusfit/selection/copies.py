"""Finds the documents of a scored corpus that are copies, which a selection leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import listed, read_arrays
from corpusfit.core.engine import Job
from corpusfit.core.errors import bad_setting, changed_input
from corpusfit.core.types import Shard
from corpusfit.scoring import table
from corpusfit.selection.copies_job import EXACT, NEAR, KeyDocuments, KeyNear, keys_path
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.groups import find_copies
from corpusfit.text.context import Run


@dataclass(frozen=True)
class Copies:
    """The copies among the documents of a scored corpus.

    Attributes:
        counts: number of copies by kind, `exact` or `near`; empty if copies are kept.
        parts: bool [n], which of the documents of a part are copies, by part; parts without copies
            are left out.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)

    def of(self, index: int, path: Path) -> NDArray[np.bool_]:
        """Which of the m segments of a part belong to a copy, bool [m]."""
        (segment,) = table.read_columns(path, "segment")
        if index not in self.parts:
            return np.zeros(len(segment), np.bool_)
        return np.asarray(self.parts[index][np.cumsum(segment == 0) - 1])


def check_dedup(run: Run) -> None:
    """Check that near-duplicates are asked of texts, not of aligned pairs."""
    if run.plan.choose.dedup == "near" and corpus.is_parallel(run.sources):
        raise bad_setting("`choose.dedup`", "exact or none for aligned pairs", "near")


def copies_of(run: Run, folder: SelectionFolder) -> Copies:
    """Find the copies that the plan leaves out.

    Documents are read to be hashed, unless the method that scored them did so. The keys are stored
    in the run's folder, 8 bytes per document, for near-duplicates 168 more. Memory: 6 bytes per
    document, and what `find_copies` takes.
    """
    if run.plan.choose.dedup == "none":
        return Copies()
    paths, read = dict(table.parts(folder.scores)), run.plan.read
    best = {index: _highest(path) for index, path in paths.items()}
    scores = np.concatenate([np.empty(0, np.float32), *best.values()])
    sizes = {index: len(found) for index, found in best.items()}
    found = partial(_found, run, sizes, scores)
    job = KeyDocuments(read, folder.keys, corpus.is_parallel(run.sources))
    copies = found("find copies", job, folder.keys, (EXACT,))
    counts = {"exact": int(copies.sum())}
    if run.plan.choose.dedup == "near":
        near = found("find near-duplicates", KeyNear(read, folder.near), folder.near, NEAR)
        counts["near"] = int((near & ~copies).sum())
        copies |= near
    split = np.split(copies, np.cumsum(list(sizes.values()))[:-1])
    return Copies(counts, {i: own for i, own in zip(sizes, split, strict=True) if own.any()})


def _highest(path: Path) -> NDArray[np.float32]:
    """The highest score of each of a part's documents."""
    score, segment = table.read_columns(path, "score", "segment")
    first = np.flatnonzero(segment == 0)
    return (
        np.maximum.reduceat(np.asarray(score, np.float32), first)
        if len(first)
        else np.empty(0, np.float32)
    )


def _found(
    run: Run,
    sizes: Mapping[int, int],
    scores: NDArray[np.float32],
    stage: str,
    job: Job[Shard, int],
    folder: Path,
    names: tuple[str, ...],
) -> NDArray[np.bool_]:
    """Which documents share a key of some names with a better one; writes the keys if missing."""
    done = listed(folder)
    missing = {index for index in sizes if keys_path(folder, index).name not in done}
    with run.stage(stage, run.size if missing else 0):
        if missing:
            for _ in run.map(job, (shard for shard in run.shards() if shard.index in missing)):
                pass

        def keys(name: str) -> Iterator[NDArray[np.uint64]]:
            for index, size in sizes.items():
                part = read_arrays(keys_path(folder, index), [name])[0][name]
                if len(part) != size:
                    raise changed_input(", ".join(run.names[:3]), "`overwrite`")
                yield part

        shared = np.zeros(len(scores), np.bool_)
        for name in names:
            shared |= find_copies(partial(keys, name), scores)
    return shared
