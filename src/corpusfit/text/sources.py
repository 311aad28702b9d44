"""Resolve inputs: everything that a user may name becomes sources, sorted by name."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import itertools
import os
import posixpath
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from corpusfit.core.artifacts import no_collection, user_path
from corpusfit.core.credentials import public_name, registered
from corpusfit.core.engine import Engine
from corpusfit.core.errors import (
    EmptyInputError,
    InputError,
    bad_setting,
    near_name,
    without_secrets,
)
from corpusfit.core.languages import LANGUAGES
from corpusfit.core.manifest import digest
from corpusfit.core.plan import AUTO, PAIR, ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.text import archives, cures, rejects
from corpusfit.text.blocks import with_blocks
from corpusfit.text.contract import (
    allowed_suffixes,
    format_of,
    load,
    named,
)
from corpusfit.text.files import (
    Infos,
    States,
    Stream,
    filesystem,
    infos,
    is_data,
    is_url,
    raise_unreadable,
    reason_of,
    reports_digest,
    stated_digest,
    states_of,
    stored_size,
    unpacked_name,
)
from corpusfit.text.formats.run import as_run
from corpusfit.text.formats.txt import MANY, Txt, TxtLines, by_lines
from corpusfit.text.scores import joined_by, with_scores
from corpusfit.text.shards import fingerprint, rows, shards
from corpusfit.text.surveyed import Kept, surveyed


class _Found(NamedTuple):
    """A file before it is opened; other fields are as in `Source`."""

    url: str
    path: str  # in full, with `/`
    folder: str  # by which it was named; source names are relative to the folders' common parent
    store: str  # protocol of the URL; empty for a local file
    format: str
    compression: str
    translation: str = ""
    real: str = ""  # its path behind all links, which decides whether two names are one file


def find(
    inputs: Sequence[str],
    plan: ReadPlan,
    *,
    role: str,
    engine: Engine | None = None,
    note: Callable[[str], None] = lambda _: None,
    kept: Kept | None = None,
) -> list[Source]:
    """Describe every source that the inputs name, sorted by name.

    A name is relative to the inputs' common folder and a fingerprint depends on the content, so
    neither changes when the files move. Fingerprints need one read of every local file, unless
    `surveyed` has them `kept`.
    """
    setting = role if " " in role else f"`{role}`"
    skipped: list[str] = []
    notes: list[str] = []
    with no_collection():
        plan.check()
        names = [registered(str(each)) for each in inputs]
        if role == "corpus":
            names = list(map(as_run, names))
        unlike = [name for name in names if not is_pair(name)]
        if unlike and len(unlike) < len(names):
            cure = "Use a separate command for the other inputs."
            raise bad_setting(setting, "either only aligned pairs or none", unlike[0], cure)
        files: dict[tuple[str, str], _Found] = {}
        others: dict[str, Source] = {}
        # of files that are named one by one, all at once
        plain = (name for name in names if not (named(name) or glob.has_magic(name)))
        known = infos(plain, setting)
        for name in names:
            # inputs with a prefix, such as hub: and pair:
            form = named(name)
            if form:
                if form.gathers and role != "corpus":
                    cure = f"Name its text: {name.removeprefix(form.prefix)}/selected"
                    raise bad_setting(setting, "given without a run, which is a corpus", name, cure)
                for source in form.find(name, setting):
                    if form.files(source):
                        path = source.url
                        folder = posixpath.dirname(source.url) or "."
                        kind = (source.format, source.compression, source.translation)
                        file = _Found(path, path, folder, "", *kind, real=path)
                        files.setdefault((path, source.translation), file)
                    else:
                        others[source.url] = source
            else:
                # the real path is the key, so that a file named twice counts once
                for file in _expand(name, setting, skipped, known, notes, role in _LISTED):
                    files.setdefault((f"{file.store}://{file.real}", ""), file)
        _refuse_tables(files.values(), setting)
        stored = list(_with_names(list(files.values())))
        if plan.scores:
            has = partial(_has_field, plan)
            stored = with_scores([*stored, *others.values()], plan.scores, plan.id_field, has)
            notes.append(joined_by(stored, plan.scores))
        described, divided = _divided(_survey(stored, plan, engine, kept, known), plan, setting)
        sources = [*described, *others.values()]
        if not sources:
            raise EmptyInputError(f"{setting} must name at least one input; got none.")
        for source in sources:
            load(source.format).check(source, plan, setting)
        sources = with_blocks(_unique(sources), plan, engine, kept.folder if kept else None)
    empty = sorted(source.name for source in described if not source.size)
    empty = empty if len(empty) < len(described) else []  # else they are an error
    passed_over = cures.note_of(skipped, setting)
    for text in (passed_over, *notes, cures.of_empty(empty, setting), *divided):
        if text:
            note(text)
    return sources


def _refuse_tables(files: Iterable[_Found], setting: str) -> None:
    """Refuse files in the folder of a table, however they are named."""
    for folder in {file.folder for file in files if not (file.store or is_url(file.folder))}:
        for place in (Path(folder), *Path(folder).parents):
            logs = itertools.chain(*map(place.glob, cures.LOGS))
            cures.refuse_table(map(str, logs), setting)


# files of a folder that are looked at, from the first to the last
_LOOKED_AT = 5


def _divided(sources: list[Source], plan: ReadPlan, setting: str) -> tuple[list[Source], list[str]]:
    """The sources, of which plain text is of the format that it shows, and notes on that."""
    if plan.txt != AUTO:
        return sources, []
    # those of a folder are read alike if there are many; in a store each look is a request
    # empty ones, as Spark writes them, show nothing
    plain = [n for n, source in enumerate(sources) if source.format == Txt.name and source.size]
    kinds: dict[str, list[int]] = {}
    for number in plain:
        url = sources[number].url
        alone = len(plain) < MANY and not is_url(url)
        folder = url if alone else posixpath.dirname(sources[number].name)
        kinds.setdefault(folder, []).append(number)
    divided = sources.copy()
    lines = list[str]()
    unclear = list[str]()
    for numbers in kinds.values():
        looked_at = [sources[n] for n in numbers[:: -(-len(numbers) // _LOOKED_AT)]]
        found = {by_lines(next(iter(Stream(s, plan)), b""), len(plain)) for s in looked_at}
        if found == {True}:
            lines += [sources[n].name for n in numbers]
            for n in numbers:
                divided[n] = replace(sources[n], format=TxtLines.name)
        elif found != {False}:
            unclear += [sources[n].name for n in numbers]
    return divided, cures.of_division(lines, unclear, setting)


def is_pair(input_name: str) -> bool:
    """Whether an input names aligned pairs."""
    form = named(input_name)
    return form is not None and form.parallel


def is_parallel(sources: Sequence[Source]) -> bool:
    """Whether the sources are aligned pairs."""
    return all(load(source.format).parallel for source in sources)


def sides(sources: Sequence[Source]) -> tuple[str, str]:
    """Names of the two sides of aligned pairs, such as `de` and `en`, fit for file names.

    `text` and `translation` if the sources disagree, or do not name them.
    """
    names = {load(source.format).sides(source) for source in sources}
    return names.pop() if len(names) == 1 else PAIR


def files_of(source: Source) -> list[str]:
    """The stored files of a source: two for line-aligned files, none for a dataset."""
    return [*load(source.format).files(source), *(path for _, path, _ in source.scores)]


def _fingerprint(source: Source, digests: Sequence[str]) -> str:
    """The fingerprint of a source from those of its files."""
    own = len(digests) - len(source.scores)
    combined = load(source.format).fingerprint(source, digests[:own])
    sides = zip(source.scores, digests[own:], strict=True)
    described = [(name, key, d) for (name, _, key), d in sides]
    return digest([combined, described]) if source.scores else combined


def _has_field(plan: ReadPlan, source: Source, name: str) -> bool:
    """Whether the first row of a source has a field."""
    plain = replace(plan, text_field=name, where="", numbers="", scores="")
    sized = replace(source, size=stored_size(source.url))
    for row in (row for shard in shards([sized], plain) for row in rows(shard, plain)):
        if isinstance(row, Document):
            return True
        if rejects.lacks_field(row.reason) or rejects.of_field(row.reason):
            return not rejects.lacks_field(row.reason)
    return False


@no_collection()
def current_sources(
    sources: Sequence[Source],
    plan: ReadPlan,
    engine: Engine | None = None,
    kept: Kept | None = None,
) -> tuple[list[Source], list[str]]:
    """An earlier run's sources in their current state, and the names of changed ones."""
    current = []
    for source in sources:
        form = named(source.url)
        found = form.find(source.url, "`corpus`") if form else [source]
        current.append(replace(source, fingerprint=found[0].fingerprint))
    now = _survey(current, plan, engine, kept)
    changed = [s.name for s, n in zip(sources, now, strict=True) if n.fingerprint != s.fingerprint]
    return with_blocks(now, plan, engine, kept.folder if kept else None), changed


def _survey(
    sources: Sequence[Source],
    plan: ReadPlan,
    engine: Engine | None,
    kept: Kept | None,
    known: Infos | None = None,
) -> list[Source]:
    """Fill in size, fingerprint and cells from the sources' stored files, if any."""
    forms = {name: load(name) for name in {source.format for source in sources}}
    files = [files_of(source) for source in sources]
    states = states_of(url for urls in files for url in urls)
    to_scan = [
        (url, forms[s.format].line_ends and not s.compression and n < len(urls) - len(s.scores))
        for urls, s in zip(files, sources, strict=True)
        for n, url in enumerate(urls)
    ]
    scans = surveyed(to_scan, plan, engine, kept, known, states)
    described = []
    end = 0
    for source, urls in zip(sources, files, strict=True):
        if not urls:
            described.append(source)
            continue
        begin = end
        end = end + len(urls)
        digests, sizes, cells = zip(*scans[begin:end], strict=True)
        own = len(urls) - len(source.scores)
        described.append(
            Source(  # several times as fast as `replace`
                source.name,
                source.url,
                source.format,
                source.compression,
                sum(sizes[:own]),
                _fingerprint(source, digests),
                cells[0],
                source.translation,
                None,
                _state(states[begin:end]),
                source.scores,
            )
        )
    return described


def content(source: Source) -> str:
    """Recompute the fingerprint of a source's stored files.

    Without stored files, the old fingerprint is returned.
    """
    digests = [fingerprint(url)[0] for url in files_of(source)]
    return _fingerprint(source, digests) if digests else source.fingerprint


def _state(states: States) -> int:
    """A hash of sizes and times of a source's files; 0 if one is in a store, or gone."""
    combined = 0
    for state in states:
        if state is None:
            return 0
        combined = hash((combined, state.st_size, state.st_mtime_ns))
    return combined


@no_collection()
def changed(sources: Sequence[Source], *, everywhere: bool = False) -> Source | None:
    """A source whose content is not that of its fingerprint any more, if any.

    Local files are read again if their size or time changed, those of stores that report no digest
    if asked `everywhere`.
    """
    reporting = []
    for source in sources:
        if source.state:
            again = _state(states_of(files_of(source))) != source.state
        elif reports_digest(source.url):
            reporting.append(source)
            continue
        else:
            again = everywhere
        if again and content(source) != source.fingerprint:
            return source
    return _replaced(reporting)


def _replaced(sources: Sequence[Source]) -> Source | None:
    """A source whose store reports another content than that of its fingerprint, if any."""
    files = [files_of(source) for source in sources]
    now = infos(url for urls in files for url in urls)
    for source, urls in zip(sources, files, strict=True):
        stated = [digest for url in urls if (digest := stated_digest(now.get(url, {})))]
        if not urls or len(stated) < len(urls):
            continue
        digests = [digest for digest, _ in stated]
        if _fingerprint(source, digests) != source.fingerprint:
            return source
    return None


def located(input_name: str, home: Path) -> str:
    """The full form of an input, relative paths from the folder `home`."""
    form = named(input_name)
    if form:
        return form.located(input_name, home)
    return registered(input_name) if is_url(input_name) else str(home / user_path(input_name))


def _with_names(files: Sequence[_Found]) -> Iterator[Source]:
    """The sources, named relative to the common folder of their store, without size."""
    folders: dict[str, set[str]] = {}
    for file in files:
        folders.setdefault(file.store, set()).add(file.folder)
    common = {store: posixpath.commonpath(names) for store, names in folders.items()}
    inside = {store: f"{home}/" for store, home in common.items()}
    for file in files:
        home = common[file.store]
        name = file.path.removeprefix(inside[file.store])
        if not home or name == file.path:
            name = posixpath.relpath(file.path, home or ".")
        if file.store and len(common) > 1:
            name = f"{file.store}/{name}"
        kind = (file.format, file.compression)
        yield Source(name, file.url, *kind, 0, "", translation=file.translation)


def _unique(sources: list[Source]) -> list[Source]:
    """Sort by printable name; repeated names get a number."""
    seen: Counter[str] = Counter()
    unique = []
    # the content decides between URLs that differ in their queries, which are in no name
    for source in sorted(sources, key=lambda s: (s.name, public_name(s.url), s.fingerprint)):
        name = source.name
        if not name.isascii():
            name = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        seen[name] += 1
        if seen[name] > 1:
            name += f"~{seen[name]}"
        unique.append(source if name == source.name else replace(source, name=name))
    return sorted(unique, key=lambda s: s.name)


# inputs of which archives are listed; others may have splits, which only folders show
_LISTED = ("background", "corpus", "data")
# an archive, and what is named of it
_WITHIN = re.compile(r"(.+?\.(?:tar|zip))/+(.+?)/*", re.IGNORECASE | re.DOTALL)


def _expand(
    input_name: str,
    setting: str,
    skipped: list[str],
    known: Infos,
    notes: list[str],
    listed: bool,
) -> list[_Found]:
    """List the readable files of one input.

    A file that is named itself must have a known suffix; in folders and globs other files are
    passed over, as is what is no data by its name (`is_data`). Output folders of runs below the
    named folder (those with `.corpusfit/run.json`) are left out too, so that no run reads another's
    output. A folder with the log of a table, which alone says which rows count, is refused.
    Links are followed within the named folder, and out of it to the blobs of the hub's cache
    (`_stays`). A file or a folder that is reached twice counts once, under its own name if it has
    one there. An archive is a folder of its files, also where a file or a folder in it is named;
    where archives are not `listed`, they are passed over.
    """
    match = _WITHIN.fullmatch(input_name)
    in_file = match if match and os.path.isfile(user_path(match[1])) else None  # noqa: PTH113
    place = in_file[1] if in_file else input_name
    try:
        if is_url(place):
            found = _remote(place, setting, skipped, known)
        else:
            found = _local(place, place, setting, skipped)
        files = []
        for file in found:
            if file.format != archives.ARCHIVE:
                files.append(file)
            elif listed:
                within = in_file[2] if in_file else ""
                files += _in_archive(file, within, setting, skipped, notes)
            else:
                skipped.append(file.url)
    except OSError as e:
        raise InputError(
            f"{setting} must be a readable input; got {input_name!r}, but {e.filename} cannot "
            f"be read: {e.strerror or e}. Check its name and its permissions."
        ) from e
    if not files:
        raise EmptyInputError(
            f"{setting} must hold at least one readable file; {input_name!r} has none. "
            f"Readable suffixes: {allowed_suffixes()}. Output folders of runs are skipped. "
            f"{' '.join([cures.of_skipped(skipped), *notes])}".rstrip()
        )
    return files


def _in_archive(
    archive: _Found, within: str, setting: str, skipped: list[str], notes: list[str]
) -> list[_Found]:
    """The readable files of an archive, or of a file or a folder in it."""
    files, left_out = archives.contents(archive.url)
    notes += cures.of_archive(archive.url, left_out, setting)
    top = f"{archive.path}/{within}".rstrip("/")
    every = {f"{archive.path}/{name}": file for name, file in files.items()}
    inside = {path: f for path, f in every.items() if f"{path}/".startswith(f"{top}/")}
    cures.refuse_table(inside, setting)
    urls = (
        (inside[path].url(archive.url), path, inside[path].url(archive.real))
        for path in _data_among(inside, top, skipped)
    )
    found = _with_formats(urls, archive.folder, archive.store, skipped)
    packings = [".".join(filter(None, (f.compression, inside[f.path].packing))) for f in found]
    return [f._replace(compression=p) for f, p in zip(found, packings, strict=True)]


def _local(path: str, input_name: str, setting: str, skipped: list[str]) -> list[_Found]:
    path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (links keep their names)
    try:
        # from Python 3.14 on, `Path.is_dir` hides errors
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError, ValueError):
        mode = 0
    except OSError:
        if not glob.has_magic(path):
            raise
        mode = 0  # Windows has no names with *
    if stat.S_ISDIR(mode):
        return _walk(path, (), skipped, setting)
    if stat.S_ISREG(mode):
        folder = str(Path(path).parent)
        form = _required_format(path, path, input_name, setting)
        real = os.path.realpath(path)
        return [_Found(path, _slashes(path), _slashes(folder), "", *form, real=real)]
    if mode or input_name == "-":
        cure = "Save what a pipe or standard input holds to a file first."
        raise bad_setting(setting, "a file, a folder, a glob, a URL or a dataset", input_name, cure)
    if not glob.has_magic(path):
        raise _missing(input_name, setting, f", which does not exist{near_name(path)}")
    folder = _fixed_part(_slashes(path))
    pattern = tuple(_slashes(path)[len(_slashes(folder)) :].strip("/").split("/"))
    before = len(skipped)
    files = _walk(folder, pattern, skipped, setting) if Path(folder).is_dir() else []
    if not files and len(skipped) == before:
        raise _missing(input_name, setting, ", which matches nothing")
    return files


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")


# file that marks the output folder of a run
_RUN = "/.corpusfit/run.json"
# indices of pattern parts that the rest of a path may match, as in an automaton
_States = frozenset[int]
# state of a folder that the whole pattern matches, so that everything in it is read
_ALL: _States = frozenset()


def _walk(root: str, pattern: tuple[str, ...], skipped: list[str], setting: str) -> list[_Found]:
    """The readable files below a folder that match a pattern, sorted by path; all without one."""
    # use the directory entries of one walk, as calling stat on many files dominates the time
    states = (pattern and _with_skipped(pattern, {0})) or _ALL
    top = os.path.realpath(root)
    waiting = [(root, top, states, "")]
    links = list[tuple[str, str, _States, str]]()
    entered = set[tuple[str, _States]]()
    files = dict[str, str]()
    others = list[str]()
    linked_files = list[tuple[str, str]]()
    while waiting or links:
        # follow links last, so that a file reached twice gets its own name, not the link's
        if not waiting:
            links.sort(reverse=True)
            waiting.append(links.pop())
        folder, known, states, beside = waiting.pop()
        real = known or os.path.realpath(folder)
        if not known and not _stays(real, top, beside):
            others.append(folder)
            continue
        # a link to an enclosing folder
        if not known and _holds(real, beside):
            continue
        # enter a folder once per remaining pattern, so that loops of links end
        if (real, states) in entered:
            continue
        if folder != root and os.path.exists(folder + _RUN):  # noqa: PTH110 (never raises)
            continue
        entered.add((real, states))
        inside = os.path.join(real, "")  # noqa: PTH118 (a string)
        entries = _entries(folder, others, must=not states)
        cures.refuse_table((entry.path for entry in entries), setting)
        for entry in entries:
            data = is_data(entry.name)
            inner, matches = _advance(pattern, states, entry.name, data=data)
            if not data and (inner, matches) == _LEFT_OUT:
                if _advance(pattern, states, entry.name, data=True) != _LEFT_OUT:
                    others.append(entry.path + "/" * _is(entry, os.DirEntry.is_dir))
                continue
            path = inside + entry.name
            if matches and not entry.is_symlink() and _is(entry, os.DirEntry.is_file):
                files.setdefault(path, entry.path)
            elif inner is not None and _is(entry, os.DirEntry.is_dir):
                linked = entry.is_symlink()
                (links if linked else waiting).append(
                    (entry.path, "" if linked else path, inner, real)
                )
            elif matches and entry.is_symlink():
                linked_files.append((entry.path, real))
    for path, beside in sorted(linked_files):
        to = os.path.realpath(path)
        if os.path.isfile(to) and _stays(to, top, beside):  # noqa: PTH113 (never raises)
            files.setdefault(to, path)
        else:
            others.append(path)
    skipped += others
    return _with_formats(((path, path, real) for real, path in files.items()), root, "", skipped)


def _with_formats(
    files: Iterable[tuple[str, str, str]], folder: str, store: str, skipped: list[str]
) -> list[_Found]:
    """Files with a known format, from (URL, path, real path)."""
    alike: dict[tuple[str, str], bool] = {}
    by_ending: dict[str, tuple[str, str] | None] = {}
    readable = []
    folder = _slashes(folder)
    for url, path, real in sorted(files):
        # a suffix begins with a dot, so what follows the first one decides for many files
        name = _slashes(path)
        ending = name[name.find(".", name.rfind("/")) :]
        if ending not in by_ending:
            by_ending[ending] = format_of(ending)
        form = by_ending[ending] or _format(url, alike, name)
        if form and not cures.is_about(name, form):
            readable.append(_Found(url, name, folder, store, *form, real=real))
        else:
            skipped.append(url)
    return readable


def _stays(to: str, top: str, beside: str) -> bool:
    """Whether a link leads no further than a data set may.

    Args:
        to: the real path of what it links to.
        top: the real path of the named folder.
        beside: the real path of the folder that has the link.
    """
    if _holds(top, to):
        return True
    # In the hub's cache, files in `snapshots/REVISION` are links to `blobs`. A link elsewhere may
    # be a stranger's, to a private file whose text would be selected and published.
    home, blobs = os.path.split(os.path.dirname(to))  # noqa: PTH120
    return blobs == "blobs" and _holds(os.path.join(home, "snapshots"), beside)  # noqa: PTH118


def _holds(folder: str, other: str) -> bool:
    """Whether a folder equals or contains another."""
    return os.path.join(other, "").startswith(os.path.join(folder, ""))  # noqa: PTH118 (strings)


def _entries(folder: str, unreadable: list[str], *, must: bool) -> list[os.DirEntry[str]]:
    """The entries of a folder; unreadable folders on a pattern's way are skipped."""
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


def _with_skipped(pattern: tuple[str, ...], states: set[int]) -> _States | None:
    """Add the states after a `**`, which may match no folder; None for no states."""
    left = set(states)
    for at, part in enumerate(pattern):
        if at in left and part == "**":
            left.add(at + 1)
    # the whole pattern matches, as `a/**` does with `a`
    return _ALL if len(pattern) in left else frozenset(left) or None


_LEFT_OUT = None, False


def _advance(
    pattern: tuple[str, ...], states: _States, name: str, *, data: bool
) -> tuple[_States | None, bool]:
    """The states after a name, and whether the name completes the pattern.

    What is no `data` by its name must be named by its beginning, as hidden files in a shell.
    """
    if not states:
        return (_ALL, True) if data else _LEFT_OUT
    behind = set[int]()
    for at in states:
        part = pattern[at]
        if not data and part.startswith(("*", "?", "[")):
            continue
        if part == "**":
            behind |= {at, at + 1} if at + 1 == len(pattern) else {at}
        elif fnmatch.fnmatchcase(name, part):
            behind.add(at + 1)
    return _with_skipped(pattern, behind), len(pattern) in behind


_NUMBER = re.compile(r"\d+")


def _format(
    path: str, alike: dict[tuple[str, str], bool], within: str = ""
) -> tuple[str, str] | None:
    """The format and the compression of a file by its name, of `.json` by its first lines."""
    if archives.is_archive(path):
        return archives.ARCHIVE, ""
    if form := format_of(path):
        return form
    inner, archive = unpacked_name(path)
    if not inner.lower().endswith(".json"):
        return None
    folder, _, name = _slashes(within or path).rpartition("/")
    # of files whose names differ in numbers, as those of C4, the first decides
    series = (folder, _NUMBER.sub("0", name))
    if series not in alike:
        alike[series] = cures.holds_json_lines(path)
    return ("jsonl", archive) if alike[series] else None


def _remote(input_name: str, setting: str, skipped: list[str], known: Infos) -> list[_Found]:
    fs, path = filesystem(input_name, setting)
    place = public_name(path)  # for web pages the whole URL
    store = input_name.partition("://")[0]
    if store in ("file", "local"):
        return _local(path, input_name, setting, skipped)
    try:
        kind = known[input_name]["type"] if input_name in known else ""
        if not kind:
            fs.invalidate_cache()  # its listings may be those of an earlier command
        if kind == "file" or (not kind and fs.isfile(path)):
            form = _required_format(input_name, place, input_name, setting)
            folder = place.rpartition("/")[0]
            return [_Found(input_name, place, folder, store, *form, real=input_name)]
        if kind == "directory" or fs.isdir(path):
            folder = path
            paths = fs.find(path, detail=True)
        elif glob.has_magic(input_name):
            matches = fs.glob(path, detail=True)
            folder = _fixed_part(path)
            paths = {}
            cures.refuse_table(map(fs.unstrip_protocol, _beside(fs, folder)), setting)
            for match, info in matches.items():
                is_folder = info.get("type") == "directory"
                paths |= fs.find(match, detail=True) if is_folder else {match: info}
        else:
            fs.info(path)  # states the reason
            raise _missing(input_name, setting, ", which does not exist")
    except InputError:
        raise
    except FileNotFoundError as e:
        if not isinstance(reason_of(e), FileNotFoundError):
            raise_unreadable(input_name, e)
        raise _missing(input_name, setting, ", which does not exist") from without_secrets(e)
    except Exception as e:
        raise_unreadable(input_name, e)
    # leave out what is no data by its name, and output folders of runs
    folder = folder.rstrip("/")
    cures.refuse_table(map(fs.unstrip_protocol, paths), setting)
    urls = {path: fs.unstrip_protocol(path) for path in _data_among(paths, folder, skipped)}
    if chained := [url for url in urls.values() if "::" in url]:
        raise InputError(
            f"{setting} must have no file with :: in its name, by which fsspec opens another; got "
            f"{chained[0]}. Rename it."
        )
    if reports_digest(input_name):
        known |= {url: paths[path] for path, url in urls.items() if "size" in paths[path]}
    # a page of the web may link to signed URLs
    names = {path: registered(url) if is_url(path) else url for path, url in urls.items()}
    files = ((url, public_name(path), url) for path, url in names.items())
    return _with_formats(files, public_name(folder), store, skipped)


def _beside(fs: Any, folder: str) -> list[str]:
    """What is in a folder of a store; nothing if that cannot be listed."""
    with contextlib.suppress(OSError, NotImplementedError):
        return [str(name) for name in fs.ls(folder, detail=False)]
    return []


def _data_among(paths: Collection[str], folder: str, skipped: list[str]) -> Iterator[str]:
    """The files below a folder that are data by all names on their way, and of no run's output."""
    left_out = set[str]()
    outputs = {p[: 1 - len(_RUN)] for p in paths if p.endswith(_RUN)} - {f"{folder}/"}
    lengths = {*map(len, outputs)}
    for path in paths:
        names = path[len(folder) :].strip("/").split("/")
        no_data = next((n for n, name in enumerate(names, 1) if not is_data(name)), 0)
        if no_data:
            inside = "/" * (no_data < len(names))
            left_out.add(public_name(f"{folder}/{'/'.join(names[:no_data])}{inside}"))
        elif not any(path[:length] in outputs for length in lengths):
            yield path
    skipped += left_out


def _required_format(path: str, name: str, input_name: str, setting: str) -> tuple[str, str]:
    """The format and the compression of a file that is named itself, by its name in its store."""
    form = format_of(name) or _format(path, {})
    inner, archive = unpacked_name(name)
    if form is None and inner.lower().rpartition(".")[2] in LANGUAGES:  # test.de, of a translation
        form = Txt.name, archive
    if form is None:
        raise InputError(
            f"{setting} must be a file whose name ends in {allowed_suffixes()}; "
            f"got {input_name!r}. {cures.of_name(path)}"
        )
    return form


def _missing(input_name: str, setting: str, detail: str) -> InputError:
    return InputError(
        f"{setting} must be an existing file, folder, glob, URL or Hugging Face dataset "
        f"(hub:OWNER/NAME); got {input_name!r}{detail}. "
        "Check the spelling and the current folder."
    )


def _fixed_part(pattern: str) -> str:
    """The folders before the first wildcard."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:fixed]) or "/"
