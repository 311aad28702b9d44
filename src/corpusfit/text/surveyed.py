"""Surveys of large inputs are kept in the cache, so that the next command need not read them twice.

Files are the same if path, size, times of modification and of change, and number on the disk are. A
file system may give two changes within a short time one time, so a survey of files that changed
just now is not kept. Nor is one of files in a store, where each look at a state is a request. To
verify is to read the files again whatever is kept.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Engine
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.manifest import digest
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Cells
from corpusfit.text.files import Infos, States, states_of
from corpusfit.text.shards import CHUNK_BYTES, survey

_VERSION = 1  # of what `survey` returns for the same content
_LEAST = 1 << 26
"""Bytes of files below which a survey is faster than its notes are worth."""
_SETTLED = 3.0
"""Seconds after which a change has another time."""


@dataclass(frozen=True)
class Kept:
    """The folder where surveys are kept; to `verify`, none is read there."""

    folder: Path
    verify: bool = False


def surveyed(
    files: Sequence[tuple[str, bool]],
    plan: ReadPlan,
    engine: Engine | None = None,
    kept: Kept | None = None,
    known: Infos | None = None,
    states: States | None = None,
) -> list[tuple[str, int, Cells | None]]:
    """What `survey` returns; taken from what is `kept`, or kept there, if nothing changed."""
    urls = [url for url, _ in files]
    states = states_of(urls) if states is None else states
    described = None if kept is None else _described(files, states)
    if kept is None or described is None:
        return survey(files, plan, engine, known, states)
    decides = [_VERSION, CHUNK_BYTES, plan.shard_mb, plan.max_row_mb, described]
    path = kept.folder / f"{digest(decides)}.safetensors"
    with contextlib.suppress(CorpusfitError, OSError):  # damaged, or on a failing disk
        if path.exists() and not kept.verify:
            return _read(path)
    found = survey(files, plan, engine, known, states)
    if _described(files, states_of(urls)) == described:
        with contextlib.suppress(CorpusfitError, OSError):
            _write(path, found)
    return found


def _described(files: Sequence[tuple[str, bool]], states: States) -> list[Any] | None:
    """The files and their states; None if their survey is not kept."""
    described, total, changed = [], 0, 0
    for (url, lines), state in zip(files, states, strict=True):
        if state is None:
            return None
        times = (state.st_mtime_ns, state.st_ctime_ns)
        described.append([url, lines, state.st_size, *times, state.st_ino, state.st_dev])
        changed = max(changed, *times)
        total += state.st_size
    settled = changed < time.time_ns() - _SETTLED * 1e9
    return described if total >= _LEAST and settled else None


def _write(path: Path, found: Sequence[tuple[str, int, Cells | None]]) -> None:
    cells = [cells for *_, cells in found]
    arrays = {
        "begins": np.concatenate([np.empty(0, np.int64), *(c.begins for c in cells if c)]),
        "rows": np.concatenate([np.empty(0, np.int64), *(c.rows for c in cells if c)]),
        "counts": np.array([len(c.rows) if c else -1 for c in cells], np.int64),
    }
    files = [[fingerprint, size] for fingerprint, size, _ in found]
    write_arrays(path, arrays, {"files": files})


def _read(path: Path) -> list[tuple[str, int, Cells | None]]:
    arrays, header = read_arrays(path)
    found, begin, row = list[tuple[str, int, Cells | None]](), 0, 0
    for (fingerprint, size), count in zip(header["files"], arrays["counts"].tolist(), strict=True):
        cells = None
        if count >= 0:  # the begins have one more, the end of the file
            begins = arrays["begins"][begin : begin + count + 1]
            cells = Cells(begins, arrays["rows"][row : row + count])
            begin, row = begin + count + 1, row + count
        found.append((fingerprint, size, cells))
    return found
