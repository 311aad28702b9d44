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

Rows = Sequence[dict[str, Any]]

_KINDS = {"Q": "quantitative", "O": "ordinal", "N": "nominal"}


def _of(field: str, **more: Any) -> Spec:
    """A channel that shows a field, whose kind may follow its name: `loss:Q`, as in Altair."""
    name, _, kind = field.partition(":")
    return {"field": name, **({"type": _KINDS[kind]} if kind else {}), **more}


_TWENTY = {"scheme": "tableau20"}
"""For sources, of which a chart has up to thirteen."""

_LINE = {"type": "line", "point": True, "tooltip": True}
_BAR = {"type": "bar", "tooltip": True}
_RULE = {"type": "rule", "strokeDash": [4, 3], "size": 2}
_CLOSE = {"scale": {"zero": False}}
_LOSS = _of("loss:Q", title="loss, nats per token", **_CLOSE)


def _chart(title: str, description: str, rows: Rows | None = None, **more: Any) -> Spec:
    """A specification with its data, `rows`, unless its layers have their own."""
    return {
        "$schema": SCHEMA,
        "title": harmless(title),
        "description": description,
        "width": "container",
        "height": 300,
        "autosize": {"type": "fit", "contains": "padding"},
        **({} if rows is None else {"data": {"values": list(rows)}}),
        **more,
    }


def _high(lines: int, each: int = 20) -> Spec:
    """Properties of a chart whose height is that of its lines."""
    return {"height": each * lines, "autosize": {"type": "fit-x", "contains": "padding"}}


def _components() -> Spec:
    """Places on a map; only distances have a meaning."""
    axis = {"axis": {"labels": False, "ticks": False}}
    return {
        "x": _of("x:Q", **axis, title="first component"),
        "y": _of("y:Q", **axis, title="second component"),
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
    x = _of("from:Q", title="score", scale={"nice": False})
    above = {"test": f"datum.to > min(cut, {bins[-2]})", "value": 1.0}
    of_corpus = {
        "data": {"values": rows},
        "mark": {"type": "bar", "binSpacing": 0, "tooltip": True},
        "encoding": {
            "x": {**x, "bin": {"binned": True}},
            "x2": _of("to"),
            "y": _of("segments:Q", aggregate="sum", title="segments"),
            "color": _of("source:N", title=None, scale=_TWENTY),
            "opacity": {"condition": above, "value": 0.35},
        },
    }
    of_target = {
        "data": {"values": units},
        "mark": {"type": "line", "interpolate": "step-after", "color": COLOURS["target"]},
        "encoding": {"x": x, "y": _of("units:Q", title="target units")},
    }
    rule = {
        "data": {"values": [{}]},
        "transform": [{"calculate": "cut", "as": "from"}],
        "mark": _RULE,
        "encoding": {"x": x},
    }
    return _chart(
        "Scores",
        "Segments of the corpus by score and source, target units as a line, and the threshold.",
        params=[{"name": "cut", "value": cut}],
        layer=[{"layer": [of_corpus, rule]}, *([of_target] if any(target) else [])],
        resolve={"scale": {"y": "independent"}},
    )


def amount_chart(amount: dict[str, Any]) -> Spec:
    """Held-out bits per word against the share selected, with the interval of the difference.

    Args:
        amount: of the manifest, with a curve.
    """
    fewest = min(p["bits"] for p in amount["curve"])
    rows = [{**p, "from": fewest + p["low"], "to": fewest + p["high"]} for p in amount["curve"]]
    x = _of("fraction:Q", scale={"type": "log"}, title="share of the corpus sample's words")
    y = {"title": "bits per word (lower is better)", **_CLOSE}
    band = {
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {"x": x, "y": _of("from:Q", **y), "y2": _of("to")},
    }
    line = {"mark": _LINE, "encoding": {"x": x, "y": _of("bits:Q", **y)}}
    own = {"values": [{"fraction": amount["fraction"]}]}
    return _chart(
        "Held-out bits by amount",
        "Bits per word of held-out target text against the share of words selected, with the 95 % "
        "interval of the difference to the fewest, and the share in use.",
        rows,
        layer=[band, line, {"data": own, "mark": _RULE, "encoding": {"x": x}}],
    )


def composition_chart(data: dict[str, Any]) -> Spec:
    """Share of each source in the corpus and in the selection.

    Its rows are the data set `composition`. Reference: TADPOLE, Table 2.
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
    return _chart(
        "Composition by source",
        "Share of each source among the segments of the corpus and of the selection.",
        **_high(len(data["sources"]), 26),
        data={"name": "composition", "values": rows},
        mark=_BAR,
        encoding={
            "y": _of("source:N", title=None, sort=largest_first),
            "yOffset": _of("of:N"),
            "x": _of("share:Q", title="share of segments", axis={"format": "%"}),
            "color": _of("of:N", title=None, scale=colours),
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
    return _chart(
        "Map of examples",
        "Examples of the corpus and target units by the first two principal components.",
        rows,
        height=420,
        mark={"type": "point", "filled": True, "opacity": 0.8, "size": 36},
        encoding={
            **_components(),
            "color": _of("group:N", title=None, scale=colours),
            "shape": _of("group:N", title=None, scale={"domain": groups}),
            "tooltip": [_of(field) for field in ("group:N", "source:N", "score:Q", "text:N")],
        },
    )


def training_chart(rows: Rows, title: str, by: str) -> Spec:
    """Loss by step: rows of model, text, step, loss; one line for each value of the field `by`."""
    return _chart(
        title,
        "Loss on held-out text by training step; lower is better.",
        rows,
        mark=_LINE,
        encoding={
            "x": _of("step:Q", title="step"),
            "y": _LOSS,
            "color": _of(f"{by}:N", title=None),
        },
    )


def trials_chart(rows: Rows) -> Spec:
    """Loss by step of trials: rows of trial, setting, method, rung, step, loss."""
    return _chart(
        "Held-out loss of every trial",
        "Loss on held-out text of the target by training step, one line per trial.",
        rows,
        mark=_LINE,
        encoding={
            "x": _of("step:Q", title="step"),
            "y": _LOSS,
            "color": _of("method:N", title=None, scale=_TWENTY),
            "detail": _of("trial"),
            "strokeWidth": _of("rung:O", title="rung", scale={"range": [1, 3]}),
            "tooltip": [_of(field) for field in ("trial", "step", "loss")],
        },
    )


def bits_chart(rows: Rows) -> Spec:
    """Loss after a trial by the method's held-out bits: rows of setting, method, bits, loss."""
    return _chart(
        "Held-out bits and loss after adaptation",
        "Loss after a short adaptation by the method's held-out bits per word.",
        rows,
        mark={"type": "point", "filled": True, "size": 70},
        encoding={
            "x": _of("bits:Q", title="held-out bits per word", **_CLOSE),
            "y": _LOSS,
            "color": _of("method:N", title=None, scale=_TWENTY),
            "tooltip": [_of(field) for field in ("setting", "bits", "loss")],
        },
    )


def results_chart(rows: Rows, title: str) -> Spec:
    """Scores with their intervals: rows of column, mean, low, high, in points."""
    low = _of("low:Q", **_CLOSE, title="test score, points (95 % interval)")
    interval = {"mark": {"type": "rule", "size": 2}, "encoding": {"x": low, "x2": _of("high")}}
    mean = {
        "mark": {"type": "point", "filled": True, "size": 70, "tooltip": True},
        "encoding": {"x": _of("mean:Q", **_CLOSE)},
    }
    return _chart(
        title,
        "Mean test scores with 95 % intervals by model; higher is better.",
        rows,
        **_high(len(rows)),
        encoding={"y": _of("column:N", title=None, sort=None)},
        layer=[interval, mean],
    )


def curve_chart(rows: Rows, title: str) -> Spec:
    """Scores by number of training examples: rows of column, size, mean, low, high, in points."""
    x = _of("size:Q", scale={"type": "log"}, title="training examples")
    colour = _of("column:N", title=None)
    low = _of("low:Q", **_CLOSE, title="test score, points")
    band = {
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {"x": x, "y": low, "y2": _of("high"), "color": colour},
    }
    mean = {"x": x, "y": _of("mean:Q", **_CLOSE), "color": colour}
    return _chart(
        title,
        "Mean test scores with 95 % intervals by number of training examples; higher is better.",
        rows,
        layer=[band, {"mark": _LINE, "encoding": mean}],
    )


def overlap_chart(rows: Rows) -> Spec:
    """Share of one selection that another also contains: rows of one, other, share."""
    return _squares(
        rows,
        "Overlap of selections",
        "Share of the row's segments that the column's selection also contains.",
        ("one", "segments of"),
        ("other", "also in"),
        "share",
    )


def confusion_chart(rows: Rows) -> Spec:
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


def proximity_chart(rows: Rows) -> Spec:
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
    rows: Rows,
    title: str,
    description: str,
    y: tuple[str, str | None],
    x: tuple[str, str | None],
    value: str,
    written: str = ".0%",
) -> Spec:
    """A heat map: a square for each pair with its value; higher values are darker."""
    shade = _of(f"{value}:Q", scale={"domain": [0, 1.5], "scheme": "blues"}, legend=None)
    number = _of(f"{value}:Q", format=written)
    return _chart(
        title,
        description,
        rows,
        **_high(len({row[y[0]] for row in rows})),
        encoding={
            "y": _of(f"{y[0]}:N", sort=None, title=y[1]),
            "x": _of(f"{x[0]}:N", sort=None, title=x[1], axis={"labelAngle": -30}),
        },
        layer=[
            {"mark": {"type": "rect", "tooltip": True}, "encoding": {"color": shade}},
            {"mark": {"type": "text", "color": "black"}, "encoding": {"text": number}},
        ],
    )


def clusters_chart(rows: Rows, outlines: Rows, title: str) -> Spec:
    """Units by the first two components, and an ellipse for each cluster.

    Reference: Aharoni and Goldberg (2020), Figure 3.

    Args:
        rows: of x, y, cluster, domain, text.
        outlines: of x, y, cluster, step: the points of each ellipse in order.
        title: of the chart.
    """
    scheme = {"scheme": "tableau10"} if len({row["cluster"] for row in rows}) <= 10 else _TWENTY
    shared = {**_components(), "color": _of("cluster:N", title="cluster", scale=scheme)}
    tooltip = [_of(field) for field in ("cluster:N", "domain:N", "text:N")]
    points = {
        "data": {"values": list(rows)},
        "mark": {"type": "point", "filled": True, "opacity": 0.6, "size": 22},
        "encoding": {**shared, "tooltip": tooltip},
    }
    ellipses = {
        "data": {"values": list(outlines)},
        "mark": {"type": "line", "strokeWidth": 2, "interpolate": "linear-closed"},
        "encoding": {**shared, "order": _of("step:Q")},
    }
    return _chart(
        title,
        "Units by the first two principal components, coloured by cluster; each ellipse is two "
        "standard deviations around a cluster's mean.",
        height=420,
        layer=[points, ellipses],
    )


def shares_chart(rows: Rows) -> Spec:
    """Composition of selections: rows of run, source, share."""
    return _chart(
        "Composition of each selection",
        "Share of each source in the corpus and in each selection.",
        rows,
        **_high(len({row["run"] for row in rows})),
        mark=_BAR,
        encoding={
            "y": _of("run:N", title=None, sort=None),
            "x": _of("share:Q", title="share of segments", axis={"format": "%"}),
            "color": _of("source:N", title=None, scale=_TWENTY),
        },
    )
