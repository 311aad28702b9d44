"""The HTML document: one file with text, tables, charts, style and script, usable offline."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import shlex
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from corpusfit.report.escaping import harmless
from corpusfit.report.part import Part, Sheet
from corpusfit.report.vega import script


def page(title: str, parts: Sequence[Part]) -> str:
    """The document; Vega-Lite takes some 900 kB of it.

    Text of a corpus is hostile. It reaches the page as JSON in a block that is no script, with `<`
    escaped, and the script only sets it as the text of a node. A content-security policy allows
    the two scripts by their digests and nothing else: no network, no inline handler, no eval
    (Vega's expressions are interpreted).
    Reference: OWASP, Cross Site Scripting Prevention; W3C, Content Security Policy Level 3.

    Args:
        title: of the page.
        parts: sections in reading order.

    Raises:
        MissingDependencyError: the chart library is not installed.
    """
    scripts = [script(), _asset("page.js")]
    allowed = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    places = "".join(f'<li><a href="#{p.name}">{escaped(p.title)}</a></li>' for p in parts)
    data = {
        "runs": {p.name: p.data for p in parts if p.data is not None},
        "charts": {name: spec for p in parts for name, spec in p.charts.items()},
    }
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(title)}</title>\n<style>{_asset('page.css')}</style>\n</head>\n"
        '<body>\n<a class="skip" href="#content">Skip to the content</a>\n'
        f"<header><h1>{escaped(title)}</h1></header>\n"
        f'<nav aria-label="Sections"><ul>{places}</ul></nav>\n'
        f'<main id="content"><section><h2>Summary</h2>{_short(parts)}</section>'
        f"{''.join(map(_section, parts))}</main>\n"
        f'<script type="application/json" id="data">{_as_block(data)}</script>\n'
        + "".join(f'<script type="module">{each}</script>\n' for each in scripts)
        + "</body>\n</html>\n"
    )


def _short(parts: Sequence[Part]) -> str:
    """The summaries of all sections."""
    return "".join(
        f'<h3><a href="#{p.name}">{escaped(p.title)}</a></h3>{paragraphs(p.summary)}'
        for p in parts
        if p.summary
    )


def _section(part: Part) -> str:
    run = "" if part.data is None else f' data-run="{part.name}"'
    return f'<section id="{part.name}"{run}><h2>{escaped(part.title)}</h2>{part.html}</section>\n'


def escaped(text: str) -> str:
    """Text as HTML."""
    return html.escape(harmless(text))


def paragraphs(sentences: Iterable[str]) -> str:
    """Each sentence in a paragraph."""
    return "".join(f"<p>{escaped(sentence)}</p>" for sentence in sentences)


def figure(name: str, words: str) -> str:
    """A place for a chart, with a caption."""
    return (
        f'<figure><div class="chart" data-chart="{name}"></div>'
        f'<figcaption class="soft">{escaped(words)}</figcaption></figure>'
    )


def plain_table(sheet: Sheet) -> str:
    """A table; numbers are right-aligned."""
    numeric = [
        bool(sheet.rows) and all(isinstance(row[i], int | float | None) for row in sheet.rows)
        for i in range(len(sheet.columns))
    ]
    kinds = [' class="n"' if n else "" for n in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(c)}</th>'
        for c, kind in zip(sheet.columns, kinds, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{escaped(_formatted(value))}</td>"
            for value, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in sheet.rows
    )
    caption = escaped(sheet.caption)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def repeated(name: str, words: Sequence[str], plan: dict[str, Any]) -> str:
    """How to reproduce a run: a command to copy, and the whole plan."""
    command = ""
    if words:
        line = escaped(shlex.join([*words, "--out", "AGAIN"]))
        command = (
            f'<pre id="command-{name}">{line}</pre>'
            f'<button type="button" data-copy="command-{name}">copy</button>'
        )
    shown = escaped(json.dumps(plan, indent=1, ensure_ascii=False))
    return (
        f"<h3>Reproduce this run</h3>{command}"
        f"<details><summary>Plan (all settings)</summary><pre>{shown}</pre></details>"
    )


def _formatted(value: Any) -> str:
    """A value as text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _as_block(data: dict[str, Any]) -> str:
    """JSON that cannot close its block or open a comment or script in it."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    plain = plain.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return plain.encode("utf-8", "replace").decode("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files("corpusfit.report").joinpath("assets", name).read_text("utf-8")
