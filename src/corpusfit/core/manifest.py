"""Output folders: the identity of a run, what a folder contains, its manifest and its lock."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import operator
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from corpusfit.core.artifacts import (
    is_local,
    no_collection,
    read_bytes,
    require_plain,
    sweep,
    write_bytes,
)
from corpusfit.core.errors import (
    ChangedInputError,
    InputError,
    OutputFolderError,
    raise_machine_fault,
)
from corpusfit.core.gone import gone
from corpusfit.core.types import Source

if TYPE_CHECKING:
    from corpusfit.core.engine import Progress

FORMAT = 3
"""The number of what runs and scorers store, and of what identifies them: raised where another
version's would be misread or taken for this one's."""
SMALL_FILES = "small files"
"""The entry of an identity that says how small files are divided into shards."""
_FOUND = {"cells", "blocks", "state", "scores"}
_SOURCE_FIELDS = [f.name for f in dataclasses.fields(Source) if f.name not in _FOUND]
_SOURCE_VALUES = operator.attrgetter(*_SOURCE_FIELDS)
_LIBRARIES = (
    *("numpy", "pyarrow", "numba", "torch", "transformers", "scikit-learn"),
    *("tokenizers", "accelerate", "peft"),
    *("sentencex", "py3langid", "langcodes"),
)


def digest(value: Any) -> str:
    """Hex digest of plain nested values; equal values have equal digests."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def versions() -> dict[str, str]:
    """Versions of everything that can change a number."""
    return {"python": platform.python_version(), "machine": platform.machine(), **_installed()}


@cache
def _installed() -> dict[str, str]:
    versions = {}
    for name in ("corpusfit", *_LIBRARIES):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def source_as_dict(source: Source) -> dict[str, Any]:
    """A source for the manifest, without what a survey finds again."""
    values = dict(zip(_SOURCE_FIELDS, _SOURCE_VALUES(source), strict=True))
    return {**values, "scores": source.scores} if source.scores else values


def source_identity(sources: Sequence[Source]) -> dict[str, str]:
    """Content fingerprint by source name."""
    return {s.name: s.fingerprint for s in sources}


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that a run wrote; raises `InputError` for anything else."""
    with undamaged(path):
        value = json.loads(read_bytes(path))
        if not isinstance(value, dict):
            raise ValueError("it is no JSON object")
    return value


def read_kept(path: Path, right: Callable[[Any], bool]) -> Any:
    """The JSON value of a file of the cache; None if there is none, or it is not `right`.

    What is missing is made again, so a file that is damaged, or of others, changes no answer.

    Args:
        path: the file.
        right: whether a value has the form that the command expects; it may raise what it likes.
    """
    try:
        value = json.loads(read_bytes(path))
        return value if right(value) else None
    except FileNotFoundError:
        return None
    except _DAMAGE as e:
        raise_machine_fault(e, f"Cannot read {path}")
        return None


_DAMAGE = (
    *(AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError),
    NotImplementedError,  # Arrow's, of a type that has no numbers
)


def other_version(path: Path) -> str:
    """The message for what another version of corpusfit stored."""
    return (
        f"{path} was made by another version of corpusfit. Repeat the command that wrote it, "
        "with another `out`, or use that version."
    )


@contextlib.contextmanager
def undamaged(*paths: Path) -> Iterator[None]:
    """Raise `InputError` if a file that a run wrote is damaged."""
    try:
        yield
    except _DAMAGE as e:
        named = ", ".join(map(str, paths))
        why = str(e).partition("\n")[0]
        raise_machine_fault(e, f"Cannot read {named}")
        raise InputError(
            f"{named} is incomplete, damaged, or not from this version of corpusfit "
            f"({type(e).__name__}: {why}). Repeat the command that wrote it, with another `out`."
        ) from e


@dataclass(frozen=True, repr=False)
class Finished:
    """A finished run of a command."""

    path: Path  # its folder
    manifest: dict[str, Any]  # the content of `manifest.json`

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __fspath__(self) -> str:
        """The folder, so that a finished run can be given wherever a folder can."""
        return str(self.path)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError`, for a name of before with what to do instead."""
            kind = type(self).__name__
            raise AttributeError(gone(name) or f"{kind!r} object has no attribute {name!r}")


class OutFolder:
    """A folder that one command writes to, and resumes in.

    Args:
        path: the folder, on this machine or in a store; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / ".corpusfit"
        self.report = path / "report.html"
        self._begun: bytes | None = None  # the content of run.json, if this command wrote it

    def claim(self) -> None:
        """Check that the command can write to the folder."""
        require_plain(self.path, "`out`")
        self.refuse_links()
        if (self.work / "run.json").exists() or not self.path.exists():
            return
        if not self.path.is_dir() or any(p.name != self.work.name for p in self.path.iterdir()):
            raise OutputFolderError(
                f"`out` must be a new or empty folder, or one that corpusfit wrote; {self.path} "
                "holds something else. Choose another `out`."
            )

    def refuse_links(self) -> None:
        """Raise an error for links in the folder, at any depth."""
        waiting = [os.fspath(self.path)] if is_local(self.path) else []
        while waiting:
            for entry in _entries(waiting.pop()):
                if entry.is_symlink():
                    raise OutputFolderError(
                        f"{entry.path} is a link, by which files elsewhere could be read or "
                        "changed. Move what it points to into its place, or use another folder."
                    )
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)

    def identity(self) -> dict[str, Any]:
        """The identity that `begin` wrote; empty if no run began.

        Raises:
            InputError: it is damaged, or of another version of corpusfit.
        """
        begun = self.work / "run.json"
        identity = read_object(begun) if begun.exists() else {"format": FORMAT}
        if identity.pop("format", None) != FORMAT:
            raise InputError(other_version(self.path))
        return identity

    def command(self) -> str:
        """The command that wrote the folder, if its identity names one; else ""."""
        return str(self.identity().get("command") or "")

    def begin(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin or resume a run in this folder."""
        if self.differs(identity, overwrite=overwrite):
            self._clear()
        self._write_identity(identity)

    def differs(self, identity: Mapping[str, Any], *, overwrite: bool) -> bool:
        """Whether `begin` would delete an earlier run; raises as `begin` does, writes nothing."""
        if not (self.work / "run.json").exists():
            return False
        try:
            before = self.identity()
        except InputError as e:
            if overwrite:
                return True
            raise OutputFolderError(f"{e} Or pass `overwrite` to replace the run.") from e
        # a round trip, so that its values have the types of JSON
        wanted = json.loads(json.dumps(identity, default=str))
        if before.get("command") != wanted.get("command"):
            raise OutputFolderError(
                f"`out` must be a new or empty folder; {self.path} holds what another command "
                "wrote. Choose another `out`."
            )
        differing = _differences(before, wanted)
        if differing and not overwrite and self._has_work():
            raise ChangedInputError(
                f"`out={self.path}` holds a run with other inputs or settings: "
                f"{'; '.join(differing[:5])}. {self._cure(differing)}"
            )
        return bool(differing)

    def _cure(self, differing: list[str]) -> str:
        """What the user can do about a run that differs."""
        return "Choose another `out`, or pass `overwrite` to replace the run."

    def _has_work(self) -> bool:
        """Whether the run has results; without any, it can begin again with other settings."""
        return True

    @no_collection()
    def _write_identity(self, identity: Mapping[str, Any]) -> None:
        data = json.dumps({"format": FORMAT, **identity}, default=str)
        self._begun = data.encode()
        write_bytes(self.work / "run.json", self._begun)

    def _clear(self) -> None:
        """Delete an earlier run: completion marks first, then the files they mark."""
        self.reopen()

    def will_write(self, names: Sequence[str]) -> None:
        """Record file names that depend on the inputs, before writing the files."""
        write_bytes(self.work / "files.json", json.dumps(list(names)).encode())

    def remove_written(self) -> None:
        """Delete the files that `will_write` recorded, and no others."""
        listed = self.work / "files.json"
        if listed.exists():
            with undamaged(listed):
                names = filter(is_inside, json.loads(listed.read_text("utf-8")))
                for file in filter(Path.is_file, map(self.path.__truediv__, names)):
                    file.unlink()
            listed.unlink()

    def reopen(self) -> None:
        """Delete the completion mark and the report."""
        for stale in (self.path / "manifest.json", self.report):
            stale.unlink(missing_ok=True)

    def finished(self) -> dict[str, Any] | None:
        """The manifest of a complete run; None if it is missing or damaged."""
        path = self.path / "manifest.json"
        if not path.exists():
            return None
        self.refuse_links()
        self.identity()
        with contextlib.suppress(InputError):
            return read_object(path)
        return None

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, which marks the run as finished; deletes an older report."""
        # a store has no lock that keeps another command with `overwrite` out
        begun = self.work / "run.json"
        if self._begun and not (begun.exists() and read_bytes(begun) == self._begun):
            raise OutputFolderError(
                f"Another command has begun a run in {self.path} meanwhile, or removed this one, "
                "so its files are of both. Run this one again with another `out`."
            )
        sweep(self.path)
        self.report.unlink(missing_ok=True)
        write_bytes(self.path / "manifest.json", as_json(manifest))


@no_collection()
def as_json(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as indented JSON; a list of many sources has one on a line."""
    entries = ",\n".join(_entry(name, value) for name, value in manifest.items())
    return f"{{\n{entries}\n}}".encode(errors="backslashreplace")


def _entry(name: str, value: Any) -> str:
    """An entry of the manifest as it stands between the braces."""
    if isinstance(value, list) and len(value) > _LONG:
        lines = ",\n    ".join(map(_ON_A_LINE.encode, value))
        return f"  {_ON_A_LINE.encode(name)}: [\n    {lines}\n  ]"
    return _INDENTED.encode({name: value})[len("{\n") : -len("\n}")]


_ON_A_LINE = json.JSONEncoder(ensure_ascii=False, default=str)
_INDENTED = json.JSONEncoder(ensure_ascii=False, default=str, indent=2)
_LONG = 1000


def is_inside(name: object) -> bool:
    """Whether a name from a file of a folder leads to something in that folder, on any system.

    Args:
        name: the name, relative to the folder.
    """
    if not isinstance(name, str) or "\0" in name:
        return False
    paths = PurePosixPath(name), PureWindowsPath(name)
    return not any(path.anchor or ".." in path.parts for path in paths)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder; nothing if it is gone meanwhile, or is no folder."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    """The differences between two nested values, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        if path in _FILES:
            return _changed_files(_FILES[path], before, now)
        differing = []
        for key in sorted({*before, *now}):
            differing += _differences(before.get(key), now.get(key), f"{path}.{key}".strip("."))
        return differing
    if before == now:
        return []
    if path == SMALL_FILES:
        together = "that run" if before else "this one"
        return [f"small files share shards only in {together}"]
    if all(_DIGEST.fullmatch(str(value)) or value is None for value in (before, now)):
        return [f"{path} has changed"]
    was, is_now = ("not set" if value is None else repr(value) for value in (before, now))
    return [f"{path} was {was}, is {is_now}"]


_DIGEST = re.compile(r"[0-9a-f]{32,}")
# entries of an identity that map files to fingerprints, and their names in messages
_FILES = {
    **{role: role for role in ("target", "corpus", "data", "task", "replay")},
    "files": "method",
}


def _changed_files(role: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The differences between two maps of files to fingerprints, in words."""
    gone, new = (sorted(one.keys() - other.keys()) for one, other in ((before, now), (now, before)))
    same = sorted(before.keys() & now.keys())
    changed = [f"{role} file {name} has changed" for name in same if before[name] != now[name]]
    if gone and new:
        return [*changed, f"{role} was {_few(gone)}, is {_few(new)}"]
    changed += [f"{role} file {name} is only in that run" for name in gone]
    return changed + [f"{role} file {name} is not in that run" for name in new]


def _few(names: list[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


@contextlib.contextmanager
def locked(work: Path, command: str, *, shared: bool = False, make: bool = False) -> Iterator[None]:
    """Hold an advisory lock on a folder without links; without the system's support, do nothing.

    The system frees the lock when the process ends. Windows, some network drives and stores of
    objects have none, and a folder that cannot be written to needs none.
    """
    OutFolder(work.parent).refuse_links()
    if make and is_local(work):
        # writing the command's first file will raise a better error
        with contextlib.suppress(OSError):
            work.mkdir(parents=True, exist_ok=True)
    try:
        # not by the library `filelock`: its locks exclude readers from each other, its lock for
        # readers is a database that network drives lack, and without flock it leaves a file behind
        import fcntl

        file = (
            (work / "lock").open("a+", encoding="utf-8")
            if is_local(work) and work.is_dir()
            else None
        )
    except (ImportError, OSError):
        file = None
    if file is None:
        yield
        return
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as e:
            file.seek(0)
            holder = file.read().strip()
            other = f"`corpusfit {holder}`" if holder else "Another command"
            raise OutputFolderError(
                f"{other} is under way in {work.parent} and holds {work / 'lock'}. Wait until it "
                "ends, or use another folder."
            ) from e
        except OSError:  # the drive has no locks
            yield
            return
        file.truncate(0)
        file.write(command)
        file.flush()
        yield


def warn_if_disk_is_small(folder: OutFolder, needed: float, progress: Progress) -> None:
    """Compare the free disk space with an upper estimate of what a run writes.

    The manifest does not keep the warning, which is about the machine.
    """
    if not is_local(folder.work):
        return
    disk = next(path for path in (folder.work, *folder.work.parents) if path.exists())
    free = shutil.disk_usage(disk).free
    if needed > free:
        progress.warn(
            f"{folder.path} has {free / 1e9:,.1f} GB of free room, and the run may write up to "
            f"about {needed / 1e9:,.1f} GB. Make room, or choose another `out`."
        )
