"""Section of the page on one selection: summary, threshold slider, charts, examples, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusfit.core.escaping import harmless
from corpusfit.reporting.charts import (
    BAR,
    RULE,
    TWENTY,
    Spec,
    channel,
    components,
    lines_high,
    spec,
)
from corpusfit.reporting.distribution import LENGTH_SHARES, selection_data
from corpusfit.reporting.examples import MAX_MAP_CHARACTERS
from corpusfit.reporting.part import Part, Sheet
from corpusfit.scoring import registry
from corpusfit.selection.copies import copies_in_words
from corpusfit.selection.folder import SelectionFolder

COLORS = {"target": "#d55e00", "selected": "#0072b2", "not selected": "#8a8a8a"}
"""From the palette of Okabe and Ito, safe for color-blind readers."""


def scores_chart(data: dict[str, Any]) -> Spec:
    """Histogram of scores by source, above and below the threshold, and of the target's units.

    The threshold is the parameter `cut`.
    """
    bins, target = data["scores"]["bins"], data["scores"]["target"]
    rows = [
        {"from": a, "to": b, "source": harmless(source["name"]), "segments": n}
        for source, heights in zip(data["sources"], data["scores"]["sources"], strict=True)
        for a, b, n in zip(bins, bins[1:], heights, strict=False)
        if n
    ]
    units = [
        {"from": a, "to": b, "units": n} for a, b, n in zip(bins, bins[1:], target, strict=False)
    ]
    current = data["cuts"]["own"]
    cut = bins[-1] if current is None else data["cuts"]["threshold"][current]
    x = channel("from:Q", title="score", scale={"nice": False})
    above = {"test": f"datum.to > min(cut, {bins[-2]})", "value": 1.0}
    of_corpus = {
        "data": {"values": rows},
        "mark": {"type": "bar", "binSpacing": 0, "tooltip": True},
        "encoding": {
            "x": {**x, "bin": {"binned": True}},
            "x2": channel("to"),
            "y": channel("segments:Q", aggregate="sum", title="segments"),
            "color": channel("source:N", title=None, scale=TWENTY),
            "opacity": {"condition": above, "value": 0.35},
        },
    }
    of_target = {
        "data": {"values": units},
        "mark": {"type": "line", "interpolate": "step-after", "color": COLORS["target"]},
        "encoding": {"x": x, "y": channel("units:Q", title="target units")},
    }
    rule = {
        "data": {"values": [{}]},
        "transform": [{"calculate": "cut", "as": "from"}],
        "mark": RULE,
        "encoding": {"x": x},
    }
    return spec(
        "Scores",
        "Segments of the corpus by score and source, target units as a line, and the threshold.",
        params=[{"name": "cut", "value": cut}],
        layer=[{"layer": [of_corpus, rule]}, *([of_target] if any(target) else [])],
        resolve={"scale": {"y": "independent"}},
    )


def composition_chart(data: dict[str, Any]) -> Spec:
    """Share of each source in the corpus and in the selection.

    Its rows are the data set `composition`. Reference: TADPOLE, Figure 5 (DANA, Table 2), whose
    shares are of texts. Here they are of words: models are trained on words, and texts of one
    source may be a hundred times as long as those of another.
    """
    wholes = {"corpus": "tokens", "selected": "selected_tokens"}
    totals = {whole: max(1, sum(s[key] for s in data["sources"])) for whole, key in wholes.items()}
    rows = [
        {"source": harmless(s["name"]), "of": whole, "share": s[key] / totals[whole]}
        for s in data["sources"]
        for whole, key in wholes.items()
    ]
    largest_first = {"field": "share", "op": "max", "order": "descending"}
    colors = {"domain": list(wholes), "range": [COLORS["not selected"], COLORS["selected"]]}
    return spec(
        "Composition by source",
        "Share of each source among the words of the corpus and of the selection.",
        **lines_high(len(data["sources"]), 26),
        data={"name": "composition", "values": rows},
        mark=BAR,
        encoding={
            "y": channel("source:N", title=None, sort=largest_first),
            "yOffset": channel("of:N"),
            "x": channel("share:Q", title="share of words", axis={"format": "%"}),
            "color": channel("of:N", title=None, scale=colors),
        },
    )


def map_chart(data: dict[str, Any]) -> Spec:
    """Map of target, selected and other texts in two dimensions; text on hover."""
    groups = list(COLORS)
    rows = [
        {
            "x": x,
            "y": y,
            "group": "selected" if example["selected"] else "not selected",
            "source": harmless(example["source"]),
            "score": example["score"],
            "text": harmless(example["text"][:MAX_MAP_CHARACTERS]),
        }
        for (x, y), example in zip(data["map"]["corpus"], data["examples"], strict=True)
    ]
    rows += [
        {
            "x": x,
            "y": y,
            "group": "target",
            "score": unit["score"],
            "text": harmless(unit["text"][:MAX_MAP_CHARACTERS]),
        }
        for (x, y), unit in zip(data["map"]["target"], data["targets"], strict=True)
    ]
    colors = {"domain": groups, "range": list(COLORS.values())}
    return spec(
        "Map of examples",
        "Examples of the corpus and target units by the first two principal components.",
        rows,
        height=420,
        mark={"type": "point", "filled": True, "opacity": 0.8, "size": 36},
        encoding={
            **components(),
            "color": channel("group:N", title=None, scale=colors),
            "shape": channel("group:N", title=None, scale={"domain": groups}),
            "tooltip": [channel(field) for field in ("group:N", "source:N", "score:Q", "text:N")],
        },
    )


def selected_part(name: str, title: str, path: Path, manifest: dict[str, Any], limit: int) -> Part:
    """The section on one selection; the page can be read without its script."""
    data = selection_data(SelectionFolder(path), manifest, limit)
    charts = {"scores": scores_chart(data), "composition": composition_chart(data)}
    if data["examples"]:
        charts["map"] = map_chart(data)
    all_sheets = {**_counts(manifest), **_lists(data)}
    sheets = {name: sheet for name, sheet in all_sheets.items() if sheet.rows}
    return Part(
        "selection",
        name,
        title,
        _summary(manifest),
        charts,
        sheets,
        manifest,
        data,
        _steps(path, manifest),
    )


def _steps(path: Path, manifest: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """What to do with a selection next."""
    other = "0.05" if manifest["plan"]["choose"]["fraction"] == 0.1 else "0.1"
    adapt = ["corpusfit", "adapt", "--model", "MODEL", "--data", path.as_posix()]
    name = manifest["method"]["name"]
    rank = ["corpusfit", "rank", "--target", "TASK", "--corpus", "CORPUS", "--method", name]
    external = registry.load(name).family == "external"
    first = "These scores know nothing of your task. See first whether they beat random text on it:"
    return [
        *([(first, [*rank, "--method", "moore_lewis"])] if external else []),
        (
            "Train a model on it, without the texts that you test on. The result says how far the "
            "loss on the target's text falls:",
            [*adapt, "--guard", "TASK", "--out", "adapted"],
        ),
        (
            "Select another amount from the same scores:",
            ["corpusfit", "choose", path.as_posix(), "--fraction", other, "--out", "chosen"],
        ),
    ]


def _summary(manifest: dict[str, Any]) -> list[str]:
    """The result of a selection, in sentences."""
    counts, selected = manifest["counts"], manifest["selected"]
    whole = selected.get("of_tokens")  # older versions did not store it
    percent = 100 * selected["tokens"] / max(1, whole or 0)
    without = " without copies" if copies_in_words(selected.get("copies")) else ""
    share = f", {percent:.1f} % of the words{without}" if whole else ""
    sentences = [
        f"{manifest['method']['name']} selected {selected['segments']:,} of "
        f"{counts['segments']:,} segments: about {selected['tokens']:,} word pieces{share}."
    ]
    rows = selected.get("rows", selected["segments"])  # older versions joined none
    if rows < selected["segments"]:
        copies = sum((selected["copies"] or {}).get(kind, 0) for kind in ("exact", "near"))
        documents = max(1, counts["documents"] - copies)
        sentences.append(
            f"Neighbors are joined to {rows:,} texts of {selected['tokens'] / rows:,.0f} word "
            f"pieces on average; documents of the corpus have {whole / documents:,.0f}."
        )
    sentences += manifest["warnings"]
    sentences += _sources_in_words(selected)
    copies = copies_in_words(selected.get("copies"))
    left_out = f", {counts['left_out']:,} left out by `read.where`" if "left_out" in counts else ""
    sentences.append(
        f"Rows read: {counts['rows']:,}, of which {counts['documents']:,} documents scored and "
        f"{counts['rejected']:,} rows rejected{left_out}." + (f" {copies}." if copies else "")
    )
    return [*sentences, *filter(None, [manifest["remark"]])]


def _sources_in_words(selected: dict[str, Any]) -> list[str]:
    """Where most of the words are from, a sentence; nothing of a corpus of one source."""
    by_source = selected["by_source"]
    largest = sorted(by_source, key=lambda name: (-by_source[name]["tokens"], name))[:3]
    of_corpus = sum(n.get("of_tokens", 0) for n in by_source.values())  # older versions lack it
    phrases = []
    for name in largest:
        n = by_source[name]
        if n["selected"]:
            whole = ""
            if of_corpus:
                whole = f", which is {100 * n['of_tokens'] / of_corpus:.0f} % of the corpus"
            percent = 100 * n["tokens"] / max(1, selected["tokens"])
            phrases.append(f"{percent:.0f} % of it comes from {name}{whole}")
    return [f"{'; '.join(phrases)}."] if phrases and len(by_source) > 1 else []


def _counts(manifest: dict[str, Any]) -> dict[str, Sheet]:
    """What was read, rejected and selected."""
    counts, selected = manifest["counts"], manifest["selected"]
    by_source = sorted(selected["by_source"].items(), key=lambda kv: (-kv[1]["tokens"], kv[0]))
    of_corpus = sum(n.get("of_tokens", 0) for _, n in by_source)  # older versions lack it
    taken = max(1, selected["tokens"])
    quotas = selected.get("quota") or []
    clusters = zip(selected.get("by_cluster", []), quotas, strict=True)
    groups = selected.get("groups") or [str(i) for i in range(1, len(quotas) + 1)]
    read = ("rows", "documents", "rejected", "left_out", "units", "segments")
    items = [(k.replace("_", " "), counts[k]) for k in read if k in counts]
    return {
        "read": Sheet("Input", ["item", "count"], items),
        "rejects": Sheet("Rejected rows", ["reason", "rows"], list(counts["reasons"].items())),
        "sources": Sheet(
            "By source",
            [
                "source",
                "segments",
                "words of corpus",
                "selected",
                "word pieces",
                "words of selection",
            ],
            [
                (
                    source,
                    n["segments"],
                    round(n["of_tokens"] / max(1, of_corpus), 4) if of_corpus else None,
                    n["selected"],
                    n["tokens"],
                    round(n["tokens"] / taken, 4),
                )
                for source, n in by_source
            ],
        ),
        "clusters": Sheet(
            "By group" if "groups" in selected else "By cluster",
            [
                "group" if "groups" in selected else "cluster",
                "segments",
                "quota",
                "selected",
                "word pieces",
            ],
            [
                (groups[i], n["segments"], round(quota, 4), n["selected"], n["tokens"])
                for i, (n, quota) in enumerate(clusters)
            ],
        ),
    }


def _lists(data: dict[str, Any]) -> dict[str, Sheet]:
    """Every threshold and every example."""
    cuts, names = data["cuts"], [source["name"] for source in data["sources"]]
    whole = zip(*(cuts[k] for k in ("threshold", "share", "segments", "tokens")), strict=True)
    example = ("score", "selected", "source", "row", "segment", "id", "text")
    lengths = zip(("corpus", "selection"), data["lengths"], strict=False)
    return {
        "lengths": Sheet(
            "Lengths of segments, in word pieces",
            ["of", *(f"{100 * share:.0f} % have at most" for share in LENGTH_SHARES)],
            [(whole, *quantiles) for whole, quantiles in lengths],
        ),
        "cuts": Sheet(
            "Selection at each threshold",
            ["threshold", "share", "segments", "word pieces", *names],
            [(*of_all, *counts) for of_all, counts in zip(whole, cuts["by_source"], strict=True)],
        ),
        "examples": Sheet(
            "Example segments between the thresholds",
            example,
            [[row[k] for k in example] for row in data["examples"]],
        ),
    }
