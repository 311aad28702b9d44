"""Content of a section of the page; page, figures and CSV files are written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusfit.reporting.spec import Spec
from corpusfit.reporting.tables import Sheet


@dataclass(frozen=True)
class Part:
    """A section of the page; `templates/KIND.html` shows it.

    Attributes:
        kind: name of its template.
        name: identifier on the page: letters, digits, hyphens.
        title: heading.
        summary: result in sentences.
        charts: by name; on the page and as files NAME-CHART.
        sheets: tables by name: those on the page, and more; as files NAME-TABLE.csv.
        manifest: of the run, or a recipe's table; `None` for several runs.
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
