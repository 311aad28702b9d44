"""The page: templates, and what they escape."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING

from corpusfit.core.errors import importing
from corpusfit.core.escaping import harmless
from corpusfit.reporting.part import Part, cell

if TYPE_CHECKING:
    from jinja2 import Environment

_EXCERPT = 320
"""Most characters of a text that is shown in part."""


def page(title: str, parts: Sequence[Part]) -> str:
    """Render the page, which has no script.

    Corpus text is hostile. The templates escape it, and so do the charts; a content-security policy
    allows the page's own style and nothing else: no script, no network, no image.
    Reference: OWASP, Cross Site Scripting Prevention; W3C, Content Security Policy Level 3.
    """
    style = files("corpusfit.reporting").joinpath("assets", "page.css").read_text("utf-8")
    template = _templates().get_template("page.html")
    return template.render(title=title, parts=parts, style=style)


@cache
def _templates() -> Environment:
    """The templates; what they show is escaped, and its bidirectional controls are visible."""
    with importing("Writing a report", "report"):
        import jinja2
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("corpusfit.reporting"),
        autoescape=True,
        finalize=lambda value: harmless(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = partial(json.dumps, indent=1, ensure_ascii=False)
    made.filters |= {"cell": cell, "command": shlex.join, "settings": settings}
    made.filters["excerpt"] = partial(textwrap.shorten, width=_EXCERPT, placeholder=" …")
    return made
