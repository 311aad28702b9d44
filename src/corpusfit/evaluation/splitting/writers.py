"""Writes the files of a split in the form of the input."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import writing
from corpusfit.core.errors import changed_input
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Source
from corpusfit.evaluation.splitting.folder import SplitFolder
from corpusfit.evaluation.splitting.text_keys import Rows
from corpusfit.text.context import RunContext
from corpusfit.text.reading import Reasons

_LINE_ENDS = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Form:
    """How rows are written.

    Attributes:
        suffixes: suffixes of a split's files: two for line-aligned files, else one.
        header: the first line of each file; empty for none.
        raw: names of the formats whose rows are written unchanged.
        pair: whether the files hold aligned pairs.
        columns: the two columns of a TSV of pairs with a header, joined by a comma.
    """

    suffixes: tuple[str, ...]
    header: bytes = b""
    raw: frozenset[str] = frozenset()
    pair: bool = False
    columns: str = ""

    def lines(self, form: str, row: Document, raw: bytes, read: ReadPlan) -> tuple[bytes, ...]:
        """The lines of a row, one per file, from its format and its bytes."""
        if form in self.raw:
            return (raw,)
        if self.pair:
            sides = (row.text, str(row.translation))
            return tuple(_LINE_ENDS.sub(" ", side).encode() for side in sides)
        record: dict[str, Any] = {read.text_field: row.text}
        if row.id is not None:
            record[read.id_field] = row.id
        return (orjson.dumps(record),)


def form_of(sources: Sequence[Source], read: ReadPlan) -> Form:
    """The form to write rows of some sources in.

    Rows of one format with one header unchanged, if a file can hold them; other pairs as two
    aligned files, anything else as JSON lines: unchanged where it is that, or of text and id.
    """
    formats = {source.format: corpus.load_format(source.format) for source in sources}
    heads = {(formats[s.format].header(s, read), s.translation) for s in sources}
    if len(formats) == len(heads) == 1:
        ((name, form),), ((header, columns),) = formats.items(), heads
        if form.written:
            return Form((form.written,), header, frozenset({name}), form.parallel, columns)
    if corpus.is_parallel(sources):
        return Form(corpus.sides(sources), pair=True)
    raw = frozenset(name for name, form in formats.items() if form.written == "jsonl")
    return Form(("jsonl",), raw=raw)


@dataclass
class Written:
    """Counts: rows read = rows of all splits + rejected rows + dropped rows."""

    rows: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    rejected: Reasons = field(default_factory=Reasons)
    dropped: Counter[str] = field(default_factory=Counter)


def write_split(
    folder: SplitFolder,
    sources: Sequence[Source],
    read: ReadPlan,
    rows: Rows,
    side: NDArray[np.int8],
    names: Mapping[int, str],
    reasons: Mapping[int, str],
    context: RunContext,
) -> Written:
    """Read the sources again and write every row to its split, or to `rejects.jsonl`.

    One process writes, so that each file is in the order of the input.
    """
    form, written, at = form_of(sources, read), Written(), 0
    folder.remove_written()
    folder.will_write([folder.part(n, s).name for n in names.values() for s in form.suffixes])
    with contextlib.ExitStack() as stack:
        stack.enter_context(context.progress.showing("write", sum(s.size for s in sources)))
        files = {name: _opened(stack, folder, name, form) for name in names.values()}
        rejects = stack.enter_context(writing(folder.rejects))
        for shard in context.here(context.shards_of(sources, read)):
            for row, raw in corpus.raw_rows(shard, read):
                written.rows += 1
                if isinstance(row, Reject):
                    written.rejected.add([(row.row, row.byte, row.reason)])
                    _reject(rejects, sources[shard.source], row, row.reason)
                    continue
                if at >= len(rows) or (rows.source[at], rows.row[at]) != (shard.source, row.row):
                    raise changed_input(sources[shard.source].name)
                code = int(side[at])
                at += 1
                if code in reasons:
                    written.dropped[reasons[code]] += 1
                    _reject(rejects, sources[shard.source], row, reasons[code])
                    continue
                written.splits[names[code]] += 1
                lines = form.lines(shard.format, row, raw, read)
                for file, line in zip(files[names[code]], lines, strict=True):
                    file.write(line + b"\n")
    return written


def _opened(
    stack: contextlib.ExitStack, folder: SplitFolder, name: str, form: Form
) -> list[BinaryIO]:
    """Open the files of a split and write their header."""
    files = [stack.enter_context(writing(folder.part(name, suffix))) for suffix in form.suffixes]
    for file in files if form.header else ():
        file.write(form.header + b"\n")
    return files


def _reject(file: BinaryIO, source: Source, row: Document | Reject, reason: str) -> None:
    line = {"source": source.name, "row": row.row, "byte": row.byte, "reason": reason}
    file.write(orjson.dumps(line) + b"\n")
