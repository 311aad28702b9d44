"""Finds the documents of a scored corpus that are copies, which a selection leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.artifacts import listed, read_arrays
from corpusfit.errors import changed_input
from corpusfit.jobs.copies import KeyDocuments, keys_path
from corpusfit.score import table
from corpusfit.select.copies import find_copies
from corpusfit.workflows.context import Run
from corpusfit.workflows.selection.scoring import tallies
from corpusfit.workflows.selection_folder import SelectionFolder


@dataclass(frozen=True)
class Copies:
    """The copies among the documents of a scored corpus.

    Attributes:
        exact: number of documents with the text of another that stays.
        parts: bool [n], which of the documents of a part are copies, by part; parts without copies
            are left out.
    """

    exact: int = 0
    parts: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)

    def of(self, index: int, path: Path) -> NDArray[np.bool_]:
        """Which of the m segments of a part belong to a copy, bool [m]."""
        (segment,) = table.read_columns(path, "segment")
        if index not in self.parts:
            return np.zeros(len(segment), np.bool_)
        return np.asarray(self.parts[index][np.cumsum(segment == 0) - 1])


def copies_of(run: Run, folder: SelectionFolder) -> Copies:
    """Find the copies that the plan leaves out.

    Documents are read to be hashed, unless the method that scored them did so. The keys are stored
    in the run's folder, 8 bytes per document. Memory: a byte per document, and what
    `select.copies.find_copies` takes.

    Raises:
        ChangedInputError: the corpus changed since it was scored.
    """
    if run.plan.choose.dedup == "none":
        return Copies()
    paths = dict(table.parts(folder.scores))
    done = listed(folder.keys)
    missing = {i for i in paths if keys_path(folder.keys, i).name not in done}
    sizes = {index: tally.documents for index, tally in tallies(folder)}
    with run.stage("find copies", run.size if missing else 0):
        if missing:
            job = KeyDocuments(run.plan.read, folder.keys, corpus.is_parallel(run.sources))
            for _ in run.map(job, (shard for shard in run.shards() if shard.index in missing)):
                pass
        copies = find_copies(partial(_keyed, run, folder, paths), sum(sizes.values()))
    split = np.split(copies, np.cumsum(list(sizes.values()))[:-1])
    marked = {index: own for index, own in zip(sizes, split, strict=True) if own.any()}
    return Copies(int(copies.sum()), marked)


def _keyed(
    run: Run, folder: SelectionFolder, paths: Mapping[int, Path]
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.float32]]]:
    """The keys of every part's documents, and their highest scores."""
    for index, path in paths.items():
        keys = read_arrays(keys_path(folder.keys, index))[0]["keys"]
        found, segment = table.read_columns(path, "score", "segment")
        score, first = np.asarray(found, np.float32), np.flatnonzero(segment == 0)
        if len(first) != len(keys):
            raise changed_input(", ".join(run.names[:3]), "<.overwrite=true>")
        yield keys, np.maximum.reduceat(score, first) if len(first) else score
