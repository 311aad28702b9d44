"""The job that surveys stored bytes: digests and line ends, many pieces at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corpusfit.corpus import Glimpse, Look, glimpse
from corpusfit.engine import Engine, Job

_BYTES = 16 << 20
_PIECES = 256

_Batch = tuple[int, list[Look]]


@dataclass(frozen=True)
class _LookAt(Job[_Batch, tuple[int, list[Glimpse]]]):
    """Look at a batch of pieces; returns its number too."""

    def start(self) -> Callable[[_Batch], tuple[int, list[Glimpse]]]:
        """Nothing to open."""
        return lambda batch: (batch[0], [glimpse(look) for look in batch[1]])


def look_with(engine: Engine, looks: Sequence[Look]) -> list[Glimpse]:
    """Look at pieces on an engine's workers; the results are in the order of the pieces.

    Pieces travel in batches, because a look at a small file takes less time than its transfer.
    """
    batches: list[list[Look]] = []
    size = _BYTES
    for look in looks:
        if size >= _BYTES or len(batches[-1]) == _PIECES:
            batches.append([])
            size = 0
        batches[-1].append(look)
        size += look.span.end - look.span.begin
    if len(batches) < 2:
        return [glimpse(look) for look in looks]
    found = dict(engine.map(_LookAt(), enumerate(batches)))
    return [seen for number in range(len(batches)) for seen in found[number]]
