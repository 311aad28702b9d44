"""Find the inputs: turn everything a user may name into sources, sorted by name."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit.corpus import hub, pairs
from corpusfit.corpus.expand import Found, expanded
from corpusfit.corpus.formats import format_of, has_line_ends
from corpusfit.corpus.stdin import spooled
from corpusfit.corpus.survey import ScanChunks, fingerprint, scan_here, survey
from corpusfit.errors import EmptyInputError, bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.types import Source


def find(
    inputs: Sequence[str],
    plan: ReadPlan,
    *,
    spool: Path,
    role: str,
    scan: ScanChunks = scan_here,
) -> list[Source]:
    """Describe every source that the inputs name, sorted by name.

    A name is relative to the inputs' common folder and a fingerprint depends on the content, so
    neither changes when the files move. Fingerprints need one read of every local file.

    Args:
        inputs: paths of files and folders, globs, fsspec URLs, `hub:NAME[:CONFIG][@SPLIT]`, and `-`
            for standard input; or only aligned pairs (`pairs`). A mistyped path is never looked up
            on a hub.
        plan: how rows will be read.
        spool: folder for a copy of standard input; created when needed.
        role: `target` or `corpus`; messages call the setting `--target` or `--corpus`. A role of
            several words is a setting of a recipe, and messages use it as it is.
        scan: scans the stored bytes (`survey`).

    Returns:
        Sources with unique names. A file named twice is one source; an empty file is a source too.

    Raises:
        EmptyInputError: no input was named, or a folder or a glob holds no readable file.
        InputError: an input does not exist, cannot be read, or has an unknown suffix; standard
            input is closed or named twice.
        MissingDependencyError: a dataset was named and `datasets` is not installed.
        StorageError: standard input cannot be copied.
        UsageError: the plan has a value that is not allowed; pairs are mixed with other inputs.
    """
    plan.check()
    setting = role if " " in role else f"--{role}"
    inputs = list(map(str, inputs))
    if any(map(pairs.is_pair, inputs)):
        _require_alone(inputs, setting)
        return _unique(pairs.find(inputs, plan, scan, setting))
    files: dict[str, Found] = {}
    others: dict[str, Source] = {}
    for input_name in inputs:
        if input_name == "-" or _is_pipe(input_name):
            if input_name not in others:
                others[input_name] = spooled(input_name, spool, role)
        elif input_name.startswith(hub.PREFIX):
            source = hub.find(input_name, setting)
            others[source.url] = source
        else:
            for found in expanded(input_name, setting):
                files.setdefault(found.url, found)
    sources = [*_named(list(files.values()), plan, scan), *others.values()]
    if not sources:
        raise EmptyInputError(f"{setting} must name at least one input; got none.")
    return _unique(sources)


def _require_alone(inputs: Sequence[str], setting: str) -> None:
    """Check that aligned pairs are not mixed with other inputs."""
    others = [input_name for input_name in inputs if not pairs.is_pair(input_name)]
    if others:
        cure = "Use a separate command for the other inputs."
        raise bad_setting(setting, "either only aligned pairs or none", others[0], cure)


def found_again(
    sources: Sequence[Source], plan: ReadPlan, scan: ScanChunks = scan_here
) -> tuple[list[Source], list[str]]:
    """Sources of an earlier run as they are now, and the names of those whose content changed.

    Raises:
        InputError: a source no longer exists.
    """
    stored = [s for s in sources if s.format != "hub"]
    files = [(u, has_line_ends(s.format, s.compression)) for s in stored for u in pairs.files_of(s)]
    seen = iter(survey(files, plan, scan))
    now = []
    for source in sources:
        if source.format == "hub":
            now.append(replace(source, fingerprint=hub.find(source.url, "--corpus").fingerprint))
        else:
            looks = [next(seen) for _ in pairs.files_of(source)]
            digest = pairs.combined(source, [found for found, _, _ in looks])
            size, cells = sum(size for _, size, _ in looks), looks[0][2]
            now.append(replace(source, fingerprint=digest, size=size, cells=cells))
    changed = [s.name for s, n in zip(sources, now, strict=True) if n.fingerprint != s.fingerprint]
    return now, changed


def content(source: Source) -> str:
    """The fingerprint of a source's current content; raises as `survey` does."""
    return pairs.combined(source, [fingerprint(url)[0] for url in pairs.files_of(source)])


def located(input_name: str, home: Path) -> str:
    """Resolve an input's relative paths from the folder `home`.

    Raises:
        UsageError: the input begins like aligned pairs and has none of their forms.
    """
    if pairs.is_pair(input_name):
        return pairs.whole(input_name, home)
    if "://" in input_name or input_name.startswith(hub.PREFIX):
        return input_name
    return str(home / Path(input_name).expanduser())


def _is_pipe(input_name: str) -> bool:
    """Whether it is a named pipe or a process substitution, which can be read only once."""
    path = Path(input_name)
    try:
        return path.is_fifo() or path.is_char_device()
    except OSError:  # not a path, or not accessible: `expanded` reports it
        return False


def _named(files: list[Found], plan: ReadPlan, scan: ScanChunks) -> Iterator[Source]:
    """Files as sources, named relative to the common folder of their store."""
    formats = [format_of(f.path) or ("", "") for f in files]
    seen = survey(
        [(f.url, has_line_ends(*form)) for f, form in zip(files, formats, strict=True)],
        plan,
        scan,
    )
    stores = {found.store for found in files}
    common = {
        store: posixpath.commonpath([f.folder for f in files if f.store == store])
        for store in stores
    }
    for found, (form, archive), (digest, size, cells) in zip(files, formats, seen, strict=True):
        name = posixpath.relpath(found.path, common[found.store] or ".")
        if found.store and len(stores) > 1:
            name = f"{found.store}/{name}"
        yield Source(name, found.url, form, archive, size, digest, cells)


def _printable(name: str) -> str:
    """The name with replacement marks for bytes that are not valid characters."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unique(sources: list[Source]) -> list[Source]:
    """Sort by name; repeated names (such as a file called `stdin`) get a number."""
    seen: Counter[str] = Counter()
    unique = []
    for source in sorted(sources, key=lambda s: (s.name, s.url)):
        name = _printable(source.name)
        seen[name] += 1
        again = f"~{seen[name]}" if seen[name] > 1 else ""
        unique.append(replace(source, name=name + again))
    return sorted(unique, key=lambda s: s.name)
