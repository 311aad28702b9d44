"""Expand folders, globs and URLs into the files to read."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from corpusfit.corpus import cures
from corpusfit.corpus.files import filesystem, is_url, unreadable
from corpusfit.corpus.registry import allowed_suffixes, format_of
from corpusfit.errors import EmptyInputError, InputError


class Found(NamedTuple):
    """A file before it is opened.

    Attributes:
        url: what to open.
        path: its full path, with `/`.
        folder: the folder through which it was named; source names are relative to the folders'
            common parent.
        store: protocol of the URL; empty for a local file.
        format: name of its format.
        compression: as in `Source`.
        translation: as in `Source`.
    """

    url: str
    path: str
    folder: str
    store: str
    format: str
    compression: str
    translation: str = ""


def expanded(input_name: str, setting: str, skipped: list[str]) -> list[Found]:
    """List the readable files of one input.

    A file that is named itself must have a known suffix; in folders and globs other files are
    skipped, as are hidden files, hidden folders and linked folders. Output folders of runs below
    the named folder (those with `.corpusfit/run.json`) are skipped too, so that no run reads
    another's output.

    Args:
        input_name: the input.
        setting: how messages call the setting.
        skipped: takes the skipped files that can be made readable (`cures.kind`).

    Raises:
        EmptyInputError: a folder or a glob holds no file of a known suffix.
        InputError: the input does not exist, a folder cannot be listed, or a named file has an
            unknown suffix.
    """
    try:
        found = (
            _remote(input_name, setting, skipped)
            if is_url(input_name)
            else _local(input_name, input_name, setting, skipped)
        )
    except OSError as e:
        raise InputError(
            f"{setting} must be a readable input; got {input_name!r}, but {e.filename} cannot "
            f"be read: {e.strerror or e}. Check its name and its permissions."
        ) from e
    if not found:
        raise EmptyInputError(
            f"{setting} must hold at least one readable file; {input_name!r} has none. "
            f"Readable suffixes: {allowed_suffixes()}. Output folders of runs are skipped. "
            f"{cures.of_skipped(skipped)}".rstrip()
        )
    return found


def _local(path: str, input_name: str, setting: str, skipped: list[str]) -> list[Found]:
    path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (links keep their names)
    if Path(path).is_dir():
        return sorted(_within(path, path, skipped))
    if Path(path).is_file():
        folder, known = str(Path(path).parent), _known(path, input_name, setting)
        return [Found(path, _slashes(path), _slashes(folder), "", *known)]
    if not glob.has_magic(path):
        raise _missing(input_name, setting, f", which does not exist{_like(path)}")
    matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (an absolute pattern)
    if not matches:
        raise _missing(input_name, setting, ", which matches nothing")
    folder = _fixed_part(path)
    kept = [match for match in matches if not _in_output(match, folder)]
    return list(dict.fromkeys(found for match in kept for found in _within(match, folder, skipped)))


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")


def _within(path: str, named: str, skipped: list[str]) -> Iterator[Found]:
    """The readable files at a path, found through the folder `named`.

    By entries of folders, because a check of each of many files takes longer than all else here.
    """
    named = _slashes(named)
    if not Path(path).is_dir():
        yield from _taken(path, named, skipped)
        return
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if not entry.is_symlink() and entry.is_dir():
                    if not _is_output(Path(entry.path)):
                        waiting.append(entry.path)
                elif _is_file(entry):
                    yield from _taken(entry.path, named, skipped)


def _taken(path: str, named: str, skipped: list[str]) -> Iterator[Found]:
    """The file, if it is readable; takes down one that can be made readable."""
    if known := format_of(path):
        yield Found(path, _slashes(path), named, "", *known)
    elif cures.kind(path):
        skipped.append(path)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link to one."""
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _is_output(folder: Path) -> bool:
    """Whether a run wrote this folder; False for a folder that cannot be entered."""
    return os.path.exists(folder / ".corpusfit" / "run.json")  # noqa: PTH110 (never raises)


def _in_output(match: str, folder: str) -> bool:
    """Whether a match is an output folder of a run below `folder`, or lies in one."""
    path = Path(match)
    return any(_is_output(p) for p in (path, *path.parents) if Path(folder) in p.parents)


def _remote(input_name: str, setting: str, skipped: list[str]) -> list[Found]:
    fs, path = filesystem(input_name, setting)
    store = input_name.partition("://")[0]
    if store in ("file", "local"):
        return _local(path, input_name, setting, skipped)
    try:
        if fs.isfile(path):
            own = _known(input_name, input_name, setting)
            return [Found(input_name, path, path.rpartition("/")[0], store, *own)]
        if fs.isdir(path):
            folder, paths = path, fs.find(path)
        elif glob.has_magic(path):
            folder, paths = _fixed_part(path), fs.glob(path)
        else:
            raise _missing(input_name, setting, ", which does not exist")
    except InputError:
        raise
    except Exception as e:
        raise unreadable(input_name, e) from e
    folder = folder.rstrip("/")
    visible = [p for p in paths if "/." not in p[len(folder) :]]
    skipped += [fs.unstrip_protocol(p) for p in visible if not format_of(p) and cures.kind(p)]
    return [
        Found(fs.unstrip_protocol(path), path, folder, store, *known)
        for path in sorted(visible)
        if (known := format_of(path))
    ]


def _known(path: str, input_name: str, setting: str) -> tuple[str, str]:
    """The format and the compression of a file that is named itself."""
    known = format_of(path)
    if known is None:
        raise InputError(
            f"{setting} must be a file whose name ends in {allowed_suffixes()}; "
            f"got {input_name!r}. {cures.of_name(path)}"
        )
    return known


def _missing(input_name: str, setting: str, what: str) -> InputError:
    return InputError(
        f"{setting} must be an existing file, folder, glob, URL or Hugging Face dataset "
        f"(OWNER/NAME or hub:NAME), or - for standard input; got {input_name!r}{what}. "
        "Check the spelling and the current folder."
    )


_COMPARED = 1000
"""Most names of a folder that are compared with one that does not exist."""


def _like(path: str) -> str:
    """A question after a name like this one, in the same folder."""
    try:
        names = sorted(each.name for each in Path(path).parent.iterdir())
    except OSError:  # there is no such folder, or it cannot be read
        names = []
    near = difflib.get_close_matches(Path(path).name, names[:_COMPARED], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _fixed_part(pattern: str) -> str:
    """The folders before the first wildcard."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:fixed]) or "/"
