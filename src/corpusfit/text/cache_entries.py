"""What is in the cache folder, and removal of what was not used lately."""

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
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.text.context import COMPILED, Machine

# folders of the cache whose members are entries, by kind
_FOLDERS = {
    "embeddings": "embeddings of corpora",
    "samples": "embeddings of samples",
    "tokens": "token ids",
    "data": "data in memory",
    "surveys": "surveys of files",
}
_DIGEST = re.compile(r"[0-9a-f]{32}")
_REMOVED = ".removed-"
# entries of the cache itself, by their names; other files may be the user's
_NAMES = {
    re.compile(r"static-[0-9a-f]{32}"): "static models",
    re.compile(COMPILED): "compiled models",
    re.compile(r"(scratch-|\.removed-)[0-9a-f]{32}|\.distilling-\w+"): "temporary files",
}
# seconds since its last use in which a command may still need an entry
_IN_USE = 3600.0
_DAY, _GB = 86_400.0, 1e9


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


def prune_cache(
    machine: Machine,
    *,
    older_than: float | None = None,
    keep: float | None = None,
    dry_run: bool = False,
) -> list[CacheEntry]:
    """Remove the entries of the cache that were not used for the longest time.

    Entries used within the last hour stay, as a running command may need them. A local folder is
    renamed before it is removed, so that no command ever finds a part of it.
    """
    if older_than is None and keep is None:
        raise UsageError(
            "`corpusfit cache prune` needs a limit: `older_than=30` (days) or `keep=10` (GB)."
        )
    for name, limit in (("`older_than`", older_than), ("`keep`", keep)):
        if limit is not None and not limit >= 0:
            raise bad_setting(name, "a number from 0", limit)
    entries, now, removed = cache_entries(machine), time.time(), []
    cache = machine.cache_folder()
    size = sum(entry.size for entry in entries)
    for entry in entries:
        age = now - entry.used
        old = older_than is not None and age > older_than * _DAY
        much = keep is not None and size > keep * _GB
        if age <= _IN_USE or not (old or much):
            continue
        if not dry_run:
            path = entry.path
            try:
                if is_local(path):
                    path = path.rename(cache / f"{_REMOVED}{uuid.uuid4().hex}")
                remove(path)
            except OSError:  # gone, or on Windows open in another process
                continue
        removed.append(entry)
        size -= entry.size
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
    size, used, changed = 0, 0.0, 0.0
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        with contextlib.suppress(FileNotFoundError):  # another command may remove it
            state = file.stat()
            changed = max(changed, state.st_mtime)
            if not stat.S_ISDIR(state.st_mode):
                size += state.st_size
                used = max(used, state.st_mtime, getattr(state, "st_atime", 0.0) or 0.0)
    return CacheEntry(path, kind, size, used or changed)
