"""The part of the page that shows one selection.

What: from `selection_data` to HTML and charts; the script moves the cut and lists the examples.
Why: what can be read without a script stands in the page as text and tables.
Trade-off: figures stand in it twice, once as text and once as the script's data.
"""

from __future__ import annotations

import html
import json
from typing import Any

from corpusfit.report.charts import composition_chart, map_chart, scores_chart
from corpusfit.report.page import figure, plain_table

__all__ = ["selection_charts", "selection_html", "selection_summary"]


def selection_summary(data: dict[str, Any]) -> list[str]:
    """What a selection came to, in sentences."""
    counts, taken = data["counts"], data["selected"]
    share = taken["segments"] / max(1, counts["segments"])
    largest = sorted(data["sources"], key=lambda s: (-s["selected"], s["name"]))[:3]
    where = ", ".join(
        f"{s['name']} ({s['selected'] / max(1, taken['segments']):.0%})" for s in largest
        if s["selected"]
    )
    said = [
        f"{data['method']} took {taken['segments']:,} of {counts['segments']:,} segments "
        f"({share:.1%}), about {taken['tokens']:,} word pieces"
        + (f", most of them from {where}." if where else "."),
        f"{counts['rows']:,} rows were read: {counts['documents']:,} documents and "
        f"{counts['rejected']:,} rejected.",
    ]
    return [*said, *([data["remark"]] if data["remark"] else []), *data["warnings"]]


def selection_charts(number: int, data: dict[str, Any]) -> dict[str, Any]:
    """Its charts, by name."""
    return {
        f"scores-{number}": scores_chart(data),
        f"composition-{number}": composition_chart(data),
        f"map-{number}": map_chart(data),
    }


def selection_html(number: int, data: dict[str, Any]) -> str:
    """Its part of the page."""
    parts = [
        "".join(f"<p>{html.escape(s)}</p>" for s in selection_summary(data)),
        _cut(number, data),
        figure(f"scores-{number}", "Segments by score; what is above the cut in full colour; the "
               "task's own units as a line. The outermost bars hold all beyond them."),
        figure(f"composition-{number}", "Share of each source in the corpus and in what is taken."),
        '<h3>On either side of the cut</h3><div class="sides"><div><h4>Just above: taken</h4>'
        '<div data-side="above"></div></div><div><h4>Just below: left out</h4>'
        '<div data-side="below"></div></div></div>',
        "<h3>Where they lie</h3>",
        figure(f"map-{number}", f"Examples and the task's units by {data['nearest_by']}, in two "
               "dimensions (PCA). More examples were kept near the best scores than elsewhere."),
        _browse(data),
        _counts(data),
        _ranking(data),
        _cascade(data),
        _repeat(number, data),
    ]
    return f'<div data-run="{number}">{"".join(parts)}</div>'


def _cut(number: int, data: dict[str, Any]) -> str:
    last = len(data["cuts"]["threshold"]) - 1
    return (
        f'<fieldset><legend>Where to cut</legend><label for="cut-{number}">From few to all; this '
        f'run\'s own cut is where it begins.</label><input type="range" id="cut-{number}" min="0" '
        f'max="{last}" value="{data["cuts"]["own"]}"><p data-said aria-live="polite"></p></fieldset>'
    )


def _browse(data: dict[str, Any]) -> str:
    names = sorted({example["source"] for example in data["examples"]})
    options = "".join(
        f'<option value="{html.escape(n)}">{html.escape(n)}</option>' for n in names
    )
    return (
        '<h3>Look at examples</h3><div class="filters">'
        '<label>Words<input type="search" data-filter="words"></label>'
        f'<label>Source<select data-filter="source"><option value="">all</option>{options}'
        "</select></label>"
        '<label>Taken<select data-filter="taken"><option value="">all</option>'
        '<option value="true">taken</option><option value="false">not taken</option></select>'
        '</label><span data-found aria-live="polite"></span></div>'
        "<p class=\"soft\">Words that raised a score are marked, those that lowered it underlined "
        "too, where the method goes by words.</p><div data-list></div>"
    )


def _counts(data: dict[str, Any]) -> str:
    counts = data["counts"]
    rows = [(name, counts[name]) for name in ("rows", "documents", "rejected", "units", "segments")]
    read = plain_table("What was read", ["", "count"], rows)
    reasons = list(counts["reasons"].items())
    rejects = plain_table("Rows not used", ["reason", "rows"], reasons) if reasons else ""
    columns = ["source", "segments", "of corpus", "taken", "of taken"]
    whole = max(1, sum(s["segments"] for s in data["sources"]))
    taken = max(1, data["selected"]["segments"])
    sources = [
        (s["name"], s["segments"], f"{s['segments'] / whole:.1%}", s["selected"],
         f"{s['selected'] / taken:.1%}")
        for s in data["sources"]
    ]
    return f"<h3>Counts</h3>{read}{rejects}{plain_table('By source', columns, sources)}"


def _ranking(data: dict[str, Any]) -> str:
    if not data["ranking"]:
        return ""
    rows = [
        (v["method"], v["family"], *(f"{v[k][0]:.2f} ± {v[k][1]:.2f}" for k in _VERDICTS), v["cost"])
        for v in data["ranking"]
    ]
    columns = ["method", "family", "agreement", "F1", "AUROC", "AP", "s for a GB"]
    return "<h3>Which method, and why</h3>" + plain_table(
        "Methods on this task and corpus, mean ± standard deviation over seeds", columns, rows
    )


_VERDICTS = ("agreement", "f1", "auroc", "ap")


def _cascade(data: dict[str, Any]) -> str:
    if not data["cascade"]:
        return ""
    plain = html.escape(json.dumps(data["cascade"], indent=1, ensure_ascii=False))
    return f"<h3>The cascade</h3><pre>{plain}</pre>"


def _repeat(number: int, data: dict[str, Any]) -> str:
    plan = html.escape(json.dumps(data["plan"], indent=1, ensure_ascii=False))
    return (
        f'<h3>How to make it again</h3><pre id="command-{number}">{html.escape(data["command"])}'
        f'</pre><button type="button" data-copy="command-{number}">copy</button>'
        f"<details><summary>The plan</summary><pre>{plan}</pre></details>"
    )
