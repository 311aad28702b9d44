"""Tables: their cells as words on the page, and the whole as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpusfit.core.escaping import in_sheet


@dataclass(frozen=True)
class Sheet:
    """A table on the page and in a CSV file.

    Attributes:
        caption: of the table.
        columns: headings.
        rows: plain values; columns of numbers are right-aligned.
        notes: sentences below the table on the page.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def numeric(self) -> list[bool]:
        """Which columns hold numbers only."""
        return [
            bool(self.rows) and all(isinstance(row[i], int | float | None) for row in self.rows)
            for i in range(len(self.columns))
        ]

    def as_csv(self) -> str:
        """The table as CSV, without formulas."""
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        out.writerows([in_sheet(value) for value in row] for row in (self.columns, *self.rows))
        return text.getvalue()


def cell(value: Any) -> str:
    """A value as words."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def rounded(value: float | None, digits: int | None) -> float | None:
    """A number, if there is one, with so many decimals; without `digits` a whole one."""
    return None if value is None else round(value, digits)
