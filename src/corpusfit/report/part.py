"""Content of a section of the page; page, figures and CSV files are written from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Spec = dict[str, Any]
"""A Vega-Lite specification with its data inside."""


@dataclass(frozen=True)
class Sheet:
    """A table on the page and in a CSV file.

    Attributes:
        name: of the file.
        caption: of the table.
        columns: headings.
        rows: plain values; columns of numbers are right-aligned.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Part:
    """A section of the page.

    Attributes:
        name: identifier on the page: letters, digits, hyphens.
        title: heading.
        summary: result in sentences.
        html: the rest of the section.
        charts: by name.
        sheets: tables written as CSV: those on the page, and more.
        data: values for the page's script.
    """

    name: str
    title: str
    summary: Sequence[str]
    html: str
    charts: dict[str, Spec] = field(default_factory=dict)
    sheets: Sequence[Sheet] = ()
    data: dict[str, Any] | None = None
