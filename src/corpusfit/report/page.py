"""One page of HTML that holds everything it shows: text, figures, charts, style and script.

What: puts the sections of some runs into one document that opens from disk with no network.
Why: a page that can be mailed, kept beside the run and opened in ten years.
Trade-off: Vega-Lite rides along, some 900 kB; everything else is small.

Safe: text of a corpus reaches the page as JSON in a block that is no script, `<` written as an
escape, and the script only ever sets it as the text of a node. A content-security policy allows
the two scripts by their digests and nothing else: no network, no inline handler, no eval
(Vega's expressions are interpreted).
Reference: OWASP, Cross Site Scripting Prevention; W3C, Content Security Policy Level 3.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from corpusfit.errors import MissingDependencyError

__all__ = ["figure", "page", "plain_table", "section"]

_EXPOSED = "window.vegaEmbed = vegaEmbed;"


def page(
    title: str,
    summary: Sequence[str],
    sections: Sequence[tuple[str, str, str]],
    data: dict[str, Any],
) -> str:
    """The document.

    Args:
        title: of the page.
        summary: sentences that say what the runs came to.
        sections: (identity, title, HTML) of each part.
        data: `runs` and `charts`, as the script reads them.

    Raises:
        MissingDependencyError: the charts' library is not installed.
    """
    scripts = [_vega(), _asset("page.js")]
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in summary)
    places = "".join(
        f'<li><a href="#{html.escape(name)}">{html.escape(words)}</a></li>'
        for name, words, _ in sections
    )
    body = "".join(section(*each) for each in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_asset('page.css')}</style>\n</head>\n"
        '<body>\n<a class="skip" href="#content">To the content</a>\n'
        f"<header><h1>{html.escape(title)}</h1>{said}</header>\n"
        f'<nav aria-label="Sections"><ul>{places}</ul></nav>\n'
        f'<main id="content">{body}</main>\n'
        f'<script type="application/json" id="data">{_as_block(data)}</script>\n'
        + "".join(f'<script type="module">{script}</script>\n' for script in scripts)
        + "</body>\n</html>\n"
    )


def section(name: str, title: str, inside: str) -> str:
    """A part of the page; what is inside is HTML."""
    return f'<section id="{html.escape(name)}"><h2>{html.escape(title)}</h2>{inside}</section>\n'


def figure(name: str, words: str) -> str:
    """A place for a chart, with words that say what it shows."""
    return (
        f'<figure><div class="chart" data-chart="{html.escape(name)}"></div>'
        f'<figcaption class="soft">{html.escape(words)}</figcaption></figure>'
    )


def plain_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers stand to the right."""
    numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    kinds = [' class="n"' if n and rows else "" for n in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{html.escape(c)}</th>'
        for c, kind in zip(columns, kinds, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{html.escape(_worded(value))}</td>"
            for value, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(caption)}">'
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _worded(value: Any) -> str:
    """A value as it is read; bidirectional controls of a name do nothing."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return "".join(f"⟨U+{ord(c):04X}⟩" if c in _TURNING else c for c in str(value))


_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _as_block(data: dict[str, Any]) -> str:
    """JSON that cannot end its block, nor begin a comment or another script in it."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    plain = plain.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return plain.encode("utf-8", "replace").decode("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files("corpusfit.report").joinpath("assets", name).read_text("utf-8")


@cache
def _vega() -> str:
    """Vega-Lite and what it needs, as one script that leaves `vegaEmbed` on the window."""
    try:
        import vl_convert
    except ImportError as e:
        raise MissingDependencyError("Writing a report", "report") from e
    found: str = vl_convert.javascript_bundle(_EXPOSED)
    return found
