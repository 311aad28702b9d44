"""From what the user named to files: folders, globs and URLs expanded.

What: local paths through the standard library, URLs through fsspec, the same rules for both: a
file named itself must have a known suffix, in a folder or a glob the others are passed over.
Why: a folder usually holds more than its texts; a file that is named is meant.
Trade-off: hidden files and folders are skipped and linked folders are not entered, so that
caches and loops stay out. So is the output folder of a run below the folder that was named (one
that holds `.corpusfit/run.json`): a run must not read what it or another wrote.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from corpusfit.corpus import hub
from corpusfit.corpus.files import filesystem, is_url, unreadable
from corpusfit.corpus.formats import allowed_suffixes, format_of
from corpusfit.errors import EmptyInputError, InputError


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
        InputError: it does not exist, it or a folder in it cannot be listed, or it is a file of
            an unknown suffix.
    """
    try:
        found = _remote(given, setting) if is_url(given) else _local(given, given, setting)
    except OSError as e:
        raise InputError(
            f"{setting} must be an input that can be read; got {given!r}, but {e.filename} cannot "
            f"be read: {e.strerror or e}. Check its name and its permissions."
        ) from e
    if not found:
        raise EmptyInputError(
            f"{setting} must hold at least one readable file; {given!r} has none. "
            f"Readable are {allowed_suffixes()}; output folders of runs in it are left out."
        )
    return found


def _local(path: str, given: str, setting: str) -> list[Found]:
    path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (links keep their names)
    if Path(path).is_dir():
        return [_local_file(file, path) for file in _within(path)]
    if Path(path).is_file():
        return [_local_file(_known(path, given, setting), str(Path(path).parent))]
    if not glob.has_magic(path):
        raise _missing(given, setting, _no_such_path(given))
    matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (an absolute pattern)
    if not matches:
        raise _missing(given, setting, ", which matches nothing")
    folder = _fixed_part(path)
    kept = [match for match in matches if not _in_output(match, folder)]
    files = [file for match in kept for file in _within(match)]
    return [_local_file(file, folder) for file in dict.fromkeys(files)]


def _local_file(path: str, folder: str) -> Found:
    return Found(path, Path(path).as_posix(), Path(folder).as_posix(), "")


def _within(path: str) -> Iterator[str]:
    """A file itself, or the files of a folder, if their suffixes are known."""
    if not Path(path).is_dir():
        if format_of(path):
            yield path
        return
    for folder, inner, names in os.walk(path, onerror=_refuse):
        inner[:] = sorted(
            name for name in inner if not (name.startswith(".") or _is_output(Path(folder, name)))
        )
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and format_of(name) and file.is_file():
                yield str(file)


def _refuse(error: OSError) -> NoReturn:
    """A folder that cannot be listed is no empty folder."""
    raise error


def _is_output(folder: Path) -> bool:
    """Whether a run wrote this folder; not for one that cannot be entered (listing it will say)."""
    return os.path.exists(folder / ".corpusfit" / "run.json")  # noqa: PTH110 (never raises)


def _in_output(match: str, folder: str) -> bool:
    """Whether what a glob found is a run's output folder below `folder`, or lies in one."""
    path = Path(match)
    return any(_is_output(p) for p in (path, *path.parents) if Path(folder) in p.parents)


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
            raise _missing(given, setting, ", which does not exist")
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
            "Rename it by what it holds; of two line-aligned files say pair:FILE,FILE."
        )
    return path


def _missing(given: str, setting: str, what: str) -> InputError:
    return InputError(
        f"{setting} must be a file, a folder, a glob, a URL, a Hugging Face dataset (hub:NAME) or "
        f"- that exists; got {given!r}{what}. Check the spelling, and the folder you are in."
    )


def _no_such_path(given: str) -> str:
    if hub.is_id(given) and format_of(given) is None:
        return f": no such path; for a Hugging Face dataset say {hub.PREFIX}{given}"
    return ", which does not exist"


def _fixed_part(pattern: str) -> str:
    """The folders before the first wildcard."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:fixed]) or "/"
