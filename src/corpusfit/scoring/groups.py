"""Names of sources in tables: each source, or its folder when there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 1000
"""Sources above which a table counts folders."""


def source_groups(sources: Sequence[str]) -> Callable[[str], str]:
    """What a table calls each of some sources: its name, or its folder if there are many.

    Folders are as deep as they can be with no more than `MOST` of them; `./` is the folder of the
    sources that are in none.
    """
    if len(sources) <= MOST:
        return str
    folders = {source.rpartition("/")[0] for source in sources}
    deepest = max(folder.count("/") for folder in folders) + 1
    depth = next(
        (d for d in range(deepest, 0, -1) if len({_first(f, d) for f in folders}) <= MOST), 0
    )
    called = {folder: f"{_first(folder, depth) or '.'}/" for folder in folders}
    return lambda source: called[source.rpartition("/")[0]]


def grouped(
    sources: Sequence[str], places: NDArray[np.int64], group_of: Callable[[str], str]
) -> tuple[list[str], NDArray[np.int64]]:
    """The groups of k sources, and for each of m segments the place of its own among them."""
    number: dict[str, int] = {}
    own = [number.setdefault(group_of(source), len(number)) for source in sources]
    return list(number), np.array(own, np.int64)[places]


def _first(folder: str, depth: int) -> str:
    """The first names of a folder's path."""
    return "/".join(folder.split("/")[:depth])
