"""Names of sources in tables: each source, or its folder when there are many."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

MOST = 1000
"""Sources above which a table counts folders."""


def source_groups(sources: Sequence[str]) -> Callable[[str], str]:
    """What a table calls each of some sources: its name, or its folder if there are many.

    Folders are as deep as they can be with no more than `MOST` of them; `./` is the folder of the
    sources that are in none.
    """
    if len(sources) <= MOST:
        return str
    folders = {posixpath.dirname(source) for source in sources}
    deepest = max(folder.count("/") for folder in folders) + 1
    depth = next(
        (d for d in range(deepest, 0, -1) if len({_first(f, d) for f in folders}) <= MOST), 0
    )
    return lambda source: f"{_first(posixpath.dirname(source), depth) or '.'}/"


def _first(folder: str, depth: int) -> str:
    """The first names of a folder's path."""
    return "/".join(folder.split("/")[:depth])
