"""The rows of every format: `Row`, `Pick`, and the checks that make a document or a reject."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from corpusfit.corpus import rejects
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Reject

Row = Document | Reject
"""The result of reading one row."""

Pick = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Chooses the rows to read, from their numbers [n] and their sizes in bytes [n]."""


def from_mapping(row: int, byte: int, record: object, plan: ReadPlan) -> Row:
    """A row of a format with named fields, such as JSON."""
    if not isinstance(record, Mapping):
        return Reject(row, byte, rejects.NOT_AN_OBJECT)
    if plan.text_field not in record:
        return Reject(row, byte, rejects.missing_field(plan.text_field, record))
    return from_value(row, byte, record[plan.text_field], record.get(plan.id_field))


def from_value(row: int, byte: int, text: object, id: object = None) -> Row:
    """Check a row whose text and id are already found.

    The text must be a string that is not blank and holds no NUL. The id is kept if it is a string,
    an integer or a boolean; labels are read as the id, or of any type as its `value`.
    """
    if text is None:
        return Reject(row, byte, rejects.NULL_TEXT)
    if not isinstance(text, str):
        return Reject(row, byte, rejects.not_a_string(text))
    if "\0" in text:
        return Reject(row, byte, rejects.NUL)
    if not text or text.isspace():
        return Reject(row, byte, rejects.EMPTY_TEXT)
    kept = id if isinstance(id, str | int) else None
    return Document(row, byte, text, kept, value=id)
