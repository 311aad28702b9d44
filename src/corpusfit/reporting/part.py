"""A section of the report: what the page, the figures and the CSV files are written from."""

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

    caption: str
    # headings
    columns: Sequence[str]
    # plain values; columns of numbers are right-aligned
    rows: Sequence[Sequence[Any]]
    # sentences below the table on the page
    notes: Sequence[str] = ()

    def numeric(self) -> list[bool]:
        """Which columns hold numbers only."""
        return [
            bool(self.rows) and all(isinstance(row[i], int | float | None) for row in self.rows)
            for i in range(len(self.columns))
        ]

    def as_csv(self) -> str:
        """The table as CSV; what a spreadsheet would run as a formula is escaped."""
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        out.writerows([in_sheet(value) for value in row] for row in (self.columns, *self.rows))
        return text.getvalue()


def cell(value: Any) -> str:
    """A value as text for a cell of a table."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def rounded(value: float | None, digits: int | None) -> float | None:
    """Round a number, if there is one; to a whole number if `digits` is None."""
    return None if value is None else round(value, digits)


@dataclass(frozen=True)
class Part:
    """A section of the page.

    Attributes:
        kind: `templates/KIND.html` shows it.
        name: identifier on the page: letters, digits, hyphens.
        title: heading.
        summary: the result in sentences, the verdict first.
        steps: what to do next, in words, each with the command that does it.
        charts: charts by their names; written to files NAME-CHART, too.
        sheets: tables by their names, for the page and for files NAME-TABLE.csv.
        manifest: manifest of the run, or table of a recipe; None if it shows several runs.
        data: values for the page's script.
    """

    kind: str
    name: str
    title: str
    summary: Sequence[str]
    charts: Mapping[str, Spec] = field(default_factory=dict)
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    manifest: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    steps: Sequence[tuple[str, Sequence[str]]] = ()
