"""The table of file formats, by name and suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from corpusfit.corpus import csv, hub, jsonl, pairs, parquet, text
from corpusfit.corpus.cutting import Block
from corpusfit.corpus.fields import Pick, Row
from corpusfit.corpus.unpack import COMPRESSIONS
from corpusfit.plan import ReadPlan
from corpusfit.types import Documents, Reject, Shard, Source

Columns = Callable[[Shard, ReadPlan, Pick | None], tuple[Documents, list[Reject]]]


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes:
        suffixes: endings of file names, before any compression suffix.
        blocks: cuts a source into blocks of whole rows, in the coordinator.
        parse: reads the rows of a shard, in a worker.
        columns: reads the rows as columns, if there is a faster way than `parse`.
        line_ends: whether a line end ends a row, so that rows can be found without parsing.
    """

    suffixes: tuple[str, ...]
    blocks: Callable[[Source, ReadPlan], Iterator[Block]]
    parse: Callable[[Shard, ReadPlan], Iterator[Row]]
    columns: Columns | None = None
    line_ends: bool = False


FORMATS: dict[str, Format] = {
    "jsonl": Format(
        (".jsonl", ".ndjson"), jsonl.blocks, jsonl.parse, jsonl.columns, line_ends=True
    ),
    "txt": Format((".txt",), text.blocks, text.parse),
    "csv": Format((".csv",), csv.blocks, csv.parse),
    "tsv": Format((".tsv",), csv.blocks, csv.parse),
    "parquet": Format((".parquet",), parquet.blocks, parquet.parse),
    "hub": Format((), hub.blocks, jsonl.parse, jsonl.columns),
    "moses": Format((), pairs.moses_blocks, pairs.moses_parse),
    "columns": Format((), pairs.columns_blocks, pairs.columns_parse),
}


def format_of(name: str) -> tuple[str, str] | None:
    """The format and the compression (or `""`) of a file name; None for an unknown suffix."""
    stem, _, last = name.lower().rpartition(".")
    compression = last if last in COMPRESSIONS else ""
    stem = stem if compression else name.lower()
    for format_name, form in FORMATS.items():
        if stem.endswith(form.suffixes):
            return format_name, compression
    return None


def has_line_ends(form: str, compression: str) -> bool:
    """Whether a stored file's rows are found by its line ends."""
    return not compression and form in FORMATS and FORMATS[form].line_ends


def allowed_suffixes() -> str:
    """The readable suffixes, for messages."""
    suffixes = [suffix for form in FORMATS.values() for suffix in form.suffixes]
    archives = ", ".join(f".{c}" for c in COMPRESSIONS)
    return f"{', '.join(suffixes)}, each plain or compressed ({archives})"
