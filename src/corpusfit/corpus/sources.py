"""Find the inputs: whatever a user may name becomes sources, sorted by name.

What: files, folders, globs, URLs, datasets and standard input, each with a name and a fingerprint.
Why: the name (relative to what the inputs have in common) and the fingerprint (of the content)
identify a source in every output, so neither depends on where the files lie.
Trade-off: fingerprints read every local file once before work begins; that is what lets a
changed input be noticed by content rather than by date.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit.corpus import hub
from corpusfit.corpus.expand import Found, expanded
from corpusfit.corpus.files import fingerprint
from corpusfit.corpus.formats import format_of
from corpusfit.corpus.stdin import spooled
from corpusfit.errors import EmptyInputError
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

__all__ = ["changed", "find"]


def find(inputs: Sequence[str], plan: ReadPlan, *, spool: Path, role: str) -> list[Source]:
    """Every source the inputs name, sorted by name.

    Args:
        inputs: paths of files and folders, globs, fsspec URLs, `hub:NAME[:CONFIG][@SPLIT]`, and
            `-` for standard input. What is a mistyped path is never looked up on a hub.
        plan: how rows will be read.
        spool: folder for a copy of standard input; made when needed.
        role: `target` or `corpus`; messages call the setting `--target` or `--corpus`.

    Returns:
        Sources with unique names; a file named twice is one source, an empty file is one too.

    Raises:
        EmptyInputError: no input was named, or a folder or a glob holds nothing readable.
        InputError: an input does not exist, cannot be read, or has an unknown suffix; standard
            input is closed or was given before.
        MissingDependencyError: a dataset was named and `datasets` is not installed.
        StorageError: standard input cannot be kept.
        UsageError: the plan has a value that is not allowed.
    """
    plan.check()
    setting = f"--{role}"
    files: dict[str, Found] = {}
    others: dict[str, Source] = {}
    for given in map(str, inputs):
        if given == "-" or _is_pipe(given):
            if given not in others:
                others[given] = spooled(given, spool, role)
        elif given.startswith(hub.PREFIX):
            source = hub.find(given, setting)
            others[source.url] = source
        else:
            for found in expanded(given, setting):
                files.setdefault(found.url, found)
    sources = [*_named(list(files.values())), *others.values()]
    if not sources:
        raise EmptyInputError(f"{setting} must name at least one input; got none.")
    return _unique(sources)


def changed(sources: Sequence[Source]) -> list[str]:
    """Names of the sources whose content is no longer what was found.

    Raises:
        InputError: a source is gone.
    """
    names = []
    for source in sources:
        now = (
            hub.find(source.url, "--corpus").fingerprint
            if source.format == "hub"
            else fingerprint(source.url)[0]
        )
        if now != source.fingerprint:
            names.append(source.name)
    return names


def _is_pipe(given: str) -> bool:
    """A named pipe or a process substitution: it can be read once, like standard input."""
    path = Path(given)
    try:
        return path.is_fifo() or path.is_char_device()
    except OSError:  # no path at all, or one that may not be looked at: `expanded` says which
        return False


def _named(files: list[Found]) -> Iterator[Source]:
    """Files as sources, named from the folder that those of their store have in common."""
    stores = {found.store for found in files}
    common = {
        store: posixpath.commonpath([f.folder for f in files if f.store == store])
        for store in stores
    }
    for found in files:
        name = posixpath.relpath(found.path, common[found.store] or ".")
        if found.store and len(stores) > 1:
            name = f"{found.store}/{name}"
        form, compression = format_of(found.path) or ("", "")
        digest, size = fingerprint(found.url)
        yield Source(_printable(name), found.url, form, compression, size, digest)


def _printable(name: str) -> str:
    """The name with a mark for what is no character: a file's name may be any bytes."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unique(sources: list[Source]) -> list[Source]:
    """Sorted by name; a name that came before (a file called `stdin`, say) gets a number."""
    seen: Counter[str] = Counter()
    unique = []
    for source in sorted(sources, key=lambda s: (s.name, s.url)):
        seen[source.name] += 1
        again = f"~{seen[source.name]}" if seen[source.name] > 1 else ""
        unique.append(replace(source, name=source.name + again))
    return sorted(unique, key=lambda s: s.name)
