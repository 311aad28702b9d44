"""Read `.xlsx` sheets of words and tags, as in the Portuguese clinical corpus (clinpt)."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from corpusfit.core.errors import EmptyInputError, InputError, importing, raise_machine_fault
from corpusfit.evaluation.formats.conll import TAG, with_type
from corpusfit.evaluation.formats.labelled import Labelled

_STOP = "."
_FREE = 32 << 20
"""Bytes that any workbook may unpack to; a larger one to `_MAX_RATIO` times its size."""
_MAX_RATIO = 100


def read_xlsx(places: Sequence[str], split: str) -> Labelled:
    """Read the sentences of a split: of each row the first cell is the word, the last its tag.

    The first sheet of each file is read. A first row without a tag is a header. Sentences end at
    blank rows, or in a file without any at full stops.

    Reference: Lopes et al. (2019), https://github.com/fabioacl/PortugueseClinicalNER; mDAPT,
    appendix B.
    """
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for place in places:
        rows = _rows(Path(place))
        if rows and rows[0] and not TAG.fullmatch(rows[0][-1]):
            rows[0] = []
        stops = all(rows[1:])
        between = True
        for number, row in enumerate(rows, 1):
            if not row:
                between = True
                continue
            if len(row) < 2 or not TAG.fullmatch(row[-1]):
                raise InputError(
                    f"{place}, row {number}: the last cell must be a tag such as O, B-NAME or "
                    f"I-NAME, and the first a word; got {' | '.join(row)[:60]!r}."
                )
            if between:
                pieces.append([])
                tags.append([])
            pieces[-1].append(row[0])
            tags[-1].append(with_type(row[-1]))
            between = stops and row[0] == _STOP
    if not pieces:
        raise EmptyInputError(f"The {split} split of `task` must hold sentences; it is empty.")
    return Labelled(pieces, tags)


def _rows(path: Path) -> list[list[str]]:
    """The filled cells of each row of the first sheet, without blank rows at the end."""
    with importing(f"Reading {path.name}", "xlsx"):
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > max(_FREE, _MAX_RATIO * path.stat().st_size):
            raise InputError(
                f"{path} must unpack to at most {_MAX_RATIO} times its size, and it unpacks to "
                f"{size >> 20:,} MiB. Save its first sheet as tab-separated text that ends in "
                ".conll."
            )
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        cells = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    except (InvalidFileException, OSError, KeyError, ValueError, zipfile.BadZipFile) as e:
        raise_machine_fault(e)
        raise InputError(f"{path} cannot be read as a workbook: {e}.") from e
    rows = [[str(c).strip() for c in row if c is not None and str(c).strip()] for row in cells]
    while rows and not rows[-1]:
        rows.pop()
    return rows
