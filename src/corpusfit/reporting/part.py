"""A section of the page: what it shows, from which page, figures and CSV files are written."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusfit.core.escaping import in_sheet
from corpusfit.reporting.charts import Spec


@dataclass(frozen=True)
class Sheet:
    """A table on the page and in a CSV file."""

    caption: str  # of the table
    columns: Sequence[str]  # headings
    rows: Sequence[Sequence[Any]]  # plain values; columns of numbers are right-aligned
    notes: Sequence[str] = ()  # sentences below the table on the page

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
    """Round a number, if there is one; without `digits` to a whole one."""
    return None if value is None else round(value, digits)


@dataclass(frozen=True)
class Part:
    """A section of the page; `templates/KIND.html` shows it."""

    kind: str  # name of its template
    name: str  # identifier on the page: letters, digits, hyphens
    title: str  # heading
    summary: Sequence[str]  # result in sentences
    # by name; on the page and as files NAME-CHART
    charts: Mapping[str, Spec] = field(default_factory=dict)
    # tables by name: those on the page, and more; as files NAME-TABLE.csv
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    # of the run, or a recipe's table; `None` for several runs
    manifest: dict[str, Any] | None = None
    data: dict[str, Any] | None = None  # values for the page's script
