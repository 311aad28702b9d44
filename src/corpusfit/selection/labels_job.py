"""Jobs that use a row's label: score a shard by labels, or count its segments by label."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import Job, PlainJob
from corpusfit.core.errors import InputError
from corpusfit.core.plan import CutPlan, MethodPlan, ReadPlan
from corpusfit.core.types import Document, Shard, file_of
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import SOURCE
from corpusfit.selection.score_job import Scoring
from corpusfit.text import rows
from corpusfit.text.reading import Tally, read_units

NONE = "(none)"
"""Label of rows whose field is missing, empty, or not a string, a whole number or a boolean."""


def _labels(
    shard: Shard, read: ReadPlan, wanted: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """The different labels of a shard's rows, and the place of each row [n] among them."""
    number: dict[str, int] = {}
    found: list[int] = []
    places: list[int] = []
    for row in rows(shard, read):
        if isinstance(row, Document):
            label = NONE if row.id in (None, "") else str(row.id)
            found.append(row.row)
            places.append(number.setdefault(label, len(number)))
    different, nth = np.unique(wanted, return_inverse=True)
    if not np.array_equal(different, found):
        raise different_shards(read.id_field)
    return list(number), np.array(places, np.int64)[nth]


def labels_at(shard: Shard, read: ReadPlan, wanted: NDArray[np.int64]) -> list[str]:
    """The labels of some rows, int64 [n]; `read.id_field` is the label's field."""
    needed = set(wanted.tolist())
    found = {
        row.row: NONE if row.id in (None, "") else str(row.id)
        for row in rows(shard, read)
        if isinstance(row, Document) and row.row in needed
    }
    return [found[row] for row in wanted.tolist()]


def different_shards(field: str) -> InputError:
    """The error for a corpus that is cut into other shards if another field is read.

    Datasets of the hub are: their rows become lines of the fields that are read.
    """
    return InputError(
        f"Reading the field {field!r} cuts the corpus into other shards than those scored. Score "
        f"the corpus again with `read.id_field={field}` and another `out`."
    )


@dataclass(frozen=True)
class ScoreLabels(Scoring, Job[Shard, tuple[Tally, list[str]]]):
    """Score a shard by its rows' labels; returns the tally and the different labels."""

    method: MethodPlan
    read: ReadPlan
    cut: CutPlan

    def start(self) -> Callable[[Shard], tuple[Tally, list[str]]]:
        """Build the method."""
        method = registry.label_method(self.method.name, self.method.options)

        def work(shard: Shard) -> tuple[Tally, list[str]]:
            units, _, tally = read_units(shard, self.read, self.cut, self.names)
            if method.truth == SOURCE:
                used, places = np.unique(file_of(units.row), return_inverse=True)
                labels = [self.names[shard.source + i] for i in used.tolist()]
                labels = labels or [self.names[shard.source]]
            else:
                labels, places = _labels(shard, self.read, units.row)
            scores = np.array([method.score_label(label) for label in labels], np.float32)
            return self.finish(shard.index, units, scores[places], tally), labels

        return work


@dataclass(frozen=True)
class Counted:
    """Counts of one part's m scored segments by label, k different labels.

    Attributes:
        part: number of the part.
        labels: the different labels.
        counts: int64 [k, 4]: segments, their word pieces, selected segments, their word pieces.
        scores: float32 [m]; empty without a domain.
        inside: bool [m], whether each segment is in the domain; empty without a domain.
    """

    part: int
    labels: list[str]
    counts: NDArray[np.int64]
    scores: NDArray[np.float32]
    inside: NDArray[np.bool_]


@dataclass(frozen=True)
class CountLabels(PlainJob[tuple[int, Shard | None], Counted]):
    """Count a part's segments by label: their source, or the label of their row in a shard.

    Reference: Aharoni and Goldberg (2020), section 4.4; TADPOLE, Figure 5.

    Attributes:
        scores: folder of the parts.
        read: how the corpus is read; its `id_field` is the label's field.
        domain: globs of the domain's labels.
        names: names of the corpus's sources.
    """

    scores: Path
    read: ReadPlan
    domain: tuple[str, ...]
    names: tuple[str, ...]

    def _work(self, piece: tuple[int, Shard | None]) -> Counted:
        part, known = piece
        path = table.part_path(self.scores, part)
        tokens, selected = (
            np.asarray(c, np.int64) for c in table.read_columns(path, "tokens", "selected")
        )
        if known is None:
            labels, places = table.read_sources(path)
        else:
            wanted = table.read_rows(path, Tally.of(known).sources(self.names))
            labels, places = _labels(known, self.read, wanted)
        counts = np.zeros((len(labels), 4), np.int64)
        each = (np.ones_like(tokens), tokens, selected, tokens * selected)
        for column, values in enumerate(each):
            np.add.at(counts[:, column], places, values)
        if not self.domain:
            return Counted(part, labels, counts, np.empty(0, np.float32), np.empty(0, np.bool_))
        matching = np.array([matches(label, self.domain) for label in labels], np.bool_)
        (scores,) = table.read_columns(path, "score")
        return Counted(part, labels, counts, np.asarray(scores, np.float32), matching[places])


def matches(label: str, globs: Iterable[str]) -> bool:
    """Whether a label matches one of the globs; case counts."""
    return any(fnmatchcase(label, glob) for glob in globs)


def shown(labels: Iterable[str], word: str = "") -> str:
    """A few labels for a message, those most similar to a word first."""
    different = sorted(set(labels))
    few = difflib.get_close_matches(word, different, n=_SHOWN, cutoff=0.0)
    return ", ".join(repr(label[:40]) for label in few) + (", …" if len(different) > _SHOWN else "")


_SHOWN = 8
