"""Surveys of large inputs are kept in the cache, so that the next command reads only new files.

Files are the same if path, size, times of modification and of change, and inode are. A
file system may give two changes within a short time one time, so a survey of a file that changed
just now is not kept. Nor is one of a file in a store, where each look at a state is a request. To
verify is to read the files again whatever is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Engine
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.manifest import digest
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Cells
from corpusfit.text.files import Infos, States, states_of
from corpusfit.text.shards import CHUNK_BYTES, survey

_VERSION = 2  # of what `survey` returns for the same content
_LEAST = 1 << 26
"""Bytes of files below which a survey is faster than its notes are worth."""
_MOST = 1 << 18
"""Files from which on only surveys of those of the last command are kept."""
_SETTLED = 3.0
"""Seconds after which a change has another time."""
Surveyed = tuple[str, int, Cells | None]


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
) -> list[Surveyed]:
    """What `survey` returns; of unchanged files taken from what is `kept`, of others kept."""
    urls = [url for url, _ in files]
    states = states_of(urls) if states is None else states
    if kept is None or sum([state.st_size for state in states if state]) < max(1, _LEAST):
        return survey(files, plan, engine, known, states)
    # the files of a corpus are kept together, by the folder that has them all
    folder = os.path.dirname(os.path.commonprefix([min(urls), max(urls)]))  # noqa: PTH120, RUF071
    decides = [_VERSION, CHUNK_BYTES, plan.shard_mb, plan.max_row_mb, folder]
    path = kept.folder / f"{digest(decides)}.safetensors"
    keys = [_key(url, kind, state) for (url, kind), state in zip(files, states, strict=True)]
    before = _read(path)
    unknown = [number for number, key in enumerate(keys) if kept.verify or key not in before]
    if not unknown:
        return [before[key] for key in keys]
    asked = [files[number] for number in unknown]
    found = survey(asked, plan, engine, known, [states[number] for number in unknown])
    new = {keys[number]: each for number, each in zip(unknown, found, strict=True)}
    settled = dict[str, Surveyed]()
    late = time.time_ns() - _SETTLED * 1e9
    for (url, kind), state in zip(asked, states_of(url for url, _ in asked), strict=True):
        key = _key(url, kind, state)
        if state and key in new and max(state.st_mtime_ns, state.st_ctime_ns) < late:
            settled[key] = new[key]
    if settled:
        if len(before) >= _MOST:
            before = {key: before[key] for key in keys if key in before}
        with contextlib.suppress(CorpusfitError, OSError):
            _write(path, before | settled)
    of_unknown = dict(zip(unknown, found, strict=True))
    return [of_unknown.get(number) or before[key] for number, key in enumerate(keys)]


def _key(url: str, lines: bool, state: os.stat_result | None) -> str:
    """A file in its state; empty without one."""
    if state is None:
        return ""
    times = f"{state.st_mtime_ns} {state.st_ctime_ns}"
    return f"{lines:d} {state.st_size} {times} {state.st_ino} {state.st_dev} {url}"


def _write(path: Path, surveys: dict[str, Surveyed]) -> None:
    cells = [cells for *_, cells in surveys.values()]
    files = [[key, fingerprint, size] for key, (fingerprint, size, _) in surveys.items()]
    arrays = {
        "begins": np.concatenate([np.empty(0, np.int64), *(c.begins for c in cells if c)]),
        "rows": np.concatenate([np.empty(0, np.int64), *(c.rows for c in cells if c)]),
        "counts": np.array([len(c.rows) if c else -1 for c in cells], np.int64),
        "files": np.frombuffer(json.dumps(files).encode(), np.uint8),  # too long for the header
    }
    write_arrays(path, arrays, {})


def _read(path: Path) -> dict[str, Surveyed]:
    """Surveys of files in their states; none if there is no such file, or a damaged one."""
    surveys = dict[str, Surveyed]()
    begin = 0
    row = 0
    with contextlib.suppress(CorpusfitError, OSError, KeyError, TypeError, ValueError):
        if not path.exists():
            return {}
        arrays, _ = read_arrays(path)
        files = json.loads(arrays["files"].tobytes())
        counts = arrays["counts"].tolist()
        for (key, fingerprint, size), count in zip(files, counts, strict=True):
            cells = None
            if count >= 0:  # the begins have one more, the end of the file
                begins = arrays["begins"][begin : begin + count + 1]
                cells = Cells(begins, arrays["rows"][row : row + count])
                begin = begin + count + 1
                row = row + count
            surveys[key] = fingerprint, size, cells
    return surveys
