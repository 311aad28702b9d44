"""Row labels, for methods that score by label and for audits."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ChangedInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Shard
from corpusfit.text import load_format, rows

NONE = "(none)"
"""Label of rows whose field is missing, empty, or not a string, a number or a boolean."""


def labels_of(
    shard: Shard, read: ReadPlan, wanted: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct labels of a shard's rows, and each row's index [n] among them."""
    number: dict[str, int] = {}
    row_numbers: list[int] = []
    places: list[int] = []
    for row, label in _labeled(shard, read):
        row_numbers.append(row)
        places.append(number.setdefault(label, len(number)))
    different, nth = np.unique(wanted, return_inverse=True)
    if not np.array_equal(different, row_numbers):
        raise different_shards(read.id_field)
    return list(number), np.array(places, np.int64)[nth]


def labels_at(shard: Shard, read: ReadPlan, wanted: NDArray[np.int64]) -> list[str]:
    """The labels of some rows, int64 [n]; `read.id_field` is the label's field."""
    needed = set(wanted.tolist())
    labels = {row: label for row, label in _labeled(shard, read) if row in needed}
    return [labels[row] for row in wanted.tolist()]


def _labeled(shard: Shard, read: ReadPlan) -> Iterator[tuple[int, str]]:
    """The rows of a shard and their labels."""
    try:
        for row in rows(shard, read):
            if isinstance(row, Document):
                label: object = row.id
                if isinstance(row.value, float) and math.isfinite(row.value) and row.value % 1:
                    label = row.value  # a fraction, which is no id
                yield row.row, NONE if label in (None, "") else str(label)
    except ChangedInputError:
        if load_format(shard.format).cut_by_text:
            raise
        raise different_shards(read.id_field) from None


def different_shards(field: str) -> InputError:
    """The error for a corpus that is cut into other shards if another field is read."""
    # This happens for hub datasets, whose rows are stored with the requested fields only.
    return InputError(
        f"Reading the field {field!r} cuts the corpus into other shards. Score the corpus with "
        f"`read.id_field={field}`, and another `out` if it is scored."
    )


def matches(label: str, globs: Iterable[str]) -> bool:
    """Whether a label matches one of the globs; case counts."""
    return any(fnmatchcase(label, glob) for glob in globs)


def shown(labels: Iterable[str], word: str = "") -> str:
    """A few labels for a message, those most similar to a word first."""
    different = sorted(set(labels))
    few = difflib.get_close_matches(word, different, n=_SHOWN, cutoff=0.0)
    return ", ".join(repr(label[:40]) for label in few) + (", …" if len(different) > _SHOWN else "")


_SHOWN = 8
