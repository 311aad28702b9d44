"""A section of the report: what the page, the charts' files and the CSV files are written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusfit.core.escaping import as_csv


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
        return as_csv(self.columns, self.rows)


def cell(value: Any) -> str:
    """A value as text for a cell of a table."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Example:
    """A text of the corpus."""

    place: str  # source and row, as `explain --row` takes them
    score: float
    text: str


@dataclass(frozen=True)
class Part:
    """A section of the page.

    Attributes:
        name: identifier on the page; `templates/NAME.html` shows it.
        title: heading.
        summary: the result in sentences, the verdict first.
        manifest: manifest of the run.
        charts: charts as SVG, each with its caption, by their names; for files NAME-CHART.svg.
        sheets: tables by their names, for the page and for files NAME-TABLE.csv.
        texts: examples by headings, each with a sentence on what they are.
        steps: what to do next, in words, each with the command that does it.
    """

    name: str
    title: str
    summary: Sequence[str]
    manifest: dict[str, Any]
    charts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    texts: Mapping[tuple[str, str], Sequence[Example]] = field(default_factory=dict)
    steps: Sequence[tuple[str, Sequence[str]]] = ()
