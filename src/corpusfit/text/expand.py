"""Expand folders, globs and URLs into the files to read."""

from __future__ import annotations

import difflib
import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.text import cures
from corpusfit.text.files import filesystem, is_url, unpacked_name, unreadable
from corpusfit.text.registry import allowed_suffixes, format_of

# most names of a folder that are compared with one that does not exist
_COMPARED = 1000


class Found(NamedTuple):
    """A file before it is opened; other fields are as in `Source`."""

    url: str
    path: str  # in full, with `/`
    folder: str  # by which it was named; source names are relative to the folders' common parent
    store: str  # protocol of the URL; empty for a local file
    format: str
    compression: str
    translation: str = ""
    real: str = ""  # its path behind all links, which decides whether two names are one file


def expanded(input_name: str, setting: str, skipped: list[str]) -> list[Found]:
    """List the readable files of one input.

    A file that is named itself must have a known suffix; in folders and globs other files are
    passed over, as are hidden files and folders. Output folders of runs below the named folder
    (those with `.corpusfit/run.json`) are left out too, so that no run reads another's output.
    Linked folders are read; a file or a folder that is reached twice counts once, under its own
    name if it has one there.
    """
    try:
        if is_url(input_name):
            files = _remote(input_name, setting, skipped)
        else:
            files = _local(input_name, input_name, setting, skipped)
    except OSError as e:
        raise InputError(
            f"{setting} must be a readable input; got {input_name!r}, but {e.filename} cannot "
            f"be read: {e.strerror or e}. Check its name and its permissions."
        ) from e
    if not files:
        raise EmptyInputError(
            f"{setting} must hold at least one readable file; {input_name!r} has none. "
            f"Readable suffixes: {allowed_suffixes()}. Output folders of runs are skipped. "
            f"{cures.of_skipped(skipped)}".rstrip()
        )
    return files


def _local(path: str, input_name: str, setting: str, skipped: list[str]) -> list[Found]:
    path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (links keep their names)
    if Path(path).is_dir():
        return _walked(path, (), skipped)
    if Path(path).is_file():
        folder, known = str(Path(path).parent), _known(path, input_name, setting)
        real = os.path.realpath(path)
        return [Found(path, _slashes(path), _slashes(folder), "", *known, real=real)]
    if not glob.has_magic(path):
        try:
            names = sorted(each.name for each in Path(path).parent.iterdir())
        except OSError:  # there is no such folder, or it cannot be read
            names = []
        near = difflib.get_close_matches(Path(path).name, names[:_COMPARED], n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        raise _missing(input_name, setting, f", which does not exist{guess}")
    folder = _fixed_part(path)
    pattern = tuple(_slashes(path)[len(_slashes(folder)) :].strip("/").split("/"))
    before = len(skipped)
    files = _walked(folder, pattern, skipped) if Path(folder).is_dir() else []
    if not files and len(skipped) == before:
        raise _missing(input_name, setting, ", which matches nothing")
    return files


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")


# file of a folder that a run wrote
_RUN = "/.corpusfit/run.json"
# the parts of a pattern from which on the rest of a path may match
_States = frozenset[int]
# of a folder that the pattern itself matches, so that all in it is read
_ALL: _States = frozenset()


def _walked(root: str, pattern: tuple[str, ...], skipped: list[str]) -> list[Found]:
    """The readable files below a folder that match a pattern, sorted by path; all without one."""
    # one walk over entries, because a check of each of many files takes longer than all else
    states = (pattern and _left(pattern, {0})) or _ALL
    top = os.path.realpath(root)
    waiting, links = [(root, top, states, "")], list[tuple[str, str, _States, str]]()
    entered, files, others = set[tuple[str, _States]](), dict[str, str](), list[str]()
    linked_files = list[str]()
    while waiting or links:
        # links wait until all else is read, so that files keep their own names
        if not waiting:
            links.sort(reverse=True)
            waiting.append(links.pop())
        folder, known, states, beside = waiting.pop()
        real = known or os.path.realpath(folder)
        if not known and (_holds(real, top) or _holds(real, beside)):  # the link leads back
            if not _holds(top, real):
                others.append(folder)
            continue
        # each folder is entered once for what is left to match, so that a loop of links ends
        if (real, states) in entered:
            continue
        if folder != root and os.path.exists(folder + _RUN):  # noqa: PTH110 (never raises)
            continue
        entered.add((real, states))
        for entry in _entries(folder, others, must=not states):
            inner: _States | None = _ALL
            asked = True
            if states:
                inner, asked = _advanced(pattern, states, entry.name)
            elif entry.name.startswith("."):
                continue
            path = os.path.join(real, entry.name)  # noqa: PTH118 (faster than a Path)
            if inner is not None and _is(entry, os.DirEntry.is_dir):
                linked = entry.is_symlink()
                (links if linked else waiting).append(
                    (entry.path, "" if linked else path, inner, real)
                )
            elif asked and entry.is_symlink():
                linked_files.append(entry.path)
            elif asked and _is(entry, os.DirEntry.is_file):
                files.setdefault(path, entry.path)
    for path in sorted(linked_files):
        if os.path.isfile(path):  # noqa: PTH113 (never raises)
            files.setdefault(os.path.realpath(path), path)
        else:
            others.append(path)
    skipped += others
    return _with_formats(((path, path, real) for real, path in files.items()), root, "", skipped)


def _with_formats(
    files: Iterable[tuple[str, str, str]], folder: str, store: str, skipped: list[str]
) -> list[Found]:
    """Those of some files, given by (URL, path, real path), that have a format."""
    alike: dict[tuple[str, str], bool] = {}
    readable = []
    for url, path, real in sorted(files):
        if known := _format(url, alike):
            readable.append(Found(url, _slashes(path), _slashes(folder), store, *known, real=real))
        else:
            skipped.append(url)
    return readable


def _holds(folder: str, other: str) -> bool:
    """Whether a folder is another, or holds it."""
    return os.path.join(other, "").startswith(os.path.join(folder, ""))  # noqa: PTH118 (strings)


def _entries(folder: str, unreadable: list[str], *, must: bool) -> list[os.DirEntry[str]]:
    """What a folder holds; one on the way of a pattern may be closed."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        if must:
            raise
        unreadable.append(folder)
        return []


def _is(entry: os.DirEntry[str], kind: Callable[[os.DirEntry[str]], bool]) -> bool:
    """Whether an entry, or what it links to, is of a kind; False for a link to itself."""
    try:
        return kind(entry)
    except OSError:
        return False


def _left(pattern: tuple[str, ...], states: set[int]) -> _States | None:
    """The parts with those behind a `**`, which may stand for no folder; None without any."""
    left = set(states)
    for at, part in enumerate(pattern):
        if at in left and part == "**":
            left.add(at + 1)
    # the whole pattern matches, as `a/**` does with `a`
    return _ALL if len(pattern) in left else frozenset(left) or None


def _advanced(pattern: tuple[str, ...], states: _States, name: str) -> tuple[_States | None, bool]:
    """The parts of the pattern behind the name of a folder, and whether a file of it matches."""
    behind = set[int]()
    for at in states:
        part = pattern[at]
        if name.startswith(".") and not part.startswith("."):
            continue
        if part == "**":
            behind |= {at, at + 1} if at + 1 == len(pattern) else {at}
        elif fnmatch.fnmatchcase(name, part):
            behind.add(at + 1)
    return _left(pattern, behind), len(pattern) in behind


_NUMBER = re.compile(r"\d+")


def _format(path: str, alike: dict[tuple[str, str], bool]) -> tuple[str, str] | None:
    """The format and the compression of a file by its name, of `.json` by its first lines."""
    if known := format_of(path):
        return known
    inner, archive = unpacked_name(path)
    if not inner.lower().endswith(".json"):
        return None
    folder, _, name = _slashes(path).rpartition("/")
    # of files whose names differ in numbers, as those of C4, the first decides
    series = (folder, _NUMBER.sub("0", name))
    if series not in alike:
        alike[series] = cures.holds_json_lines(path)
    return ("jsonl", archive) if alike[series] else None


def _remote(input_name: str, setting: str, skipped: list[str]) -> list[Found]:
    fs, path = filesystem(input_name, setting)
    store = input_name.partition("://")[0]
    if store in ("file", "local"):
        return _local(path, input_name, setting, skipped)
    try:
        if fs.isfile(path):
            known = _known(input_name, input_name, setting)
            return [Found(input_name, path, path.rpartition("/")[0], store, *known, real=path)]
        if fs.isdir(path):
            folder, paths = path, set(fs.find(path))
        elif glob.has_magic(path):
            matches = fs.glob(path, detail=True)
            folder, paths = _fixed_part(path), set[str]()
            for match, info in matches.items():
                paths |= set(fs.find(match)) if info.get("type") == "directory" else {match}
        else:
            raise _missing(input_name, setting, ", which does not exist")
    except InputError:
        raise
    except Exception as e:
        raise unreadable(input_name, e) from e
    folder = folder.rstrip("/")
    outputs = {p[: -len(_RUN)] for p in paths if p.endswith(_RUN)} - {folder}
    kept = [
        path
        for path in paths
        if "/." not in path[len(folder) :] and not any(path.startswith(f"{o}/") for o in outputs)
    ]
    files = ((fs.unstrip_protocol(path), path, path) for path in kept)
    return _with_formats(files, folder, store, skipped)


def _known(path: str, input_name: str, setting: str) -> tuple[str, str]:
    """The format and the compression of a file that is named itself."""
    known = _format(path, {})
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


def _fixed_part(pattern: str) -> str:
    """The folders before the first wildcard."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:fixed]) or "/"
