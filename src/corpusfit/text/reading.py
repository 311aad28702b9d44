"""The first steps of every job on text: parse a shard, count its rows, cut it into units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusfit.core.errors import StrictError
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Documents, Shard, Texts, Units, file_of, in_file
from corpusfit.text import Pick, documents, kind
from corpusfit.text.units import cut_units


@dataclass
class Tally:
    """Counts of one shard, with every reject in full; rows = documents + rejects.

    Attributes:
        source: number of its source, or of the first of its `files` sources.
        rejects: row in the shard, byte and reason of each.
    """

    source: int
    documents: int = 0
    units: int = 0
    segments: int = 0
    characters: int = 0
    rejects: list[tuple[int, int, str]] = field(default_factory=list)
    files: int = 1

    @classmethod
    def of(cls, shard: Shard) -> Tally:
        """The tally of a shard, before anything is counted."""
        return cls(shard.source, files=shard.files)

    def sources(self, names: Sequence[str]) -> Sequence[str]:
        """The names of the shard's sources, of those of the corpus."""
        return names[self.source : self.source + self.files]

    def reasons(self) -> list[str]:
        """The reason of each reject."""
        return [reason for _, _, reason in self.rejects]

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain values, for a file's header."""
        return dict(vars(self))


class Reasons:
    """Counts of reject reasons, with one example of each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, rejects: Iterable[tuple[int, int, str]]) -> None:
        """Count a shard's rejects."""
        for _, _, reason in rejects:
            self.counts[kind(reason)] += 1
            self._examples.setdefault(kind(reason), reason)

    def __str__(self) -> str:
        """The three most frequent reasons with their examples, or that there are no rows."""
        common = self.counts.most_common(3)
        listed = "; ".join(f"{self._examples[why]} ({n:,} rows)" for why, n in common)
        return listed or "it is empty"


def require_none_rejected(tally: Tally, names: tuple[str, ...]) -> None:
    """Enforce `--strict`."""
    for row, _, reason in tally.rejects[:1]:
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
    found, rejected = documents(shard, plan, pick)
    tally = Tally.of(shard)
    tally.documents = len(found)
    tally.rejects = [(r.row, r.byte, r.reason) for r in rejected]
    if plan.strict:
        require_none_rejected(tally, names)
    return found, tally


def read_units(
    shard: Shard, read: ReadPlan, cut: CutPlan, names: tuple[str, ...]
) -> tuple[Units, Texts, Tally]:
    """The units of a shard, their texts, and the tally of its rows; raises as `read_shard` does."""
    found, tally = read_shard(shard, read, names)
    units, texts = cut_units(found, cut)
    tally.units = len(units)
    tally.characters = int((units.end - units.start).sum())
    return units, texts, tally
