"""From a shard to documents, units and segments, with the counts of its rows."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.errors import StrictError
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import (
    BORDER,
    Documents,
    Reason,
    Segments,
    Shard,
    Texts,
    Units,
    WithNumbers,
    buffers,
    file_of,
    in_file,
    take_texts,
)
from corpusfit.kernels import cut
from corpusfit.text import Pick, documents
from corpusfit.text.rejects import LEFT_OUT, stored

_MODES = {
    "window": cut.WINDOW,
    "sentence": cut.SENTENCE,
    "paragraph": cut.PARAGRAPH,
    "fixed": cut.FIXED,
    "document": cut.WHOLE,
}


Rejected = tuple[int, int, Reason]
"""Row, byte and reason of a reject."""


class Rejects:
    """The rejected rows of a shard, in order; many have the same reason, which is held once."""

    # Columns, as the garbage collector would visit an object for each row again and again.
    def __init__(self, rejects: Iterable[Rejected] = ()) -> None:
        self._rows = array("q")
        self._bytes = array("q")
        self._numbers = array("q")  # of their reasons
        self._reasons: dict[Reason, int] = {}  # with their numbers
        for row, byte, reason in rejects:
            self.append(row, byte, reason)

    @classmethod
    def stored(cls, values: Sequence[tuple[int, int, str]]) -> Rejects:
        """The rejects of which a file has plain values (`as_list`)."""
        numbers = {text: i for i, text in enumerate(dict.fromkeys(text for _, _, text in values))}
        self = cls()
        self._rows.extend(row for row, _, _ in values)
        self._bytes.extend(byte for _, byte, _ in values)
        self._numbers.extend(numbers[text] for _, _, text in values)
        self._reasons = {stored(text): i for text, i in numbers.items()}
        return self

    def append(self, row: int, byte: int, reason: Reason) -> None:
        """Add a row of the shard."""
        self._rows.append(row)
        self._bytes.append(byte)
        self._numbers.append(self._reasons.setdefault(reason, len(self._reasons)))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Rejected]:
        reasons = list(self._reasons)
        for row, byte, number in zip(self._rows, self._bytes, self._numbers, strict=True):
            yield row, byte, reasons[number]

    def as_list(self) -> list[tuple[int, int, str]]:
        """The rejects as plain values, for a file."""
        texts = [str(reason) for reason in self._reasons]
        return list(
            zip(self._rows, self._bytes, map(texts.__getitem__, self._numbers), strict=True)
        )

    def counts(self) -> dict[Reason, int]:
        """The number of rows of each reason."""
        reasons = list(self._reasons)
        return {reasons[number]: n for number, n in Counter(self._numbers).items()}

    def by_file(self) -> Mapping[int, Mapping[Reason, int]]:
        """The counts of each file of the shard with rejects, by its place in it."""
        files = file_of(np.array(self._rows, np.int64))
        if not files.any():
            return {0: self.counts()} if len(self) else {}
        reasons = list(self._reasons)
        found = defaultdict[int, dict[Reason, int]](dict)
        for (file, number), n in Counter(zip(files.tolist(), self._numbers, strict=True)).items():
            found[file][reasons[number]] = n
        return found


@dataclass
class Tally:
    """Counts of one shard, with every reject in full; rows are documents, rejects or left out."""

    source: int  # number of its source, or of the first of its `files` sources
    documents: int = 0
    units: int = 0
    segments: int = 0
    characters: int = 0
    rejects: Rejects = field(default_factory=Rejects)
    files: int = 1
    left_out: int = 0  # rows that `read.where` leaves out

    @classmethod
    def of(cls, shard: Shard) -> Tally:
        """An empty tally for a shard."""
        return cls(shard.source, files=shard.files)

    @classmethod
    def stored(cls, counts: Mapping[str, Any]) -> Tally:
        """The tally of which a file has the counts (`as_dict`)."""
        return cls(**{**counts, "rejects": Rejects.stored(counts["rejects"])})

    def sources(self, names: Sequence[str]) -> Sequence[str]:
        """The names of the shard's sources, given those of the corpus."""
        return names[self.source : self.source + self.files]

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain values, for a file's header."""
        counts = {name: n for name, n in vars(self).items() if name != "left_out" or n}
        return {**counts, "rejects": self.rejects.as_list()}


class Reasons:
    """Counts of reject reasons, with one example of each."""

    def __init__(self) -> None:
        self.counts: Counter[Reason] = Counter()  # by their kinds
        self._examples: dict[Reason, Reason] = {}

    def add(self, counts: Mapping[Reason, int]) -> None:
        """Add the number of rows of each reason, such as those of a shard (`Rejects.counts`)."""
        for reason, n in counts.items():
            self.counts[reason.kind] += n
            self._examples.setdefault(reason.kind, reason)

    def as_dict(self) -> dict[str, int]:
        """The counts as plain values, for a manifest; the most frequent come first."""
        return {str(kind): n for kind, n in self.counts.most_common()}

    def update(self, more: Reasons) -> None:
        """Add the counts of later shards."""
        self.counts.update(more.counts)
        self._examples = more._examples | self._examples

    def __str__(self) -> str:
        """The three most frequent reasons with their examples, or that there are no rows."""
        common = self.counts.most_common(3)
        each = (f"{self._examples[why]} ({n:,} row{'s' * (n != 1)})" for why, n in common)
        return "; ".join(each) or "it is empty"


def require_none_rejected(tally: Tally, names: tuple[str, ...]) -> None:
    """Enforce `--strict`."""
    for row, _, reason in itertools.islice(tally.rejects, 1):
        raise StrictError(
            f"{tally.sources(names)[file_of(row)]}, row {in_file(row)}: {reason}. "
            "Correct the row, or leave out `read.strict` to skip such rows."
        )


def read_shard(
    shard: Shard,
    plan: ReadPlan,
    names: tuple[str, ...],
    pick: Pick | None = None,
) -> tuple[Documents, Tally]:
    """The usable documents of a shard, or of the picked rows, and the tally of its rows."""
    usable, rejected = documents(shard, plan, pick)
    tally = Tally.of(shard)
    tally.documents = len(usable)
    tally.rejects = Rejects((r.row, r.byte, r.reason) for r in rejected if r.reason != LEFT_OUT)
    tally.left_out = len(rejected) - len(tally.rejects)
    if plan.strict:
        require_none_rejected(tally, names)
    return usable, tally


def read_units(
    shard: Shard, read: ReadPlan, plan: CutPlan, names: tuple[str, ...]
) -> tuple[Units, Texts, Tally]:
    """The units of a shard, their texts, and the tally of its rows."""
    usable, tally = read_shard(shard, read, names)
    units, texts = cut_units(usable, plan)
    tally.units = len(units)
    tally.characters = int((units.end - units.start).sum())
    return units, texts, tally


def cut_units(usable: Documents, plan: CutPlan) -> tuple[Units, Texts]:
    """Cut n documents into k units, in reading order; no unit crosses a document.

    Units tile a document exactly (white space belongs to the unit before it), so offsets point into
    the original text and no text is copied; units can end in spaces. Of a row with several texts
    they tile each text.
    """
    data, offsets = buffers(usable.texts)
    # a border between two texts of a row becomes a unit, which is left out in the end
    borders = np.flatnonzero(data == ord(BORDER)) if usable.bordered else offsets[:0]
    apart = np.union1d(offsets, np.append(borders, borders + 1)) if len(borders) else offsets
    counts, ends, lengths, pieces = cut.cut_points(
        data, apart, cut.class_table(), _MODES[plan.unit], plan.most
    )
    if len(borders):
        document = np.searchsorted(offsets, apart[:-1], side="right") - 1
        counts = np.bincount(document, counts, len(usable)).astype(np.int64)
    through = np.concatenate(([0], np.cumsum(lengths)))
    before = np.repeat(through[np.cumsum(counts) - counts], counts)
    numbers = None if usable.numbers is None else np.repeat(usable.numbers, counts, axis=0)
    units = Units(
        np.repeat(usable.row, counts), through[:-1] - before, through[1:] - before, pieces, numbers
    )
    bounds = pa.py_buffer(np.concatenate((offsets[:1], ends)))
    texts = pa.LargeStringArray.from_buffers(len(units), bounds, pa.py_buffer(data))
    if len(borders):
        kept = np.flatnonzero(~np.isin(ends, borders + 1))
        return units.take(kept), take_texts(texts, kept)
    return units, texts


def with_numbers(batch: Any, units: Units, read: ReadPlan, fields: Sequence[str]) -> Any:
    """A batch of units as a method reads it, with the numbers in some fields of their rows."""
    if not fields:
        return batch
    known = read.number_fields()
    empty = np.empty((0, len(known)))
    columns = (empty if units.numbers is None else units.numbers).T
    return WithNumbers(batch, {field: columns[known.index(field)] for field in fields})


def join_units(units: Units, gamma: int) -> Segments:
    """Join every `gamma` consecutive units of a document into a segment, in reading order.

    Segments never cross documents, so a short document is a segment of fewer units and its score is
    noisier. Nor do they cross the border between two texts of a row, where their numbers skip one.

    Reference: TADPOLE, section 3.2.
    """
    n = len(units)
    numbers = np.arange(n)
    opens = np.ones(n, bool)  # a document, a text
    begins = np.ones(n, bool)
    opens[1:] = units.row[1:] != units.row[:-1]
    begins[1:] = opens[1:] | (units.start[1:] != units.end[:-1])
    first_of_text = np.maximum.accumulate(np.where(begins, numbers, 0)) if n else numbers
    first = np.flatnonzero((numbers - first_of_text) % gamma == 0)
    count = np.diff(np.append(first, n))
    number = np.arange(len(first)) + np.cumsum(begins[first])
    of_document = np.flatnonzero(opens[first])
    number -= np.repeat(number[of_document], np.diff(np.append(of_document, len(first))))
    return Segments(
        row=units.row[first],
        segment=number.astype(np.int32),
        start=units.start[first],
        end=units.end[first + count - 1],
        units=count.astype(np.int32),
        tokens=np.add.reduceat(units.pieces.astype(np.int64), first) if n else numbers,
        first_unit=first,
    )


def joined_scores(
    unit_scores: NDArray[np.float32], units: NDArray[np.int32], *, summed: bool
) -> NDArray[np.float32]:
    """float32 [m]: the mean of each segment's unit scores (TADPOLE, section 3.2, y_j).

    Or their sum, for log importance weights, which add up over a text's units. `units`, int32 [m],
    is the number of units of each consecutive segment.
    """
    if not len(units):
        return np.empty(0, np.float32)
    first = np.cumsum(units, dtype=np.int64) - units
    sums = np.add.reduceat(unit_scores.astype(np.float64), first)
    return (sums if summed else sums / units).astype(np.float32)
