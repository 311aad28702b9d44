"""The first steps of every job that starts from text: parse a shard, count, cut.

What: a shard's units with their texts, and its tally of what was read and rejected.
Why: each job must count the same rows the same way, or sums would not add up.
Trade-off: the tally carries every reject in full, because `rejects.jsonl` is built from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from corpusfit.corpus import Pick, documents, kind
from corpusfit.errors import StrictError
from corpusfit.plan import CutPlan, ReadPlan
from corpusfit.segments import cut_units
from corpusfit.types import Documents, Shard, Texts, Units


@dataclass
class Tally:
    """What was counted in one shard; rows = documents + rejects, always."""

    source: int
    documents: int = 0
    units: int = 0
    segments: int = 0
    characters: int = 0
    rejects: list[tuple[int, int, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file's header."""
        return dict(vars(self))


class Reasons:
    """Why rows were rejected: how many for what, with one example in full for each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, rejects: Iterable[tuple[int, int, str]]) -> None:
        """Count a shard's rejects."""
        for _, _, reason in rejects:
            self.counts[kind(reason)] += 1
            self._examples.setdefault(kind(reason), reason)

    def __str__(self) -> str:
        """The three commonest, with their examples; or that there was nothing to reject."""
        common = self.counts.most_common(3)
        listed = "; ".join(f"{self._examples[why]} ({n:,} rows)" for why, n in common)
        return listed or "it is empty"


def require_none_rejected(tally: Tally, names: tuple[str, ...]) -> None:
    """Hold `--strict`.

    Raises:
        StrictError: a row was rejected; names the first.
    """
    for row, _, reason in tally.rejects[:1]:
        raise StrictError(
            f"{names[tally.source]}, row {row}: {reason}. "
            "Mend the row, or leave out --strict to skip such rows."
        )


def read_shard(
    shard: Shard,
    plan: ReadPlan,
    names: tuple[str, ...],
    pick: Pick | None = None,
    *,
    translations: bool = False,
) -> tuple[Documents, Tally]:
    """The usable documents of a shard, or of the rows picked, and the tally of its rows.

    With `translations` the texts are the other sides of aligned pairs.

    Raises:
        StrictError: the plan is strict and a row was rejected.
    """
    found, rejected = documents(shard, plan, pick, translations=translations)
    tally = Tally(shard.source, len(found))
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
