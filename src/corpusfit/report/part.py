"""What a part of the page is made of: words, HTML, charts, tables and the script's data.

Why: the page, the figures and the CSV files are written from the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Spec = dict[str, Any]
"""A Vega-Lite specification with its data inside."""


@dataclass(frozen=True)
class Sheet:
    """A table: on the page, and as a CSV file.

    Attributes:
        name: of the file.
        caption: what it shows.
        columns: their names.
        rows: plain values; numbers stand to the right.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Part:
    """A part of the page.

    Attributes:
        name: its identity there, of letters, digits and hyphens.
        title: its heading.
        summary: what it comes to, in sentences.
        html: all else that it shows.
        charts: by name.
        sheets: what is written as CSV: the tables that it shows, and more.
        data: what the script needs of it.
    """

    name: str
    title: str
    summary: Sequence[str]
    html: str
    charts: dict[str, Spec] = field(default_factory=dict)
    sheets: Sequence[Sheet] = ()
    data: dict[str, Any] | None = None
