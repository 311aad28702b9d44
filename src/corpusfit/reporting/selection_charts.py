"""The charts of one selection: scores, amount, composition, map."""

from __future__ import annotations

from typing import Any

from corpusfit.core.escaping import harmless
from corpusfit.reporting.examples import ON_MAP
from corpusfit.reporting.spec import (
    BAR,
    CLOSE,
    LINE,
    RULE,
    TWENTY,
    Spec,
    channel,
    components,
    lines_high,
    spec,
)

COLOURS = {"target": "#d55e00", "selected": "#0072b2", "not selected": "#8a8a8a"}
"""From the palette of Okabe and Ito, safe for colour-blind readers."""


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
    own = data["cuts"]["own"]
    cut = bins[-1] if own is None else data["cuts"]["threshold"][own]
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
        "mark": {"type": "line", "interpolate": "step-after", "color": COLOURS["target"]},
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


def amount_chart(amount: dict[str, Any]) -> Spec:
    """Held-out bits per word against the share selected, with the interval of the difference."""
    fewest = min(p["bits"] for p in amount["curve"])
    rows = [{**p, "from": fewest + p["low"], "to": fewest + p["high"]} for p in amount["curve"]]
    x = channel("fraction:Q", scale={"type": "log"}, title="share of the corpus sample's words")
    y = {"title": "bits per word (lower is better)", **CLOSE}
    band = {
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {"x": x, "y": channel("from:Q", **y), "y2": channel("to")},
    }
    line = {"mark": LINE, "encoding": {"x": x, "y": channel("bits:Q", **y)}}
    own = {"values": [{"fraction": amount["fraction"]}]}
    return spec(
        "Held-out bits by amount",
        "Bits per word of held-out target text against the share of words selected, with the 95 % "
        "interval of the difference to the fewest, and the share in use.",
        rows,
        layer=[band, line, {"data": own, "mark": RULE, "encoding": {"x": x}}],
    )


def composition_chart(data: dict[str, Any]) -> Spec:
    """Share of each source in the corpus and in the selection.

    Its rows are the data set `composition`. Reference: TADPOLE, Figure 5 (DANA, Table 2).
    """
    wholes = {"corpus": "segments", "selected": "selected"}
    totals = {of: max(1, sum(s[key] for s in data["sources"])) for of, key in wholes.items()}
    rows = [
        {"source": harmless(s["name"]), "of": of, "share": s[key] / totals[of]}
        for s in data["sources"]
        for of, key in wholes.items()
    ]
    largest_first = {"field": "share", "op": "max", "order": "descending"}
    colours = {"domain": list(wholes), "range": [COLOURS["not selected"], COLOURS["selected"]]}
    return spec(
        "Composition by source",
        "Share of each source among the segments of the corpus and of the selection.",
        **lines_high(len(data["sources"]), 26),
        data={"name": "composition", "values": rows},
        mark=BAR,
        encoding={
            "y": channel("source:N", title=None, sort=largest_first),
            "yOffset": channel("of:N"),
            "x": channel("share:Q", title="share of segments", axis={"format": "%"}),
            "color": channel("of:N", title=None, scale=colours),
        },
    )


def map_chart(data: dict[str, Any]) -> Spec:
    """Map of target, selected and other texts in two dimensions; text on hover."""
    groups = list(COLOURS)
    rows = [
        {
            "x": x,
            "y": y,
            "group": "selected" if example["selected"] else "not selected",
            "source": harmless(example["source"]),
            "score": example["score"],
            "text": harmless(example["text"][:ON_MAP]),
        }
        for (x, y), example in zip(data["map"]["corpus"], data["examples"], strict=True)
    ]
    rows += [
        {
            "x": x,
            "y": y,
            "group": "target",
            "score": unit["score"],
            "text": harmless(unit["text"][:ON_MAP]),
        }
        for (x, y), unit in zip(data["map"]["target"], data["targets"], strict=True)
    ]
    colours = {"domain": groups, "range": list(COLOURS.values())}
    return spec(
        "Map of examples",
        "Examples of the corpus and target units by the first two principal components.",
        rows,
        height=420,
        mark={"type": "point", "filled": True, "opacity": 0.8, "size": 36},
        encoding={
            **components(),
            "color": channel("group:N", title=None, scale=colours),
            "shape": channel("group:N", title=None, scale={"domain": groups}),
            "tooltip": [channel(field) for field in ("group:N", "source:N", "score:Q", "text:N")],
        },
    )
