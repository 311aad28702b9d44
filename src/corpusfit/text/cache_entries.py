"""What is in the cache folder, and removal of what no command uses now."""

from __future__ import annotations

import contextlib
import re
import stat
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.artifacts import is_local, remove
from corpusfit.text.context import COMPILED, Machine

# folders of the cache whose members are entries, by kind
_FOLDERS = {
    "embeddings": "embeddings of corpora",
    "samples": "embeddings of samples",
    "tokens": "token ids",
    "data": "data in memory",
    "surveys": "surveys of files",
    "costs": "times of fits",
}
_DIGEST = re.compile(r"[0-9a-f]{32}")
_REMOVED = ".removed-"
# entries of the cache itself, by their names; other files may be the user's
_NAMES = {
    re.compile(COMPILED): "compiled models",
    re.compile(r"(scratch-|\.removed-)[0-9a-f]{32}"): "temporary files",
}
# seconds since its last use in which a command may still need an entry
_IN_USE = 3600.0


@dataclass(frozen=True)
class CacheEntry:
    """A file or folder of the cache that is used and removed as a whole."""

    path: Path  # where it is
    kind: str  # what it holds
    size: int  # bytes of its files
    # when one of its files was last read or written, in seconds since 1970, as far as the file
    # system records it
    used: float


def cache_entries(machine: Machine) -> list[CacheEntry]:
    """The entries of the cache, least recently used first; other files there are left out."""
    return sorted(_entries(machine.cache_folder()), key=lambda entry: entry.used)


def clear_cache(machine: Machine) -> list[CacheEntry]:
    """Remove the entries of the cache.

    Entries used within the last hour stay, as a running command may need them. A local folder is
    renamed before it is removed, so that no command ever finds a part of it.
    """
    now = time.time()
    removed = []
    cache = machine.cache_folder()
    for entry in cache_entries(machine):
        if now - entry.used <= _IN_USE:
            continue
        path = entry.path
        try:
            if is_local(path):
                path = path.rename(cache / f"{_REMOVED}{uuid.uuid4().hex}")
            remove(path)
        except OSError:  # gone, or on Windows open in another process
            continue
        removed.append(entry)
    return removed


def _entries(cache: Path) -> Iterator[CacheEntry]:
    for path in _members(cache):
        if path.name in _FOLDERS:
            kind = _FOLDERS[path.name]
            yield from (_entry(m, kind) for m in _members(path) if _DIGEST.fullmatch(m.stem))
            continue
        yield from (
            _entry(path, kind) for name, kind in _NAMES.items() if name.fullmatch(path.name)
        )


def _members(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _entry(path: Path, kind: str) -> CacheEntry:
    """An entry; one without files was used when its folder changed."""
    size = 0
    used = 0.0
    changed = 0.0
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        with contextlib.suppress(FileNotFoundError):  # another command may remove it
            state = file.stat()
            changed = max(changed, state.st_mtime)
            if not stat.S_ISDIR(state.st_mode):
                size += state.st_size
                used = max(used, state.st_mtime, getattr(state, "st_atime", 0.0) or 0.0)
    return CacheEntry(path, kind, size, used or changed)
