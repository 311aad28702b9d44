"""Advice on unreadable inputs, by file name and first bytes."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import orjson

from corpusfit.core.credentials import public_name
from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reason, Source
from corpusfit.text import rejects
from corpusfit.text.archives import ARCHIVE, ENCRYPTED, LOST, METHOD, NESTED, TARS
from corpusfit.text.contract import format_of, load
from corpusfit.text.cutting import BOM
from corpusfit.text.files import CHUNK, MAGIC, Stream, is_data, member_of, unpacked_name
from corpusfit.text.formats.csv import SEPARATORS, TAB, Csv

# programs that unpack, by compression
_PROGRAMS = {"gz": "gzip", "zst": "zstd", "bz2": "bzip2", "xz": "xz"}
# what a file is, and its suffix, by its first bytes
_CONTENTS = {
    **{
        magic: (f"{'an' if c == 'xz' else 'a'} {_PROGRAMS[c]} archive", f".{c}")
        for magic, c in MAGIC.items()
    },
    b"PAR1": ("Parquet", ".parquet"),
    b"ARROW1": ("an Arrow file", ".arrow"),
    b"SQLite format 3\0": ("an SQLite database", ".sqlite"),
    b"PK\3\4": ("a zip archive or an office document", ""),
    b"%PDF": ("a PDF", ""),
    b"version https://git-lfs": ("a pointer of Git LFS, whose file `git lfs pull` fetches", ""),
    **dict.fromkeys(
        (b"<?xml", b"<!DOCTYPE", b"<!doctype", b"<html"),
        ("XML or a page of the web; if it should be neither, fetch it again", ""),
    ),
}
# by suffix: first step, its command, and the suffix of its result
_COMMANDS = {
    ".docx": ("Make text of it", "pandoc -t plain {} -o {}", ".txt"),
    ".pdf": ("Make text of it", "pdftotext {} {}", ".txt"),
    ".zip": ("Unpack it", "python -m zipfile -e {} {}", ""),
    **dict.fromkeys(
        (".sqlite", ".sqlite3", ".db"),
        ("Write a table of it", "sqlite3 -header -csv {} 'SELECT * FROM TABLE' > {}", ".csv"),
    ),
}
_SHEET = ".xlsx"
# suffixes with a cure of their own; the last two are also those of files beside texts
_CURABLE = (".docx", ".pdf", _SHEET, *TARS, ".json", ".zip")
# names of files about the data that need no warning when skipped
_METADATA = re.compile(
    r"(readme|licen[cs]e|copying|notice|changelog|citation|authors|contributing)(\..*)?"
    r"|(dataset_infos?|dataset_dict|state)\.json|.*\.(crc|sig|asc)|thumbs\.db|desktop\.ini",
    re.IGNORECASE,
)
LOGS = ("_delta_log", ".hoodie", "metadata/*.metadata.json")
"""What only a folder with a table has, which says which rows of its files count."""
_LOG = re.compile(
    r"/(?:(_delta_log)|(\.hoodie)|metadata/(?:v\d+|\d+-[^/]+)\.metadata\.json)(?:/|$)"
)
# most files that a note names
_NAMED = 3
_AS_LINES = (
    'python -c "import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)%s]" '
    "< {} > {}"
)
_LIST = re.compile(rb'"([\w -]+)"\s*:\s*\[\s*[\[{]')
# strings, commas before an end, and what is between two objects
_JSON = r"(\x22(?:[^\x22\\]|\\.)*\x22)|,(?=\s*(?:[]}]|$))|(?<=})\s*(?={)"
_LOOSE = (
    "import json, re, sys; "
    f'text = re.sub(r"{_JSON}", lambda m: m[1] or "," * (m[0] != ","), sys.stdin.read()); '
    'rows = text.strip().removeprefix("[").removesuffix("]"); '
    '[print(json.dumps(row)) for row in json.loads("[" + rows + "]")]'
)
_PYTHON = (
    "import ast, json, sys; "
    "[print(json.dumps(ast.literal_eval(row))) for row in sys.stdin if row.strip()]"
)
# the encoding of a file by a mark, and by which of four bytes in turn are mostly 0 without one
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_WIDE = {"0101": "UTF-16LE", "1010": "UTF-16BE", "0111": "UTF-32LE", "1110": "UTF-32BE"}
_HEAD = 1 << 16
# characters of what is almost JSON that show its first row; many escaped quotes take their square
_FIRST = 1 << 14
# fraction of a file's rows, rejected for one reason, that calls for advice
_LOST = 0.1
# most files that are opened to find a cure
_MAX_OPENED = 10


def of_skipped(paths: Iterable[str]) -> str:
    """Advice on the first skipped file and the first skipped link; empty without one."""
    named = sorted(path for path in paths if not _is_metadata(path))
    no_data = [path for path in named if not is_data(PurePosixPath(path).name)]
    links = [path for path in named if os.path.islink(path)]  # noqa: PTH114 (of URLs too)
    files = [path for path in named if path not in links and path not in no_data]
    return " ".join(filter(None, (_of_files(files), _of_links(links), _of_names(no_data))))


def _of_names(no_data: Sequence[str]) -> str:
    """Advice on the first name that is left out for what it is."""
    if not no_data:
        return ""
    return (
        "Names that begin with _ or . are left out, and so are checksums and indexes of dumps; to "
        f"read one, name it itself: {shlex.quote(no_data[0].rstrip('/'))}"
    )


def _of_links(links: Sequence[str]) -> str:
    """Advice on the first link that leads to something else than a folder around it."""
    for link in links:
        to = os.path.realpath(link)
        folder = os.path.realpath(os.path.dirname(link))  # noqa: PTH120
        if os.path.exists(to) and os.path.commonpath([to, folder]) != to:  # noqa: PTH110
            return (
                "Links that lead out of a folder are not followed; to read what one leads to, name "
                f"it itself: {shlex.quote(link)}"
            )
    return ""


def _of_files(files: Sequence[str]) -> str:
    if not files:
        return ""

    def rank(path: str) -> tuple[int, str]:
        suffix = PurePosixPath(unpacked_name(path)[0]).suffix.lower()
        return (2 if suffix not in _CURABLE else suffix in _CURABLE[-2:]), path

    first = min(files, key=rank)
    try:
        cure = of_name(first)
    except InputError:  # a folder, or no permission
        return ""
    return f"To read {PurePosixPath(first).name}, {cure[0].lower()}{cure[1:]}"


def note_of(skipped: Iterable[str], setting: str) -> str:
    """A note on skipped files of folders and globs; empty without any."""
    paths = sorted({path for path in skipped if not _is_metadata(path)})
    if not paths:
        return ""
    counts: Counter[str] = Counter()
    for path in paths:
        inner, archive = unpacked_name(PurePosixPath(path).name)
        if os.path.islink(path):  # noqa: PTH114 (of URLs too)
            counts["link"] += 1
        elif path.endswith("/"):
            counts["folder"] += 1
        elif os.path.isdir(path):  # noqa: PTH112
            counts["folder that cannot be listed"] += 1
        else:
            ending = PurePosixPath(inner).suffix + (f".{archive}" if archive else "")
            counts[ending.lower() or "without suffix"] += 1
    counted = ", ".join(f"{n:,} {ending}" for ending, n in sorted(counts.items()) if n)
    names = ", ".join(PurePosixPath(path).name for path in paths[:_NAMED])
    more = ", …" if len(paths) > _NAMED else ""
    noun = {0: "file", len(paths): "folder"}.get(counts["folder"], "file or folder")
    number = f"1 {noun}" if len(paths) == 1 else f"{len(paths):,} {noun.replace(' ', 's ', 1)}s"
    note = f"Passed over in {setting}: {number} ({counted}): {names}{more}. {of_skipped(paths)}"
    return note.rstrip()


def of_empty(names: Sequence[str], setting: str) -> str:
    """A note on files without a byte; empty without any."""
    if not names:
        return ""
    listed = ", ".join(names[:_NAMED]) + ", …" * (len(names) > _NAMED)
    files = "1 file has" if len(names) == 1 else f"{len(names):,} files have"
    return f"In {setting}, {files} 0 bytes: {listed}. Fetch what should have rows again."


def of_archive(url: str, left_out: Mapping[str, Sequence[str]], setting: str) -> Iterator[str]:
    """Notes on what is not read of an archive, by the reason."""
    for reason, names in left_out.items():
        shown = ", ".join(names[:_NAMED]) + ", …" * (len(names) > _NAMED)
        cure = " Fetch it again." * (reason == LOST)
        if reason in (ENCRYPTED, METHOD, NESTED):
            command = _unpacking(url, by="" if reason == NESTED else "7z")[1]
            cure = f" To read them, unpack it: {command}"
        of = f"{len(names):,} of {PurePosixPath(url).name}"
        yield f"In {setting}, {of} left out as {reason}: {shown}.{cure}"


def _unpacking(archive: str, by: str = "") -> tuple[str, str]:
    """The folder beside an archive to which it is unpacked, and the command for that."""
    folder = str(PurePosixPath(unpacked_name(archive)[0]).with_suffix(""))
    file = shlex.quote(archive)
    to = shlex.quote(folder)
    if by:
        return folder, f"{by} x {file} -o{to}"
    if archive.lower().endswith(".zip"):
        return folder, f"python -m zipfile -e {file} {to}"
    return folder, f"mkdir -p {to} && tar -xf {file} -C {to}"


def _outside(path: str) -> tuple[str, str]:
    """The path of a file of an archive when it is unpacked, and the command for that."""
    member = member_of(path)
    if member is None:
        return path, ""
    folder, command = _unpacking(member.archive)
    return f"{folder}/{member.name}", f"{command} && "


def of_division(lines: Sequence[str], unclear: Sequence[str], setting: str) -> list[str]:
    """Notes on what a text is in files that do not say it by blank lines alone."""
    notes = []
    if setting == "`target`":  # what is said of a target counts its texts
        lines = ()
    for names, is_read, other in (
        (lines, "a text per line", "blocks`: divided by blank lines"),
        (unclear, "texts between blank lines", "lines`: a text per line"),
    ):
        if names:
            files = f"{names[0]} is" if len(names) == 1 else f"{len(names):,} .txt files are"
            cure = "" if setting == "`task`" else f" (`read.txt={other})"
            notes.append(f"In {setting}, {files} read as {is_read}{cure}.")
    return notes


def _is_metadata(path: str) -> bool:
    name = PurePosixPath(path).name
    if path.endswith("/"):  # a folder
        return name.startswith(".")
    form = format_of(name)
    if form and not load(form[0]).single:
        return False
    return (not form and not is_data(name)) or _METADATA.fullmatch(name) is not None


def is_about(path: str, form: tuple[str, str]) -> bool:
    """Whether a file of a readable format is about those beside it, as a README.md is."""
    return form[0] != ARCHIVE and load(form[0]).single and _is_metadata(path)


def refuse_table(paths: Iterable[str], setting: str) -> None:
    """Refuse the folder of a table, if a path below it is that of its log."""
    logs = (_LOG.search(path.replace(os.sep, "/")) for path in paths)
    log = next(filter(None, logs), None)
    if not log:
        return
    table = public_name(log.string[: log.start()])
    delta, hudi = log.groups()
    source = json.dumps(table)
    output = json.dumps(f"{PurePosixPath(table).name}.parquet")
    if hudi:
        kind = "a Hudi table"
        cure = f'with Spark, spark.read.format("hudi").load({source}).write.parquet({output})'
    elif delta:
        kind = "a Delta table"
        cure = "pip install deltalake && " + _code(
            "import pyarrow.parquet as pq; from deltalake import DeltaTable; "
            f"pq.write_table(DeltaTable({source}).to_pyarrow_table(), {output})"
        )
    else:
        kind = "an Iceberg table"
        cure = "pip install pyiceberg && " + _code(
            "import re; from pathlib import Path; import pyarrow.parquet as pq; "
            "from pyiceberg.table import StaticTable; "
            f'logs = Path({source}).glob("metadata/*.metadata.json"); '
            'last = max(logs, key=lambda log: int(re.search("[0-9]+", log.name)[0])); '
            f"pq.write_table(StaticTable.from_metadata(str(last)).scan().to_arrow(), {output})"
        )
    raise InputError(
        f"{setting} must have no files of a table that only its log explains; {table} is {kind}, "
        f"so its files also have rows that were removed. Write its rows to a file first: {cure}"
    )


def _code(code: str) -> str:
    return f"python -c {shlex.quote(code)}"


def holds_json_lines(path: str) -> bool:
    """Whether a `.json` file holds an object in each line; False if it cannot be read."""
    try:
        start = _start(path, unpacked_name(path)[1], size=CHUNK)
    except InputError:
        return False
    first, _, more = start.removeprefix(BOM).strip().partition(b"\n")
    return more.lstrip().startswith(b"{") and first.startswith(b"{") and _is_json(first)


def of_name(path: str) -> str:
    """Advice on a named file with an unsupported suffix."""
    inner, archive = unpacked_name(path)
    suffix = PurePosixPath(inner).suffix.lower()
    if suffix in TARS:
        return f"Unpack it first: {_unpacking(path)[1]}"
    if suffix in _COMMANDS:
        return _made(suffix, path)
    if suffix == _SHEET:
        return "Save the sheet as CSV first."
    if suffix == ".json":
        lines = _as_lines(path, _start(path, archive))
        return lines or "If each line is a row, rename it to end in .jsonl."
    start = _start(path, archive)
    if start.startswith((b"<mediawiki", b"<doc id=")):  # the latter is wikiextractor's own form
        dump = "DUMP" if start.startswith(b"<doc") else shlex.quote(path)
        rows = shlex.quote(str(PurePosixPath(inner).with_suffix(".jsonl")))
        return (
            "Write Wikipedia's articles as rows: pip install wikiextractor && "
            f"wikiextractor {dump} --json --discard_empty -o - > {rows}"
        )
    start = _start(path)
    if not suffix and not archive and _is_json(start.removeprefix(BOM).strip().partition(b"\n")[0]):
        return f"If each line is a row, rename it: {_moved(path, path + '.jsonl')}"
    content, stated = _by_bytes(start)
    if stated in _COMMANDS:
        return f"It is {content}. {_made(stated, path)}"
    if stated and stated != f".{archive}":
        return f"It is {content}: add {stated} to its name."
    return (
        "Rename the file to match its content, or save its text as .txt; pass two line-aligned "
        "files as pair:FILE,FILE."
    )


def _made(suffix: str, path: str) -> str:
    """Advice on a file that a program makes readable, by what it is."""
    first_step, command, new_suffix = _COMMANDS[suffix]
    return f"{first_step} first: {_command(command, path, new_suffix)}"


def of_content(
    sources: Sequence[Source], plan: ReadPlan, reasons: Mapping[Reason, int], otherwise: str
) -> str:
    """Advice on inputs without a usable row, by the first file's first bytes."""
    source = next((s for s in sources if s.size and load(s.format).files(s)), None)
    if source is None or not reasons:
        return otherwise
    path = source.url
    name = source.name
    archive = f".{unpacked_name(path)[1]}"
    reason = max(reasons, key=lambda kind: reasons[kind])
    content, suffix = _by_bytes(_start(path))
    if content and suffix not in (*load(source.format).suffixes, archive):
        if suffix in _COMMANDS:
            return f"{name} is {content}. {_made(suffix, path)}"
        cure = f" Rename it: {_renamed(path, suffix)}" if suffix else ""
        return f"{name} is {content}.{cure}"
    if archive != suffix and reason == rejects.corrupt(archive[1:], "").kind:
        return f"{name} is not a {archive} archive. Rename it to match its content."
    if len(sources) == 1 and any(map(rejects.hides_rows, reasons)):
        return f"{name} is damaged. Fetch it again."
    start = _start(path, source.compression)
    if reason == rejects.in_translation(rejects.INVALID_UTF8):
        other = load(source.format).files(source)[-1]
        return of_encoding(PurePosixPath(other).name, other)
    if reason == rejects.INVALID_UTF8 or _wide_encoding(start):
        return of_encoding(name, path, start)
    listed = start.lstrip()[:1] == b"["
    if source.format == "jsonl" and (listed or reason == rejects.MALFORMED_JSON):
        lines = _as_lines(path, start)
        return f"{name} is not a row of JSON per line. {lines}" if lines else otherwise
    return _of_separator(source, plan, start) or _of_header(source, plan, start) or otherwise


_WORDS_OF_A_NAME = 4
"""Words of a column's name, more than which are a text."""


class Losses:
    """The usable rows of each source, and its rejected ones by the kind of reason."""

    def __init__(self) -> None:
        self._kept = Counter[str]()
        self._lost: defaultdict[str, Counter[Reason]] = defaultdict(Counter)
        self._damaged = dict[str, Reason]()  # the reason for which a file was not read further

    def add(self, name: str, kept: int, rejected: Mapping[Reason, int] | None = None) -> None:
        """Count usable rows of a source, and its rejected ones by their reasons."""
        self._kept[name] += kept
        for reason, n in (rejected or {}).items():
            kind = reason.kind
            self._lost[name][kind] += n
            if rejects.hides_rows(kind):
                self._damaged[name] = kind

    def update(self, more: Losses) -> None:
        """Add the counts of others."""
        self._kept.update(more._kept)
        for name, reasons in more._lost.items():
            self._lost[name].update(reasons)
        self._damaged.update(more._damaged)

    def cure(self, sources: Sequence[Source], plan: ReadPlan) -> str:
        """Advice on damaged files, else on the one that lost most rows, if a tenth or more."""
        if self._damaged:
            return self._of_damage([s for s in sources if s.name in self._damaged])
        total = {name: reasons.total() for name, reasons in self._lost.items()}
        lossy = {
            name
            for name, reasons in self._lost.items()
            if max(reasons.values(), default=0) > _LOST * (total[name] + self._kept[name])
        }
        worst = sorted((s for s in sources if s.name in lossy), key=lambda s: -total[s.name])
        cures = (
            of_content([source], plan, self._lost[source.name], "")
            for source in worst[:_MAX_OPENED]
        )
        return next(filter(None, cures), "")

    def _of_damage(self, sources: Sequence[Source]) -> str:
        """Advice on files whose later rows are missing, with the number of rows before these."""
        files: defaultdict[str, list[str]] = defaultdict(list)
        for source in sources[:_NAMED]:
            kind = self._damaged[source.name]
            rows = self._kept[source.name]
            cure = "Fetch {} again, then run with another `out`."
            archive = f".{unpacked_name(source.url)[1]}"
            if rejects.is_bomb(kind):
                cure = "If you trust {}, set a higher `read.max_ratio`."
            elif archive != "." and _by_bytes(_start(source.url))[1] != archive:
                cure = f"If {{}} should be no {archive} archive, rename it, or fetch it again."
            files[cure].append(f"{source.name} ({rows:,} usable rows; {kind})")
        more = len(sources) - _NAMED
        listed = [
            f"Only the beginning was read of {', '.join(names)}. "
            + cure.format("it" if len(names) == 1 else "them")
            for cure, names in files.items()
        ]
        return " ".join(listed) + (f" {more:,} more files are damaged." if more > 0 else "")


def of_reasons(reasons: Iterable[Reason], field: str, role: str) -> str:
    """Advice on inputs without a usable row, by reject reason."""
    found = list(reasons)
    if found and all(map(rejects.of_filter, found)):
        return "Name another field, or compare with a value of the kind that it holds."
    files = f"ive other files to `{role}`."
    return f"{field}, or g{files}" if any(map(rejects.of_field, found)) else f"G{files}"


def of_encoding(name: str, path: str, start: bytes | None = None) -> str:
    """Advice on a file that is not in UTF-8."""
    inner, archive = unpacked_name(path)
    start = _start(path, archive) if start is None else start
    wide = _wide_encoding(start)
    encoding = wide or "WINDOWS-1252"
    suffix = f".utf8{PurePosixPath(inner).suffix}"
    command = _command(f"iconv -f {encoding} -t UTF-8 {{}} > {{}}", path, suffix)
    if member_of(path) is None:  # in a folder, both would be read
        command += f" && {_moved(path, path + '.old')}"
        command += f" && {_moved(str(PurePosixPath(inner).with_suffix(suffix)), inner)}"
    if wide:
        return f"{name} is in {wide}: {command}"
    return f"{name} is not in UTF-8. If it is in Windows-1252 or Latin-1: {command}"


def _of_header(source: Source, plan: ReadPlan, start: bytes) -> str:
    """Advice on a CSV file whose first row looks like a row of data, not of names."""
    form = load(source.format)
    if not isinstance(form, Csv):
        return ""
    dialect = form.dialect(plan, start)
    names = dialect.names(start.partition(b"\n")[0])
    if not any(len(name.split()) > _WORDS_OF_A_NAME for name in names):
        return ""
    header = dialect.separator.join(
        "text" if name == max(names, key=len) else f"column{i}" for i, name in enumerate(names, 1)
    )
    return (
        f"The first row of {source.name} is no row of names. Put one before it, such as {header!r}."
    )


def _of_separator(source: Source, plan: ReadPlan, start: bytes) -> str:
    """Advice on a CSV file whose header suggests another separator."""
    form = load(source.format)
    if not isinstance(form, Csv):
        return ""
    used = form.dialect(plan, start).separator
    header = start.partition(b"\n")[0].decode(errors="replace")
    other = max((mark for mark in SEPARATORS if mark != used), key=header.count)
    if other not in header or (used in header and plan.text_field not in header.split(other)):
        return ""
    has = f"{source.name} has {other!r} between its values"
    if plan.separator:
        return f"{has}. Leave out `read.separator`, and each file is read by its own."
    if other == TAB:
        suffix = ".tsv" + source.url[len(unpacked_name(source.url)[0]) :]
        return f"{has}. Rename it: {_renamed(source.url, suffix)}"
    return f"{has}: `read.separator={other}`"


def _wide_encoding(start: bytes) -> str:
    """The encoding of a file whose characters have two or four bytes; empty for another."""
    marked = (encoding for mark, encoding in _MARKS.items() if start.startswith(mark))
    zeros = (2 * start[i::4].count(0) > len(start[i::4]) for i in range(4))
    return next(marked, "") or _WIDE.get("".join(str(int(mostly)) for mostly in zeros), "")


def _as_lines(path: str, start: bytes) -> str:
    """Advice on converting JSON, or what is almost JSON, to lines; empty if that does not apply."""
    lines = start.removeprefix(BOM).strip().split(b"\n")
    bad = next((n for n, line in enumerate(lines) if line.strip() and not _is_json(line)), 0)
    rest = b"\n".join(lines[bad:]).lstrip().decode(errors="replace")
    if len(lines) > 1 and not bad and _is_json(lines[0]):
        return ""
    if re.match(r"\[?\s*{\s*'", rest):
        return f"Write Python's values as JSON first: {_converted(_PYTHON, path)}"
    for match in [] if bad else _LIST.finditer(start):
        opened, closed = (
            [start.count(mark, 0, match.start()) for mark in marks] for marks in (b"{[", b"}]")
        )
        if opened == [closed[0] + 1, closed[1]]:
            name = match[1].decode()
            command = _command(_AS_LINES % f"[{name!r}]", path, ".rows.jsonl")
            return f"Write a line for each row of {name!r} first: {command}"
    rest = rest[:_FIRST]
    loose = re.sub(_JSON, lambda m: m[1] or "," * (m[0] != ","), rest)
    if rest.startswith("[") and loose == rest:
        return f"Write a line for each row first: {_command(_AS_LINES % '', path, '.rows.jsonl')}"
    try:
        _, end = json.JSONDecoder().raw_decode(loose.removeprefix("[").lstrip())
    except (ValueError, RecursionError):
        return ""
    # a single object has no rows, and what is no separator is no JSON
    if loose.removeprefix("[").lstrip()[end:].lstrip()[:1] not in (",", "]"):
        return ""
    return f"Write a line for each row first: {_converted(_LOOSE, path)}"


def _converted(code: str, path: str) -> str:
    """The command by which Python writes lines of JSON of a file."""
    escaped = _code(code).replace("{", "{{").replace("}", "}}")
    return _command(f"{escaped} < {{}} > {{}}", path, ".rows.jsonl")


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _by_bytes(start: bytes) -> tuple[str, str]:
    """Kind and suffix of a file by its magic bytes; empty if unknown."""
    known = (content for magic, content in _CONTENTS.items() if start.startswith(magic))
    return next(known, ("", ""))


def _start(path: str, compression: str = "", size: int = _HEAD) -> bytes:
    """The first bytes of a file, unpacked."""
    member = member_of(path)
    if member and not compression.endswith(member.packing):
        compression = ".".join(filter(None, (compression, member.packing)))
    source = Source("", path, "", compression, 0, "")
    return next(iter(Stream(source, ReadPlan())), b"")[:size]


def _command(template: str, path: str, suffix: str) -> str:
    """A command that converts a file, after unpacking it."""
    path, unpack = _outside(path)
    inner, archive = unpacked_name(path)
    output = PurePosixPath(inner).with_suffix(suffix)
    unpack += f"{_PROGRAMS[archive]} -dk {shlex.quote(path)} && " if archive else ""
    return unpack + template.format(shlex.quote(inner), shlex.quote(str(output)))


def _renamed(path: str, suffix: str) -> str:
    """The command that gives a file another suffix; an archive keeps its own before that."""
    inner = unpacked_name(path)[0]
    if suffix.removeprefix(".") in _PROGRAMS:
        return _moved(path, inner + suffix)
    return _moved(path, str(PurePosixPath(inner).with_suffix(suffix)))


def _moved(path: str, to: str) -> str:
    path, unpack = _outside(path)
    return f"{unpack}mv {shlex.quote(path)} {shlex.quote(_outside(to)[0])}"
