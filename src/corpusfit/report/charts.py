"""The page's charts as Vega-Lite specifications: one function for each chart, data included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corpusfit.report.escaping import harmless
from corpusfit.report.examples import ON_MAP
from corpusfit.report.part import Spec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Version of the language; nothing is fetched from this address."""

COLOURS = {"target": "#d55e00", "selected": "#0072b2", "not selected": "#8a8a8a"}
"""From the palette of Okabe and Ito, safe for colour-blind readers."""

_TWENTY = {"scheme": "tableau20"}
"""For sources, of which a chart has up to thirteen."""


def _rows(count: int, each: int = 20) -> Spec:
    """Properties of a chart whose height is that of its rows."""
    return {"height": each * count, "autosize": {"type": "fit-x", "contains": "padding"}}


def _chart(title: str, description: str, **more: Any) -> Spec:
    return {
        "$schema": SCHEMA,
        "title": harmless(title),
        "description": description,
        "width": "container",
        "height": 300,
        "autosize": {"type": "fit", "contains": "padding"},
        **more,
    }


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
    x = {"field": "from", "type": "quantitative", "title": "score", "scale": {"nice": False}}
    of_corpus = {
        "data": {"values": rows},
        "mark": {"type": "bar", "binSpacing": 0, "tooltip": True},
        "encoding": {
            "x": {**x, "bin": {"binned": True}},
            "x2": {"field": "to"},
            "y": {
                "field": "segments",
                "aggregate": "sum",
                "type": "quantitative",
                "title": "segments",
            },
            "color": {"field": "source", "type": "nominal", "title": None, "scale": _TWENTY},
            "opacity": {
                "condition": {"test": f"datum.to > min(cut, {bins[-2]})", "value": 1.0},
                "value": 0.35,
            },
        },
    }
    of_target = {
        "data": {"values": units},
        "mark": {"type": "line", "interpolate": "step-after", "color": COLOURS["target"]},
        "encoding": {
            "x": x,
            "y": {"field": "units", "type": "quantitative", "title": "target units"},
        },
    }
    rule = {
        "data": {"values": [{}]},
        "transform": [{"calculate": "cut", "as": "from"}],
        "mark": {"type": "rule", "strokeDash": [4, 3], "size": 2},
        "encoding": {"x": x},
    }
    layers: list[Spec] = [{"layer": [of_corpus, rule]}]
    if any(target):
        layers.append(of_target)
    return _chart(
        "Scores",
        "Segments of the corpus by score and source, target units as a line, and the threshold.",
        params=[{"name": "cut", "value": cut}],
        layer=layers,
        resolve={"scale": {"y": "independent"}},
    )


def amount_chart(amount: dict[str, Any]) -> Spec:
    """Held-out bits per word against the share selected, with the interval of the difference.

    Args:
        amount: of the manifest, with a curve.
    """
    fewest = min(p["bits"] for p in amount["curve"])
    rows = [{**p, "from": fewest + p["low"], "to": fewest + p["high"]} for p in amount["curve"]]
    scale = {"zero": False}
    x = {
        "field": "fraction",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": "share of the corpus sample's words",
    }
    y = {"type": "quantitative", "scale": scale, "title": "bits per word (lower is better)"}
    band = {
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {"x": x, "y": {"field": "from", **y}, "y2": {"field": "to"}},
    }
    line = {
        "mark": {"type": "line", "point": True, "tooltip": True},
        "encoding": {"x": x, "y": {"field": "bits", **y}},
    }
    rule = {
        "data": {"values": [{"fraction": amount["fraction"]}]},
        "mark": {"type": "rule", "strokeDash": [4, 3], "size": 2},
        "encoding": {"x": x},
    }
    return _chart(
        "Held-out bits by amount",
        "Bits per word of held-out target text against the share of words selected, with the 95 % "
        "interval of the difference to the fewest, and the share in use.",
        data={"values": rows},
        layer=[band, line, rule],
    )


def composition_chart(data: dict[str, Any]) -> Spec:
    """Share of each source in the corpus and in the selection.

    Its rows are the data set `composition`. Reference: TADPOLE, Table 2.
    """
    corpus = max(1, sum(s["segments"] for s in data["sources"]))
    selected = max(1, sum(s["selected"] for s in data["sources"]))
    rows = [
        {"source": harmless(s["name"]), "of": of, "share": n / total}
        for s in data["sources"]
        for of, n, total in (
            ("corpus", s["segments"], corpus),
            ("selected", s["selected"], selected),
        )
    ]
    return _chart(
        "Composition by source",
        "Share of each source among the segments of the corpus and of the selection.",
        **_rows(len(data["sources"]), 26),
        data={"name": "composition", "values": rows},
        mark={"type": "bar", "tooltip": True},
        encoding={
            "y": {
                "field": "source",
                "type": "nominal",
                "title": None,
                "sort": {"field": "share", "op": "max", "order": "descending"},
            },
            "yOffset": {"field": "of", "type": "nominal"},
            "x": {
                "field": "share",
                "type": "quantitative",
                "title": "share of segments",
                "axis": {"format": "%"},
            },
            "color": {
                "field": "of",
                "type": "nominal",
                "title": None,
                "scale": {
                    "domain": ["corpus", "selected"],
                    "range": [COLOURS["not selected"], COLOURS["selected"]],
                },
            },
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
    axis = {"type": "quantitative", "axis": {"labels": False, "ticks": False}}
    return _chart(
        "Map of examples",
        "Examples of the corpus and target units by the first two principal components.",
        height=420,
        data={"values": rows},
        mark={"type": "point", "filled": True, "opacity": 0.8, "size": 36},
        encoding={
            "x": {"field": "x", **axis, "title": "first component"},
            "y": {"field": "y", **axis, "title": "second component"},
            "color": {
                "field": "group",
                "type": "nominal",
                "title": None,
                "scale": {"domain": groups, "range": list(COLOURS.values())},
            },
            "shape": {
                "field": "group",
                "type": "nominal",
                "title": None,
                "scale": {"domain": groups},
            },
            "tooltip": [
                {"field": name, "type": kind}
                for name, kind in (
                    ("group", "nominal"),
                    ("source", "nominal"),
                    ("score", "quantitative"),
                    ("text", "nominal"),
                )
            ],
        },
    )


def training_chart(rows: Sequence[dict[str, Any]], title: str, by: str) -> Spec:
    """Loss by step: rows of model, text, step, loss; one line for each value of the field `by`."""
    return _chart(
        title,
        "Loss on held-out text by training step; lower is better.",
        data={"values": list(rows)},
        mark={"type": "line", "point": True, "tooltip": True},
        encoding={
            "x": {"field": "step", "type": "quantitative", "title": "step"},
            "y": _LOSS,
            "color": {"field": by, "type": "nominal", "title": None},
        },
    )


def trials_chart(rows: Sequence[dict[str, Any]]) -> Spec:
    """Loss by step of trials: rows of trial, setting, method, rung, step, loss."""
    return _chart(
        "Held-out loss of every trial",
        "Loss on held-out text of the target by training step, one line per trial.",
        data={"values": list(rows)},
        mark={"type": "line", "point": True, "tooltip": True},
        encoding={
            "x": {"field": "step", "type": "quantitative", "title": "step"},
            "y": _LOSS,
            "color": {"field": "method", "type": "nominal", "title": None, "scale": _TWENTY},
            "detail": {"field": "trial"},
            "strokeWidth": {
                "field": "rung",
                "type": "ordinal",
                "title": "rung",
                "scale": {"range": [1, 3]},
            },
            "tooltip": [{"field": name} for name in ("trial", "step", "loss")],
        },
    )


def bits_chart(rows: Sequence[dict[str, Any]]) -> Spec:
    """Loss after a trial by the method's held-out bits: rows of setting, method, bits, loss."""
    return _chart(
        "Held-out bits and loss after adaptation",
        "Loss after a short adaptation by the method's held-out bits per word.",
        data={"values": list(rows)},
        mark={"type": "point", "filled": True, "size": 70},
        encoding={
            "x": {
                "field": "bits",
                "type": "quantitative",
                "title": "held-out bits per word",
                "scale": {"zero": False},
            },
            "y": _LOSS,
            "color": {"field": "method", "type": "nominal", "title": None, "scale": _TWENTY},
            "tooltip": [{"field": name} for name in ("setting", "bits", "loss")],
        },
    )


_LOSS = {
    "field": "loss",
    "type": "quantitative",
    "title": "loss, nats per token",
    "scale": {"zero": False},
}


def results_chart(rows: Sequence[dict[str, Any]], title: str) -> Spec:
    """Scores with their intervals: rows of column, mean, low, high, in points."""
    x = {"type": "quantitative", "scale": {"zero": False}}
    interval = {
        "mark": {"type": "rule", "size": 2},
        "encoding": {
            "x": {"field": "low", **x, "title": "test score, points (95 % interval)"},
            "x2": {"field": "high"},
        },
    }
    mean = {
        "mark": {"type": "point", "filled": True, "size": 70, "tooltip": True},
        "encoding": {"x": {"field": "mean", **x}},
    }
    return _chart(
        title,
        "Mean test scores with 95 % intervals by model; higher is better.",
        **_rows(len(rows)),
        data={"values": list(rows)},
        encoding={"y": {"field": "column", "type": "nominal", "title": None, "sort": None}},
        layer=[interval, mean],
    )


def curve_chart(rows: Sequence[dict[str, Any]], title: str) -> Spec:
    """Scores by number of training examples: rows of column, size, mean, low, high, in points."""
    x = {
        "field": "size",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": "training examples",
    }
    colour = {"field": "column", "type": "nominal", "title": None}
    y = {"type": "quantitative", "scale": {"zero": False}}
    band = {
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {
            "x": x,
            "y": {"field": "low", **y, "title": "test score, points"},
            "y2": {"field": "high"},
            "color": colour,
        },
    }
    line = {
        "mark": {"type": "line", "point": True, "tooltip": True},
        "encoding": {"x": x, "y": {"field": "mean", **y}, "color": colour},
    }
    return _chart(
        title,
        "Mean test scores with 95 % intervals by number of training examples; higher is better.",
        data={"values": list(rows)},
        layer=[band, line],
    )


def overlap_chart(rows: Sequence[dict[str, Any]]) -> Spec:
    """Share of one selection that another also contains: rows of one, other, share."""
    return _squares(
        rows,
        "Overlap of selections",
        "Share of the row's segments that the column's selection also contains.",
        ("one", "segments of"),
        ("other", "also in"),
        "share",
    )


def confusion_chart(rows: Sequence[dict[str, Any]]) -> Spec:
    """Share of each domain in each cluster: rows of cluster, domain, share.

    Reference: Aharoni and Goldberg (2020), Figure 2.
    """
    return _squares(
        rows,
        "Clusters and domains",
        "Share of each domain's units in each cluster.",
        ("domain", "units of"),
        ("cluster", "in cluster"),
        "share",
    )


def proximity_chart(rows: Sequence[dict[str, Any]]) -> Spec:
    """Cosine between the centroids of domains: rows of one, other, cosine.

    Reference: Aharoni and Goldberg (2020), section 3.2.
    """
    return _squares(
        rows,
        "Proximity of domains",
        "Cosine between the centroids of each two domains.",
        ("one", None),
        ("other", None),
        "cosine",
        ".2f",
    )


def _squares(
    rows: Sequence[dict[str, Any]],
    title: str,
    description: str,
    y: tuple[str, str | None],
    x: tuple[str, str | None],
    value: str,
    written: str = ".0%",
) -> Spec:
    """A heat map: a square for each pair with its value; higher values are darker."""
    share = {"field": value, "type": "quantitative"}
    axis = {"type": "nominal", "sort": None}
    squares = {
        "mark": {"type": "rect", "tooltip": True},
        "encoding": {
            "color": {**share, "scale": {"domain": [0, 1.5], "scheme": "blues"}, "legend": None}
        },
    }
    words = {
        "mark": {"type": "text", "color": "black"},
        "encoding": {"text": {**share, "format": written}},
    }
    return _chart(
        title,
        description,
        **_rows(len({row[y[0]] for row in rows})),
        data={"values": list(rows)},
        encoding={
            "y": {"field": y[0], **axis, "title": y[1]},
            "x": {"field": x[0], **axis, "title": x[1], "axis": {"labelAngle": -30}},
        },
        layer=[squares, words],
    )


def clusters_chart(
    rows: Sequence[dict[str, Any]], outlines: Sequence[dict[str, Any]], title: str
) -> Spec:
    """Units by the first two components, and an ellipse for each cluster.

    Reference: Aharoni and Goldberg (2020), Figure 3.

    Args:
        rows: of x, y, cluster, domain, text.
        outlines: of x, y, cluster, step: the points of each ellipse in order.
        title: of the chart.
    """
    axis = {"type": "quantitative", "axis": {"labels": False, "ticks": False}}
    x = {"field": "x", **axis, "title": "first component"}
    y = {"field": "y", **axis, "title": "second component"}
    scheme = {"scheme": "tableau10"} if len({row["cluster"] for row in rows}) <= 10 else _TWENTY
    colour = {"field": "cluster", "type": "nominal", "title": "cluster", "scale": scheme}
    points = {
        "data": {"values": list(rows)},
        "mark": {"type": "point", "filled": True, "opacity": 0.6, "size": 22},
        "encoding": {
            "x": x,
            "y": y,
            "color": colour,
            "tooltip": [
                {"field": name, "type": "nominal"} for name in ("cluster", "domain", "text")
            ],
        },
    }
    ellipses = {
        "data": {"values": list(outlines)},
        "mark": {"type": "line", "strokeWidth": 2, "interpolate": "linear-closed"},
        "encoding": {
            "x": x,
            "y": y,
            "color": colour,
            "order": {"field": "step", "type": "quantitative"},
        },
    }
    return _chart(
        title,
        "Units by the first two principal components, coloured by cluster; each ellipse is two "
        "standard deviations around a cluster's mean.",
        height=420,
        layer=[points, ellipses],
    )


def shares_chart(rows: Sequence[dict[str, Any]]) -> Spec:
    """Composition of selections: rows of run, source, share."""
    return _chart(
        "Composition of each selection",
        "Share of each source in the corpus and in each selection.",
        **_rows(len({row["run"] for row in rows})),
        data={"values": list(rows)},
        mark={"type": "bar", "tooltip": True},
        encoding={
            "y": {"field": "run", "type": "nominal", "title": None, "sort": None},
            "x": {
                "field": "share",
                "type": "quantitative",
                "title": "share of segments",
                "axis": {"format": "%"},
            },
            "color": {"field": "source", "type": "nominal", "title": None, "scale": _TWENTY},
        },
    )
