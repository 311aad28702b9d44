"""The part of the page that shows one selection.

What: from `selection_data` to HTML and charts; the script moves the cut and lists the examples.
Why: what can be read without a script stands in the page as text and tables.
Trade-off: figures stand in it twice, once as text and once as the script's data.
Reference: TADPOLE, Table 2, for the composition before and after.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from corpusfit.manifest import RunFolder
from corpusfit.report.charts import composition_chart, map_chart, scores_chart
from corpusfit.report.page import escaped, figure, paragraphs, plain_table, repeated
from corpusfit.report.part import Part, Sheet
from corpusfit.report.selection import selection_data
from corpusfit.select.recall import recall_in_words

_ROWS = 30
"""Sources that the table shows; all are in the CSV."""


def selected_part(name: str, title: str, path: Path, manifest: dict[str, Any], room: int) -> Part:
    """One selection.

    Args:
        name: of the part.
        title: its heading.
        path: the selection's folder.
        manifest: what it says.
        room: bytes that its examples may take.
    """
    data = selection_data(RunFolder(path), manifest, room)
    sheets = _sheets(name, manifest, data)
    shown = "".join(
        [
            _cut(name, data),
            figure(
                f"{name}-scores",
                "Segments by score; those above the cut in full colour; the task's own units as a "
                "line. The outermost bars hold all beyond them.",
            ),
            figure(
                f"{name}-composition", "Share of each source in the corpus and in what is taken."
            ),
            _lookable(name, data),
            _figures(manifest, sheets),
            repeated(name, manifest.get("repeat", []), manifest["plan"]),
        ]
    )
    charts = {f"{name}-scores": scores_chart(data), f"{name}-composition": composition_chart(data)}
    if data["examples"]:
        charts[f"{name}-map"] = map_chart(data)
    return Part(name, title, _summary(manifest), shown, charts, list(sheets.values()), data)


def _summary(manifest: dict[str, Any]) -> list[str]:
    """What a selection came to, in sentences."""
    counts, taken = manifest["counts"], manifest["selected"]
    by_source = taken["by_source"].items()
    largest = sorted(by_source, key=lambda item: (-item[1]["selected"], item[0]))[:3]
    where = ", ".join(
        f"{name} ({n['selected'] / max(1, taken['segments']):.0%})"
        for name, n in largest
        if n["selected"]
    )
    share = taken["segments"] / max(1, counts["segments"])
    said = [
        f"{manifest['method']['name']} took {taken['segments']:,} of {counts['segments']:,} "
        f"segments ({share:.1%}), about {taken['tokens']:,} word pieces"
        + (f"; most are from {where}." if where else "."),
        f"{counts['rows']:,} rows were read: {counts['documents']:,} documents scored and "
        f"{counts['rejected']:,} rows rejected.",
    ]
    return [*said, *filter(None, [manifest["remark"]]), *manifest["warnings"]]


def _cut(name: str, data: dict[str, Any]) -> str:
    """The slider, what it says, and a table by source that follows it."""
    cuts = data["cuts"]
    if not cuts["threshold"]:
        return "<p>No segment was scored.</p>"
    own, last = cuts["own"], len(cuts["threshold"]) - 1
    said = "It begins at this run's own cut."
    if own is None:
        said = (
            "This run has no one cut: it took nothing, drew by weight, or cut each cluster by "
            "itself. What a cut would take:"
        )
    return (
        f'<fieldset><legend>Where to cut</legend><label for="{name}-cut">From few to many. '
        f'{said}</label><input type="range" id="{name}-cut" min="0" max="{last}" '
        f'value="{own or 0}"><p data-said aria-live="polite"></p>'
        '<div class="wide" data-by-source></div></fieldset>'
    )


def _lookable(name: str, data: dict[str, Any]) -> str:
    """What lies on either side of the cut, the map, and the examples."""
    if not data["examples"]:
        return (
            "<p>There are no examples: an older version of corpusfit made this selection, and "
            "corpusfit choose gives it some, or there was no room for them on this page.</p>"
        )
    names = sorted({example["source"] for example in data["examples"]})
    options = "".join(f'<option value="{html.escape(n)}">{escaped(n)}</option>' for n in names)
    by = {"embedding": "their embeddings", "words": "their words (TF-IDF)"}[data["by"]]
    return (
        '<h3>On either side of the cut</h3><div class="sides"><div><h4>Just above</h4>'
        '<div data-side="above"></div></div><div><h4>Just below</h4>'
        '<div data-side="below"></div></div></div><h3>Where they lie</h3>'
        + figure(
            f"{name}-map",
            f"Examples and the task's units by {by}, in two dimensions (PCA). More examples were "
            "kept of the best scores than of others.",
        )
        + '<h3>Look at examples</h3><div class="filters">'
        '<label>Words<input type="search" data-filter="words"></label>'
        f'<label>Source<select data-filter="source"><option value="">all</option>{options}'
        "</select></label>"
        '<label>Taken<select data-filter="taken"><option value="">all</option>'
        '<option value="true">taken</option><option value="false">not taken</option></select>'
        '</label><span data-found aria-live="polite"></span></div>'
        '<p class="soft">Words that raised a score are marked, those that lowered it are '
        "underlined too, where the method goes by words.</p><div data-list></div>"
    )


def _sheets(name: str, manifest: dict[str, Any], data: dict[str, Any]) -> dict[str, Sheet]:
    """Its tables by what they are."""
    counts, taken = manifest["counts"], manifest["selected"]
    by_source = sorted(taken["by_source"].items(), key=lambda kv: (-kv[1]["selected"], kv[0]))
    whole = max(1, counts["segments"])
    names = [source["name"] for source in data["sources"]]
    read = ("rows", "documents", "rejected", "units", "segments")
    found = {
        "read": Sheet(
            f"{name}-read", "What was read", ["", "count"], [(k, counts[k]) for k in read]
        ),
        "rejects": Sheet(
            f"{name}-rejects", "Rows not used", ["reason", "rows"], list(counts["reasons"].items())
        ),
        "sources": Sheet(
            f"{name}-sources",
            "By source",
            ["source", "segments", "share of corpus", "taken", "share of taken", "word pieces"],
            [
                (
                    source,
                    n["segments"],
                    round(n["segments"] / whole, 4),
                    n["selected"],
                    round(n["selected"] / max(1, taken["segments"]), 4),
                    n["tokens"],
                )
                for source, n in by_source
            ],
        ),
        "clusters": Sheet(
            f"{name}-clusters",
            "By cluster",
            ["cluster", "segments", "quota", "taken", "word pieces"],
            [
                (str(i), n["segments"], round(quota, 4), n["selected"], n["tokens"])
                for i, (n, quota) in enumerate(
                    zip(taken.get("by_cluster", []), taken.get("quota") or [], strict=True), 1
                )
            ],
        ),
        "ranking": Sheet(
            f"{name}-ranking",
            "Methods on this task and corpus, mean and standard deviation over seeds",
            ["method", "family", *(f"{v}{end}" for v in _VERDICTS for end in ("", " sd")), "s/GB"],
            [
                (
                    v["method"],
                    v["family"],
                    *(round(figure, 3) for k in _VERDICTS for figure in v[k]),
                    round(v["cost"], 1),
                )
                for v in manifest["ranking"] or []
            ],
        ),
        "cascade": Sheet(
            f"{name}-cascade",
            "What each stage had and passed on",
            ["stage", "segments", "passed on", "units", "worker s", "units/s"],
            [
                (
                    s["stage"],
                    s["segments"],
                    s["passed"],
                    s["units"],
                    round(s["seconds"], 1),
                    round(s["units_per_second"]),
                )
                for s in (manifest["cascade"] or {}).get("stages", [])
            ],
        ),
        "cuts": Sheet(
            f"{name}-cuts",
            "What every cut would take",
            ["threshold", "share", "segments", "word pieces", *names],
            [
                (threshold, share, segments, tokens, *sources)
                for threshold, share, segments, tokens, sources in zip(
                    *(data["cuts"][k] for k in _CUTS), strict=True
                )
            ],
        ),
        "examples": Sheet(
            f"{name}-examples",
            "Segments between all cuts",
            _EXAMPLE,
            [[example[k] for k in _EXAMPLE] for example in data["examples"]],
        ),
    }
    return {what: sheet for what, sheet in found.items() if sheet.rows}


_VERDICTS = ("agreement", "f1", "auroc", "ap")
_CUTS = ("threshold", "share", "segments", "tokens", "by_source")
_EXAMPLE = ("score", "selected", "source", "row", "segment", "id", "text")


def _figures(manifest: dict[str, Any], sheets: dict[str, Sheet]) -> str:
    """The tables, in the order in which they are asked for."""
    shown = ["<h3>Counts</h3>"]
    for what, sheet in sheets.items():
        if what == "sources":
            first = Sheet(sheet.name, sheet.caption, sheet.columns, sheet.rows[:_ROWS])
            shown.append(plain_table(first))
            left = len(sheet.rows) - _ROWS
            shown.append(f"<p>… and {left:,} more.</p>" if left > 0 else "")
        elif what == "ranking":
            shown += ["<h3>Which method, and why</h3>", plain_table(sheet)]
        elif what == "cascade":
            shown += ["<h3>The cascade</h3>", plain_table(sheet)]
            shown.append(paragraphs([recall_in_words(manifest["cascade"])]))
        elif what in ("read", "rejects", "clusters"):
            shown.append(plain_table(sheet))
    return "".join(shown)
