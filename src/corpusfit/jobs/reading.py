"""The first steps of every job that starts from text: parse a shard, count, cut.

What: a shard's documents, its tally of what was read and rejected, and its units.
Why: each job must count the same rows the same way, or sums would not add up.
Trade-off: the tally carries every reject in full, because `rejects.jsonl` is built from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from corpusfit.corpus import kind, rows
from corpusfit.errors import StrictError
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Reject, Shard

__all__ = ["Reasons", "Tally", "read_shard", "require_none_rejected"]


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
    shard: Shard, plan: ReadPlan, names: tuple[str, ...]
) -> tuple[list[Document], Tally]:
    """The usable documents of a shard and the tally of its rows.

    Raises:
        StrictError: the plan is strict and a row was rejected.
    """
    documents: list[Document] = []
    tally = Tally(shard.source)
    for row in rows(shard, plan):
        if isinstance(row, Reject):
            tally.rejects.append((row.row, row.byte, row.reason))
            if plan.strict:
                require_none_rejected(tally, names)
        else:
            documents.append(row)
            tally.characters += len(row.text)
    tally.documents = len(documents)
    return documents, tally
