"""Find the inputs: turn everything a user may name into sources, sorted by name."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from corpusfit.core.artifacts import is_local, no_collection, user_path
from corpusfit.core.errors import (
    EmptyInputError,
    InputError,
    StorageError,
    bad_setting,
    machine_fault,
)
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text import cures
from corpusfit.text.contract import SIDES
from corpusfit.text.cutting import BOM
from corpusfit.text.expand import Found, expanded
from corpusfit.text.files import MAGIC, Stream, is_url
from corpusfit.text.formats.hub import with_prefix
from corpusfit.text.registry import format_of_bytes, load, named
from corpusfit.text.survey import ScanChunks, fingerprint, scan_here, survey


def find(
    inputs: Sequence[str],
    plan: ReadPlan,
    *,
    spool: Path,
    role: str,
    scan: ScanChunks = scan_here,
    note: Callable[[str], None] = lambda _: None,
) -> list[Source]:
    """Describe every source that the inputs name, sorted by name.

    A name is relative to the inputs' common folder and a fingerprint depends on the content, so
    neither changes when the files move. Fingerprints need one read of every local file.
    """
    setting = role if " " in role else f"`{role}`"
    skipped: list[str] = []
    with no_collection():
        plan.check()
        names = [with_prefix(str(each)) for each in inputs]
        unlike = [name for name in names if not is_pair(name)]
        if unlike and len(unlike) < len(names):
            cure = "Use a separate command for the other inputs."
            raise bad_setting(setting, "either only aligned pairs or none", unlike[0], cure)
        files: dict[tuple[str, str], Found] = {}
        others: dict[str, Source] = {}
        for name in names:
            form = named(name)
            if form:
                source = form.find(name, setting)
                if form.files(source):
                    path, folder = source.url, posixpath.dirname(source.url) or "."
                    kind = (source.format, source.compression, source.translation)
                    file = Found(path, path, folder, "", *kind, real=path)
                    files.setdefault((path, source.translation), file)
                else:
                    others[source.url] = source
            elif name == "-" or _is_pipe(name):
                if name not in others:
                    others[name] = _spooled(name, spool, role)
            else:
                for file in expanded(name, setting, skipped):
                    files.setdefault((f"{file.store}://{file.real}", ""), file)
        stored = list(_with_names(list(files.values())))
        sources = [*_surveyed(stored, plan, scan), *others.values()]
        if not sources:
            raise EmptyInputError(f"{setting} must name at least one input; got none.")
        for source in sources:
            load(source.format).check(source, plan, setting)
        sources = _unique(sources)
    if text := cures.note_of(skipped, setting):
        note(text)
    return sources


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
    return names.pop() if len(names) == 1 else SIDES


def files_of(source: Source) -> list[str]:
    """The stored files of a source: two for line-aligned files, none for a dataset."""
    return load(source.format).files(source)


def found_again(
    sources: Sequence[Source], plan: ReadPlan, scan: ScanChunks = scan_here
) -> tuple[list[Source], list[str]]:
    """Sources of an earlier run as they are now, and the names of those whose content changed."""
    asked = []
    for source in sources:
        form = named(source.url)
        digest = form.find(source.url, "`corpus`").fingerprint if form else source.fingerprint
        asked.append(replace(source, fingerprint=digest) if form else source)
    now = _surveyed(asked, plan, scan)
    changed = [s.name for s, n in zip(sources, now, strict=True) if n.fingerprint != s.fingerprint]
    return now, changed


def _surveyed(sources: Sequence[Source], plan: ReadPlan, scan: ScanChunks) -> list[Source]:
    """The sources with size, fingerprint and cells of their stored files, if they have any."""
    formats = [load(source.format) for source in sources]
    files = [form.files(source) for form, source in zip(formats, sources, strict=True)]
    lines = [f.line_ends and not s.compression for f, s in zip(formats, sources, strict=True)]
    asked = [(url, kind) for urls, kind in zip(files, lines, strict=True) for url in urls]
    scans = iter(survey(asked, plan, scan))
    surveyed = []
    for source, form, urls in zip(sources, formats, files, strict=True):
        if not urls:
            surveyed.append(source)
            continue
        digests, sizes, cells = zip(*(next(scans) for _ in urls), strict=True)
        surveyed.append(
            Source(  # three times as fast as `replace`
                source.name,
                source.url,
                source.format,
                source.compression,
                sum(sizes),
                form.fingerprint(source, digests),
                cells[0],
                source.translation,
            )
        )
    return surveyed


def content(source: Source) -> str:
    """The fingerprint of a source's stored files as they are now.

    A source without stored files has the fingerprint that it had.
    """
    digests = [fingerprint(url)[0] for url in files_of(source)]
    return load(source.format).fingerprint(source, digests) if digests else source.fingerprint


def located(input_name: str, home: Path) -> str:
    """The full form of an input: `hub:` before a bare id, relative paths from the folder `home`."""
    input_name = with_prefix(input_name, home)
    form = named(input_name)
    if form:
        return form.located(input_name, home)
    return input_name if is_url(input_name) else str(home / user_path(input_name))


def _is_pipe(input_name: str) -> bool:
    """Whether it is a named pipe or a process substitution, which can be read only once."""
    path = Path(input_name)
    try:
        return path.is_fifo() or path.is_char_device()
    except OSError:  # not a path, or not accessible: `expanded` reports it
        return False


def _with_names(files: Sequence[Found]) -> Iterator[Source]:
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
    """Sort by printable name; repeated names (such as a file called `stdin`) get a number."""
    seen: Counter[str] = Counter()
    unique = []
    for source in sorted(sources, key=lambda s: (s.name, s.url)):
        name = source.name
        if not name.isascii():
            name = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        seen[name] += 1
        if seen[name] > 1:
            name += f"~{seen[name]}"
        unique.append(source if name == source.name else replace(source, name=name))
    return sorted(unique, key=lambda s: s.name)


# standard inputs that were read to their end and cannot be read again
_used: weakref.WeakSet[TextIO] = weakref.WeakSet()


def _spooled(input_name: str, spool: Path, role: str) -> Source:
    """Copy `-` or a pipe into the folder `spool`, as a corpus is read more than once."""
    if not is_local(spool):
        raise bad_setting(
            "`out`",
            "a local folder if an input is standard input or a pipe",
            str(spool.parent),
            "Save the input to a file first.",
        )
    name = "stdin" if input_name == "-" else Path(input_name).name
    copy = spool / f"{role}-{name}"
    incoming = copy.with_name(f"{copy.name}.{os.getpid()}.part")
    stdin = _standard_input(f"`{role}`") if input_name == "-" else None
    try:
        spool.mkdir(parents=True, exist_ok=True)
        with incoming.open("wb") as out:
            if stdin:
                shutil.copyfileobj(stdin, out, 1 << 20)
            else:
                with Path(input_name).open("rb") as pipe:
                    shutil.copyfileobj(pipe, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
        source = _described(name, incoming)
        # a copy with other content stays, because an earlier run needs it
        if copy.exists() and fingerprint(str(copy))[0] != source.fingerprint:
            copy = copy.with_name(f"{copy.name}-{source.fingerprint[:8]}")
        incoming.replace(copy)
    except OSError as e:
        with contextlib.suppress(OSError):
            incoming.unlink()
        what = f"{input_name} cannot be copied to {copy}"
        raise (machine_fault(e, what) or StorageError(f"{what}: {e.strerror or e}.")) from e
    return replace(source, url=str(copy.absolute()))


def _standard_input(setting: str) -> BinaryIO:
    stream = sys.stdin
    if stream in _used:
        raise InputError(
            f"{setting} must be another input; got '-', but standard input was already read and "
            "can be named only once. Save one of the two inputs to a file."
        )
    if stream is None or stream.closed or not hasattr(stream, "buffer"):
        raise InputError(
            f"{setting} must be a readable input; got '-', but standard input is closed. "
            "Name a file, or pipe the rows in."
        )
    _used.add(stream)
    return cast("BinaryIO", stream.buffer)


def _described(name: str, copy: Path) -> Source:
    """The source of a copied stream, its format by its first bytes."""
    with copy.open("rb") as file:
        start = file.read(8)
    archive = next((c for magic, c in MAGIC.items() if start.startswith(magic)), "")
    digest, size = fingerprint(str(copy))
    source = Source(name, str(copy), "", archive, size, digest)
    begin = b""
    for chunk in Stream(source, ReadPlan()):
        begin = chunk.removeprefix(BOM).lstrip()
        if begin:
            break
    return replace(source, format=format_of_bytes(begin))
