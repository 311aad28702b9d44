"""Section of the page on one selection: summary, threshold slider, charts, examples, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusfit.reporting.part import Part
from corpusfit.reporting.selection import selection_data
from corpusfit.reporting.selection_charts import (
    amount_chart,
    composition_chart,
    map_chart,
    scores_chart,
)
from corpusfit.reporting.tables import Sheet, rounded
from corpusfit.selection.cascade import recall_in_words
from corpusfit.selection.copies import copies_in_words
from corpusfit.selection.folder import SelectionFolder


def selected_part(name: str, title: str, path: Path, manifest: dict[str, Any], room: int) -> Part:
    """The section on one selection; the page can be read without its script."""
    data = selection_data(SelectionFolder(path), manifest, room)
    charts = {"scores": scores_chart(data), "composition": composition_chart(data)}
    if (manifest.get("amount") or {}).get("curve"):
        charts["amount"] = amount_chart(manifest["amount"])
    if data["examples"]:
        charts["map"] = map_chart(data)
    found = {**_counts(manifest), **_decisions(manifest), **_lists(data)}
    sheets = {name: sheet for name, sheet in found.items() if sheet.rows}
    return Part("selection", name, title, _summary(manifest), charts, sheets, manifest, data)


def _summary(manifest: dict[str, Any]) -> list[str]:
    """The result of a selection, in sentences."""
    counts, selected = manifest["counts"], manifest["selected"]
    by_source = selected["by_source"].items()
    largest = sorted(by_source, key=lambda item: (-item[1]["tokens"], item[0]))[:3]
    where = ", ".join(
        f"{name} ({n['tokens'] / max(1, selected['tokens']):.0%})"
        for name, n in largest
        if n["selected"]
    )
    share = selected["segments"] / max(1, counts["segments"])
    whole = selected.get("of_tokens")  # older versions did not store it
    sentences = [
        f"{manifest['method']['name']} selected {selected['segments']:,} of "
        f"{counts['segments']:,} segments ({share:.1%}), about {selected['tokens']:,} word pieces"
        + (f" ({selected['tokens'] / max(1, whole):.1%})" if whole is not None else "")
        + (f"; largest sources: {where}." if where else "."),
        f"Rows read: {counts['rows']:,}, of which {counts['documents']:,} documents scored and "
        f"{counts['rejected']:,} rows rejected.",
    ]
    copies = copies_in_words(selected.get("copies"))
    sentences += [f"{copies}."] if copies else []
    amount = (manifest.get("amount") or {}).get("reason")
    found = filter(None, [manifest.get("reason"), amount, manifest["remark"]])
    return [*sentences, *found, *manifest["warnings"]]


def _counts(manifest: dict[str, Any]) -> dict[str, Sheet]:
    """What was read, rejected and selected."""
    counts, selected = manifest["counts"], manifest["selected"]
    by_source = sorted(selected["by_source"].items(), key=lambda kv: (-kv[1]["tokens"], kv[0]))
    whole, taken = max(1, counts["segments"]), max(1, selected["tokens"])
    clusters = zip(selected.get("by_cluster", []), selected.get("quota") or [], strict=True)
    read = ("rows", "documents", "rejected", "units", "segments")
    return {
        "read": Sheet("Input", ["item", "count"], [(k, counts[k]) for k in read]),
        "rejects": Sheet("Rejected rows", ["reason", "rows"], list(counts["reasons"].items())),
        "sources": Sheet(
            "By source",
            ["source", "segments", "share of corpus", "selected", "word pieces", "share of words"],
            [
                (
                    source,
                    n["segments"],
                    round(n["segments"] / whole, 4),
                    n["selected"],
                    n["tokens"],
                    round(n["tokens"] / taken, 4),
                )
                for source, n in by_source
            ],
        ),
        "clusters": Sheet(
            "By cluster",
            ["cluster", "segments", "quota", "selected", "word pieces"],
            [
                (str(i), n["segments"], round(quota, 4), n["selected"], n["tokens"])
                for i, (n, quota) in enumerate(clusters, 1)
            ],
        ),
    }


def _decisions(manifest: dict[str, Any]) -> dict[str, Sheet]:
    """What decided the method, the amount and the stages."""
    cascade = manifest["cascade"]
    kept = ("stage", "segments", "passed", "units")
    bits = ("bits", "behind", "low", "high")
    return {
        "ranking": _ranking(manifest["ranking"] or []),
        "amount": Sheet(
            "Held-out bits by amount (lower is better), and the difference to the fewest with its "
            "95 % interval",
            ["fraction", "bits per word", "more than fewest", "interval from", "to"],
            [
                (p["fraction"], *(round(p[k], 4) for k in bits))
                for p in (manifest.get("amount") or {}).get("curve", [])
            ],
        ),
        "cascade": Sheet(
            "Stages of the cascade",
            ["stage", "segments", "passed on", "units", "worker seconds", "units per second"],
            [
                (*(s[k] for k in kept), round(s["seconds"], 1), round(s["units_per_second"]))
                for s in (cascade or {}).get("stages", [])
            ],
            [recall_in_words(cascade)] if cascade else [],
        ),
    }


def _lists(data: dict[str, Any]) -> dict[str, Sheet]:
    """Every threshold and every example."""
    cuts, names = data["cuts"], [source["name"] for source in data["sources"]]
    whole = zip(*(cuts[k] for k in ("threshold", "share", "segments", "tokens")), strict=True)
    example = ("score", "selected", "source", "row", "segment", "id", "text")
    return {
        "cuts": Sheet(
            "Selection at each threshold",
            ["threshold", "share", "segments", "word pieces", *names],
            [(*of_all, *of) for of_all, of in zip(whole, cuts["by_source"], strict=True)],
        ),
        "examples": Sheet(
            "Example segments between the thresholds",
            example,
            [[row[k] for k in example] for row in data["examples"]],
        ),
    }


def _ranking(ranking: list[dict[str, Any]]) -> Sheet:
    """The methods compared on a sample, with the verdicts that were measured."""
    verdicts = [k for k in ("agreement", "f1", "auroc", "ap") if any(v.get(k) for v in ranking)]
    columns = ["method", "family", "bits per word", "more than best", "interval from", "to"]
    columns += [f"{v}{end}" for v in verdicts for end in ("", " sd")]
    rows = []
    for v in ranking:
        figures = [v.get("bits"), *(v.get("behind") or [None] * 3)]
        figures += [figure for k in verdicts for figure in v[k] or (None, None)]
        shown = (rounded(figure, 3) for figure in figures)
        rows.append((v["method"], v["family"], *shown))
    caption = (
        "Methods on this target and corpus: bits per word of held-out target text (lower is "
        "better), difference to the best method and its 95 % interval"
    )
    if verdicts:
        caption += "; mean and standard deviation (sd) over seeds (higher is better)"
    return Sheet(caption, columns, rows)
