"""What to do about an input that cannot be read, by its file's name and its first bytes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from corpusfit.corpus import rejects
from corpusfit.corpus.files import open_stored, read_full
from corpusfit.corpus.registry import load
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

_BYTES = {
    b"\x1f\x8b": ("a gzip archive", ".gz"),
    b"\x28\xb5\x2f\xfd": ("a zstd archive", ".zst"),
    b"BZh": ("a bzip2 archive", ".bz2"),
    b"\xfd7zXZ\0": ("an xz archive", ".xz"),
    b"PAR1": ("Parquet", ".parquet"),
    b"SQLite format 3\0": ("an SQLite database", ".sqlite"),
    b"PK\3\4": ("a zip archive or an office document", ""),
    b"%PDF": ("a PDF", ""),
}
_ARCHIVES = (".gz", ".zst", ".bz2", ".xz")
_SHEETS = (".xlsx", ".xls", ".ods")
_FIRST = {
    ".zip": ("Unpack it", "python -m zipfile -e {} {}", ""),
    ".pdf": ("Make text of it", "pdftotext {} {}", ".txt"),
    **dict.fromkeys(
        (".docx", ".odt", ".rtf", ".epub", ".html", ".htm"),
        ("Make text of it", "pandoc -t plain {} -o {}", ".txt"),
    ),
}
"""What to do first, its command and the suffix of what that makes, by suffix."""
_AS_LINES = (
    'python -c "import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)]" '
    "< {} > {}"
)
_TAB = "\t"
_SEPARATORS = f";|{_TAB}"
_HEAD = 1 << 16


def of_name(path: str) -> str:
    """What to do with a file, named itself, whose suffix is none of the readable ones."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _FIRST:
        what, command, made = _FIRST[suffix]
        return f"{what} first: {_command(command, path, made)}"
    if suffix in _SHEETS:
        return "Save the sheet as CSV first."
    start = _start(path)
    if suffix == ".json" and start.lstrip().startswith(b"["):
        return f"Write a line for each row first: {_command(_AS_LINES, path, '.rows.jsonl')}"
    if suffix == ".json":
        return "If each line is a row, rename it to end in .jsonl."
    form, own = _by_bytes(start)
    if own:
        return f"It is {form}: add {own} to its name."
    return "Rename the file to match its content; pass two line-aligned files as pair:FILE,FILE."


def of_content(
    sources: Sequence[Source], plan: ReadPlan, reasons: Mapping[str, int], otherwise: str
) -> str:
    """What to do about inputs without a usable row, by the first bytes of the first file.

    Args:
        sources: the inputs.
        plan: how they were read.
        reasons: the number of rejected rows by the kind of reason.
        otherwise: what to do if the bytes do not show it.
    """
    source = next((s for s in sources if s.size and load(s.format).files(s)), None)
    if source is None or not reasons:
        return otherwise
    path, reason = source.url, max(reasons, key=lambda kind: reasons[kind])
    start = _start(path)
    form, suffix = _by_bytes(start)
    if form and suffix not in (*load(source.format).suffixes, f".{source.compression}"):
        cure = f" Rename it: {_renamed(path, suffix)}" if suffix else ""
        return f"{source.name} is {form}.{cure}"
    archive = f".{source.compression}"
    if archive != suffix and reason == rejects.kind(rejects.corrupt(source.compression, "")):
        return f"{source.name} is not a {archive} archive. Rename it to match its content."
    return (not source.compression and _of_text(source, plan, reason, start)) or otherwise


def of_reasons(reasons: Iterable[str], field: str, role: str) -> str:
    """What to do about inputs without a usable row, by why their rows are rejected.

    Args:
        reasons: the kinds of reasons.
        field: how to name the text field, a sentence without its full stop.
        role: the setting of the inputs.
    """
    files = f"ive other files to <.{role}>."
    return f"{field}, or g{files}" if any(map(rejects.of_field, reasons)) else f"G{files}"


def _of_text(source: Source, plan: ReadPlan, reason: str, start: bytes) -> str:
    """What to do about the text of a file, whose rows are most often rejected for a reason."""
    path = source.url
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{source.name} is in UTF-16: {_recoded('UTF-16', path)}"
    if reason == rejects.INVALID_UTF8:
        recoded = _recoded("WINDOWS-1252", path)
        return f"{source.name} is not in UTF-8. If it is in Windows-1252 or Latin-1: {recoded}"
    if reason == rejects.NOT_AN_OBJECT and start.lstrip().startswith(b"["):
        lines = _command(_AS_LINES, path, ".rows.jsonl")
        return f"{source.name} is one list; write a line for each row first: {lines}"
    header = start.partition(b"\n")[0].decode(errors="replace")
    other = max(_SEPARATORS, key=header.count)
    if source.format in ("csv", "tsv") and other in header and plan.text_field in header:
        if other == _TAB:
            return f"{source.name} has tabs between its values. Rename it: {_renamed(path, '.tsv')}"
        return f"{source.name} has {other!r} between its values: <read.separator={other}>"
    return ""


def _by_bytes(start: bytes) -> tuple[str, str]:
    """The name of a format and its suffix, by a file's first bytes; empty if none is known."""
    return next((found for mark, found in _BYTES.items() if start.startswith(mark)), ("", ""))


def _start(path: str) -> bytes:
    with open_stored(path) as file:
        return read_full(file, _HEAD, path)


def _command(words: str, path: str, suffix: str) -> str:
    """A command that makes another file of one; an archive keeps its own suffix."""
    made = path + suffix if suffix in _ARCHIVES else PurePosixPath(path).with_suffix(suffix)
    return words.format(shlex.quote(path), shlex.quote(str(made)))


def _renamed(path: str, suffix: str) -> str:
    return _command("mv {} {}", path, suffix)


def _recoded(encoding: str, path: str) -> str:
    suffixes = "".join(PurePosixPath(path).suffixes[-1:])
    return _command(f"iconv -f {encoding} -t UTF-8 {{}} > {{}}", path, f".utf8{suffixes}")
