"""Section of the page on one selection: summary, threshold slider, charts, examples, tables."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from corpusfit.report.charts import amount_chart, composition_chart, map_chart, scores_chart
from corpusfit.report.page import escaped, figure, paragraphs, plain_table, repeated
from corpusfit.report.part import Part, Sheet
from corpusfit.report.selection import selection_data
from corpusfit.select.recall import recall_in_words
from corpusfit.workflows.run_folder import RunFolder

_ROWS = 30
"""Most sources in the table on the page; the CSV file has all."""


def selected_part(name: str, title: str, path: Path, manifest: dict[str, Any], room: int) -> Part:
    """The section on one selection; the page can be read without its script.

    Args:
        name: of the part.
        title: heading of the section.
        path: folder of the selection.
        manifest: of the selection.
        room: most bytes for the examples.
    """
    data = selection_data(RunFolder(path), manifest, room)
    sheets = _sheets(name, manifest, data)
    shown = "".join(
        [
            _slider(name, data),
            figure(
                f"{name}-scores",
                "Segments by score (higher: more like the target), in full colour at or above the "
                "threshold; target units as a line. The outermost bars also count all scores "
                "beyond them.",
            ),
            figure(
                f"{name}-composition",
                "Share of each source in the corpus and in the selection, % of segments.",
            ),
            _amount(name, manifest),
            _browser(name, data),
            _figures(manifest, sheets),
            repeated(name, manifest.get("repeat", []), manifest["plan"]),
        ]
    )
    charts = {f"{name}-scores": scores_chart(data), f"{name}-composition": composition_chart(data)}
    if (manifest.get("amount") or {}).get("curve"):
        charts[f"{name}-amount"] = amount_chart(manifest["amount"])
    if data["examples"]:
        charts[f"{name}-map"] = map_chart(data)
    return Part(name, title, _summary(manifest), shown, charts, list(sheets.values()), data)


def _summary(manifest: dict[str, Any]) -> list[str]:
    """The result of a selection, in sentences."""
    counts, selected = manifest["counts"], manifest["selected"]
    by_source = selected["by_source"].items()
    largest = sorted(by_source, key=lambda item: (-item[1]["selected"], item[0]))[:3]
    where = ", ".join(
        f"{name} ({n['selected'] / max(1, selected['segments']):.0%})"
        for name, n in largest
        if n["selected"]
    )
    share = selected["segments"] / max(1, counts["segments"])
    sentences = [
        f"{manifest['method']['name']} selected {selected['segments']:,} of "
        f"{counts['segments']:,} segments ({share:.1%}), about {selected['tokens']:,} word pieces"
        + (f"; largest sources: {where}." if where else "."),
        f"Rows read: {counts['rows']:,}, of which {counts['documents']:,} documents scored and "
        f"{counts['rejected']:,} rows rejected.",
    ]
    amount = (manifest.get("amount") or {}).get("reason")
    found = filter(None, [manifest.get("reason"), amount, manifest["remark"]])
    return [*sentences, *found, *manifest["warnings"]]


def _amount(name: str, manifest: dict[str, Any]) -> str:
    """The chart of held-out bits by amount, for `--fraction auto`."""
    amount = manifest.get("amount") or {}
    if not amount.get("curve"):
        return ""
    return figure(f"{name}-amount", amount["reason"])


def _slider(name: str, data: dict[str, Any]) -> str:
    """The threshold slider, its text, and a table by source that follows it."""
    cuts = data["cuts"]
    if not cuts["threshold"]:
        return "<p>No segment was scored.</p>"
    own, last = cuts["own"], len(cuts["threshold"]) - 1
    words = "The slider starts at this run's own threshold."
    if own is None:
        words = (
            "This run has no single threshold: it selected nothing, sampled by weight, or "
            "selected in each cluster separately. The slider shows what one threshold would "
            "select."
        )
    return (
        f'<fieldset><legend>Score threshold</legend><label for="{name}-cut">Left: few '
        f'segments; right: many. {words}</label><input type="range" id="{name}-cut" min="0" '
        f'max="{last}" value="{own or 0}"><p data-said aria-live="polite"></p>'
        '<div class="wide" data-by-source></div></fieldset>'
    )


def _browser(name: str, data: dict[str, Any]) -> str:
    """Examples near the threshold, the map, and the list of examples with its filters."""
    if not data["examples"]:
        return (
            "<p>No examples: an older version of corpusfit made this selection (corpusfit choose "
            "adds them), or this page has no room for them.</p>"
        )
    names = sorted({example["source"] for example in data["examples"]})
    options = "".join(f'<option value="{html.escape(n)}">{escaped(n)}</option>' for n in names)
    by = {"embedding": "their embeddings", "words": "their words (TF-IDF)"}[data["by"]]
    return (
        '<h3>Examples near the threshold</h3><div class="sides"><div><h4>Just above</h4>'
        '<div data-side="above"></div></div><div><h4>Just below</h4>'
        '<div data-side="below"></div></div></div><h3>Map of examples</h3>'
        + figure(
            f"{name}-map",
            f"Examples and target units by {by}, in two dimensions (PCA). High scores have more "
            "examples than low ones.",
        )
        + '<h3>Examples</h3><div class="filters">'
        '<label>Words<input type="search" data-filter="words"></label>'
        f'<label>Source<select data-filter="source"><option value="">all</option>{options}'
        "</select></label>"
        '<label>Selected<select data-filter="taken"><option value="">all</option>'
        '<option value="true">selected</option><option value="false">not selected</option>'
        "</select>"
        '</label><span data-found aria-live="polite"></span></div>'
        '<p class="soft">For methods that score words: marked words raised the score, marked and '
        "underlined words lowered it.</p><div data-list></div>"
    )


def _sheets(name: str, manifest: dict[str, Any], data: dict[str, Any]) -> dict[str, Sheet]:
    """Its tables by kind."""
    counts, selected = manifest["counts"], manifest["selected"]
    by_source = sorted(selected["by_source"].items(), key=lambda kv: (-kv[1]["selected"], kv[0]))
    whole = max(1, counts["segments"])
    names = [source["name"] for source in data["sources"]]
    read = ("rows", "documents", "rejected", "units", "segments")
    found = {
        "read": Sheet(f"{name}-read", "Input", ["item", "count"], [(k, counts[k]) for k in read]),
        "rejects": Sheet(
            f"{name}-rejects", "Rejected rows", ["reason", "rows"], list(counts["reasons"].items())
        ),
        "sources": Sheet(
            f"{name}-sources",
            "By source",
            [
                "source",
                "segments",
                "share of corpus",
                "selected",
                "share of selection",
                "word pieces",
            ],
            [
                (
                    source,
                    n["segments"],
                    round(n["segments"] / whole, 4),
                    n["selected"],
                    round(n["selected"] / max(1, selected["segments"]), 4),
                    n["tokens"],
                )
                for source, n in by_source
            ],
        ),
        "clusters": Sheet(
            f"{name}-clusters",
            "By cluster",
            ["cluster", "segments", "quota", "selected", "word pieces"],
            [
                (str(i), n["segments"], round(quota, 4), n["selected"], n["tokens"])
                for i, (n, quota) in enumerate(
                    zip(selected.get("by_cluster", []), selected.get("quota") or [], strict=True),
                    1,
                )
            ],
        ),
        "ranking": _ranking(name, manifest["ranking"] or []),
        "amount": Sheet(
            f"{name}-amount",
            "Held-out bits by amount (lower is better), and the difference to the fewest with its "
            "95 % interval",
            ["fraction", "bits per word", "more than fewest", "interval from", "to"],
            [
                [p["fraction"], *(round(p[k], 4) for k in ("bits", "behind", "low", "high"))]
                for p in (manifest.get("amount") or {}).get("curve", [])
            ],
        ),
        "cascade": Sheet(
            f"{name}-cascade",
            "Stages of the cascade",
            [
                "stage",
                "segments",
                "passed on",
                "units",
                "worker seconds",
                "units per second",
            ],
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
            "Selection at each threshold",
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
            "Example segments between the thresholds",
            _EXAMPLE,
            [[example[k] for k in _EXAMPLE] for example in data["examples"]],
        ),
    }
    return {what: sheet for what, sheet in found.items() if sheet.rows}


def _ranking(name: str, ranking: list[dict[str, Any]]) -> Sheet:
    """The methods compared on a sample, with the verdicts that were measured."""
    verdicts = [k for k in _VERDICTS if any(v.get(k) for v in ranking)]
    columns = ["method", "family", "bits per word", "more than best", "interval from", "to"]
    columns += [f"{v}{end}" for v in verdicts for end in ("", " sd")]
    rows = []
    for v in ranking:
        figures = [v.get("bits"), *(v.get("behind") or [None] * 3)]
        figures += [figure for k in verdicts for figure in v[k] or (None, None)]
        rounded = [None if figure is None else round(figure, 3) for figure in figures]
        rows.append((v["method"], v["family"], *rounded, round(v["cost"], 1)))
    caption = (
        "Methods on this target and corpus: bits per word of held-out target text (lower is "
        "better), difference to the best method and its 95 % interval"
    )
    if verdicts:
        caption += "; mean and standard deviation (sd) over seeds (higher is better)"
    return Sheet(f"{name}-ranking", caption, [*columns, "seconds per GB"], rows)


_VERDICTS = ("agreement", "f1", "auroc", "ap")
_CUTS = ("threshold", "share", "segments", "tokens", "by_source")
_EXAMPLE = ("score", "selected", "source", "row", "segment", "id", "text")


def _figures(manifest: dict[str, Any], sheets: dict[str, Sheet]) -> str:
    """The tables in reading order."""
    shown = ["<h3>Counts</h3>"]
    for what, sheet in sheets.items():
        if what == "sources":
            first = Sheet(sheet.name, sheet.caption, sheet.columns, sheet.rows[:_ROWS])
            shown.append(plain_table(first))
            left = len(sheet.rows) - _ROWS
            shown.append(f"<p>… and {left:,} more.</p>" if left > 0 else "")
        elif what == "ranking":
            shown += ["<h3>Ranking of methods</h3>", plain_table(sheet)]
        elif what == "cascade":
            shown += ["<h3>Cascade</h3>", plain_table(sheet)]
            shown.append(paragraphs([recall_in_words(manifest["cascade"])]))
        elif what in ("read", "rejects", "clusters"):
            shown.append(plain_table(sheet))
    return "".join(shown)
