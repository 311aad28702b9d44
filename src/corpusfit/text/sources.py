"""Find the inputs: turn everything a user may name into sources, sorted by name."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit.core.artifacts import no_collection, user_path
from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Cells, Source
from corpusfit.text import cures
from corpusfit.text.contract import SIDES, Format
from corpusfit.text.expand import Found, expanded
from corpusfit.text.files import is_url
from corpusfit.text.formats.hub import with_prefix
from corpusfit.text.registry import load, named
from corpusfit.text.stdin import spooled
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
    skipped: list[str] = []
    with no_collection():
        names = [with_prefix(str(each)) for each in inputs]
        found = _found(names, plan, spool, role, scan, skipped)
    if said := cures.note_of(skipped, _setting(role)):
        note(said)
    return found


def _found(
    inputs: list[str],
    plan: ReadPlan,
    spool: Path,
    role: str,
    scan: ScanChunks,
    skipped: list[str],
) -> list[Source]:
    plan.check()
    setting = _setting(role)
    unlike = [name for name in inputs if not is_pair(name)]
    if unlike and len(unlike) < len(inputs):
        cure = "Use a separate command for the other inputs."
        raise bad_setting(setting, "either only aligned pairs or none", unlike[0], cure)
    places: dict[tuple[str, str], Found] = {}
    others: dict[str, Source] = {}
    for input_name in inputs:
        form = named(input_name)
        if form:
            source = form.find(input_name, setting)
            if form.files(source):
                path, folder = source.url, posixpath.dirname(source.url) or "."
                kind = (source.format, source.compression, source.translation)
                found = Found(path, path, folder, "", *kind, real=path)
                places.setdefault((path, kind[2]), found)
            else:
                others[source.url] = source
        elif input_name == "-" or _is_pipe(input_name):
            if input_name not in others:
                others[input_name] = spooled(input_name, spool, role)
        else:
            for found in expanded(input_name, setting, skipped):
                places.setdefault((f"{found.store}://{found.real}", ""), found)
    named_sources = list(_with_names(list(places.values())))
    sources = [*_surveyed(named_sources, plan, scan), *others.values()]
    if not sources:
        raise EmptyInputError(f"{setting} must name at least one input; got none.")
    for source in sources:
        load(source.format).check(source, plan, setting)
    return _unique(sources)


def _setting(role: str) -> str:
    """How messages call the setting of the inputs."""
    return role if " " in role else f"`{role}`"


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
    found = {load(source.format).sides(source) for source in sources}
    return found.pop() if len(found) == 1 else SIDES


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
    seen = iter(survey(asked, plan, scan))
    return [
        _as_seen(source, form, [next(seen) for _ in urls]) if urls else source
        for source, form, urls in zip(sources, formats, files, strict=True)
    ]


def _as_seen(
    source: Source, form: Format, looks: Sequence[tuple[str, int, Cells | None]]
) -> Source:
    digests, sizes, cells = zip(*looks, strict=True)
    digest, kind = form.fingerprint(source, digests), (source.format, source.compression)
    name, url, more = source.name, source.url, (cells[0], source.translation)
    return Source(name, url, *kind, sum(sizes), digest, *more)  # three times as fast as `replace`


def content(source: Source) -> str:
    """The fingerprint of a source's stored files as they are now; raises as `survey` does.

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


def _with_names(places: Sequence[Found]) -> Iterator[Source]:
    """The sources, named relative to the common folder of their store, without size."""
    folders: dict[str, set[str]] = {}
    for found in places:
        folders.setdefault(found.store, set()).add(found.folder)
    common = {store: posixpath.commonpath(named) for store, named in folders.items()}
    inside = {store: f"{home}/" for store, home in common.items()}
    for found in places:
        home = common[found.store]
        name = found.path.removeprefix(inside[found.store])
        if not home or name == found.path:
            name = posixpath.relpath(found.path, home or ".")
        if found.store and len(common) > 1:
            name = f"{found.store}/{name}"
        kind = (found.format, found.compression)
        yield Source(name, found.url, *kind, 0, "", translation=found.translation)


def _unique(sources: list[Source]) -> list[Source]:
    """Sort by printable name; repeated names (such as a file called `stdin`) get a number."""
    seen: Counter[str] = Counter()
    unique = []
    for source in sorted(sources, key=lambda s: (s.name, s.url)):
        name = source.name
        if not name.isascii():
            name = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        seen[name] += 1
        again = f"~{seen[name]}" if seen[name] > 1 else ""
        name += again
        unique.append(source if name == source.name else replace(source, name=name))
    return sorted(unique, key=lambda s: s.name)
