"""The contract of a format of corpora, as a check that any package can run on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.errors import InputError, require_promise
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Source
from corpusfit.text.contract import load

_TEXTS = [
    'first "row", of three',
    "zweite Zeile: \u00e4\u00f6\u2028\u8a9e",
    "the third; and last",
    *(f"row {i} of many, " + "long " * (i % 9) + "end" for i in range(300)),
]
_CUT = ReadPlan(shard_mb=1e-3)  # into shards of some rows each


def check_format(write: Callable[[Path, list[str]], str], folder: Path) -> None:
    """Check a format of corpora with files that a function writes in it.

    All texts have to come back in order: from shards read in any order, from one shard, and as
    columns. In a file of random bytes, every row has to be a text or a reject.

    Args:
        write: writes texts to a folder, and returns the input that names them; of a format with
            one document a file, a folder.
        folder: an empty folder.

    Raises:
        AssertionError: the format breaks a promise, which the message names.
    """
    named = [write(folder, _TEXTS)]
    found = corpus.find(named, _CUT, role="corpus")
    shards = list(corpus.shards(found, _CUT))
    require_promise(len(shards) > 5, "its blocks are longer than a shard")
    unknown = [replace(source, cells=None, blocks=None) for source in found]
    in_order = [list(corpus.rows(shard, _CUT)) for shard in corpus.shards(unknown, _CUT)]
    rows = [row for part in in_order for row in part]
    require_promise([_text_or_reason(row) for row in rows] == _TEXTS, "the rows have other texts")
    numbers = [
        (shard.source, row.row)
        for shard, part in zip(shards, in_order, strict=True)
        for row in part
    ]
    require_promise(numbers == sorted(set(numbers)), "the numbers of rows do not rise")
    for number in (*range(len(shards))[::-2], *range(len(shards)), 2, 2, 1):
        part = list(corpus.rows(shards[number], _CUT))
        require_promise(
            part == in_order[number], "a shard has other rows when another is read before"
        )

    for max_row_mb in (_CUT.max_row_mb, 4e-5):
        plan = replace(_CUT, max_row_mb=max_row_mb)
        for shard in corpus.shards(found, plan):
            _check_columns(shard, plan)
    for source in found:
        _check_random_bytes(source)


def _check_columns(shard: Any, plan: ReadPlan) -> None:
    rows = list(corpus.rows(shard, plan))
    used = [row for row in rows if isinstance(row, Document)]
    columns, rejected = corpus.documents(shard, plan)
    same = columns.row.tolist() == [row.row for row in used]
    same &= columns.texts.to_pylist() == [row.text for row in used]
    same &= rejected == [row for row in rows if isinstance(row, Reject)]
    require_promise(same, "`columns` has other rows than `parse`")
    some, _ = corpus.documents(shard, plan, lambda numbers, sizes: numbers % 3 == 0)
    chosen = [row.row for row in used if row.row % 3 == 0]
    require_promise(some.row.tolist() == chosen, "`columns` gives rows that `pick` leaves out")


def _check_random_bytes(source: Source) -> None:
    rng = np.random.default_rng(7)
    form = load(source.format)
    for size in (0, 1, 50, 5000):
        for file in corpus.files_of(source):
            Path(file).write_bytes(rng.integers(0, 256, size, np.uint8).tobytes())
        try:
            rows = _read([replace(source, cells=None, blocks=None, size=size)])
        except InputError:
            # pairs of files of unequal lengths, and damaged runs, are errors as a whole
            require_promise(form.parallel or form.gathers, "random bytes are an error, not rejects")
        else:
            fine = all(isinstance(row, Reject) or row.text.strip() for row in rows)
            require_promise(fine, "a row of random bytes has no text")


def _read(sources: Sequence[Source]) -> list[Document | Reject]:
    plan = ReadPlan()
    return [row for shard in corpus.shards(sources, plan) for row in corpus.rows(shard, plan)]


def _text_or_reason(row: Document | Reject) -> str:
    return row.text if isinstance(row, Document) else str(row.reason)
