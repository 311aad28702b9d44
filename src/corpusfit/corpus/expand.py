"""From what the user named to files: folders, globs and URLs expanded.

What: local paths through the standard library, URLs through fsspec, the same rules for both: a
file named itself must have a known suffix, in a folder or a glob the others are passed over.
Why: a folder usually holds more than its texts; a file that is named is meant.
Trade-off: hidden files and folders are skipped and linked folders are not entered, so that
caches and loops stay out.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from corpusfit.corpus.files import filesystem, is_url, unreadable
from corpusfit.corpus.formats import allowed_suffixes, format_of
from corpusfit.errors import EmptyInputError, InputError

__all__ = ["Found", "expanded"]


class Found(NamedTuple):
    """A file before it is opened.

    Attributes:
        url: what to open.
        path: its full path, with `/`.
        folder: the folder it was named by; names are relative to what these have in common.
        store: protocol of the URL; empty for a local file.
    """

    url: str
    path: str
    folder: str
    store: str


def expanded(given: str, setting: str) -> list[Found]:
    """The readable files one input stands for.

    Raises:
        EmptyInputError: a folder or a glob holds no file of a known suffix.
        InputError: it does not exist, cannot be listed, or is a file of an unknown suffix.
    """
    found = _remote(given, setting) if is_url(given) else _local(given, given, setting)
    if not found:
        raise EmptyInputError(
            f"{setting} must hold at least one readable file; {given!r} has none. "
            f"Readable are {allowed_suffixes()}."
        )
    return found


def _local(path: str, given: str, setting: str) -> list[Found]:
    path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (links keep their names)
    if Path(path).is_dir():
        return [_local_file(file, path) for file in _within(path)]
    if Path(path).is_file():
        return [_local_file(_known(path, given, setting), str(Path(path).parent))]
    if not glob.has_magic(path):
        raise _missing(given, setting, "does not exist")
    matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (an absolute pattern)
    if not matches:
        raise _missing(given, setting, "matches nothing")
    folder = _fixed_part(path)
    files = [file for match in matches for file in _within(match)]
    return [_local_file(file, folder) for file in dict.fromkeys(files)]


def _local_file(path: str, folder: str) -> Found:
    return Found(path, Path(path).as_posix(), Path(folder).as_posix(), "")


def _within(path: str) -> Iterator[str]:
    """A file itself, or the files of a folder, if their suffixes are known."""
    if not Path(path).is_dir():
        if format_of(path):
            yield path
        return
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and format_of(name) and file.is_file():
                yield str(file)


def _remote(given: str, setting: str) -> list[Found]:
    fs, path = filesystem(given, setting)
    store = given.partition("://")[0]
    if store in ("file", "local"):
        return _local(path, given, setting)
    try:
        if fs.isfile(path):
            return [Found(_known(given, given, setting), path, path.rpartition("/")[0], store)]
        if fs.isdir(path):
            folder, paths = path, fs.find(path)
        elif glob.has_magic(path):
            folder, paths = _fixed_part(path), fs.glob(path)
        else:
            raise _missing(given, setting, "does not exist")
    except InputError:
        raise
    except Exception as e:
        raise unreadable(given, e) from e
    folder = folder.rstrip("/")
    visible = [p for p in paths if "/." not in p[len(folder) :] and format_of(p)]
    return [Found(fs.unstrip_protocol(p), p, folder, store) for p in sorted(visible)]


def _known(path: str, given: str, setting: str) -> str:
    if format_of(path) is None:
        raise InputError(
            f"{setting} must be a file whose name ends in {allowed_suffixes()}; got {given!r}. "
            "Rename it by what it holds."
        )
    return path


def _missing(given: str, setting: str, what: str) -> InputError:
    return InputError(
        f"{setting} must be a file, a folder, a glob, a URL, a Hugging Face dataset id or - that "
        f"exists; got {given!r}, which {what}. Check the spelling, and the folder you are in."
    )


def _fixed_part(pattern: str) -> str:
    """The folders before the first wildcard."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:fixed]) or "/"
