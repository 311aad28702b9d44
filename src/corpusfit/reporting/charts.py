"""The page's Vega-Lite charts except a selection's: one function for each, data included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corpusfit.core.escaping import harmless

Spec = dict[str, Any]
"""A Vega-Lite specification with its data inside."""

Rows = Sequence[dict[str, Any]]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Version of the language; nothing is fetched from this address."""

TWENTY = {"scheme": "tableau20"}
"""For sources, of which a chart has up to thirteen."""

CLOSE = {"scale": {"zero": False}}
LINE = {"type": "line", "point": True, "tooltip": True}
BAR = {"type": "bar", "tooltip": True}
RULE = {"type": "rule", "strokeDash": [4, 3], "size": 2}

_KINDS = {"Q": "quantitative", "O": "ordinal", "N": "nominal"}


def spec(title: str, description: str, rows: Rows | None = None, **more: Any) -> Spec:
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


def lines_high(lines: int, each: int = 20) -> Spec:
    """Properties of a chart whose height is that of its lines, `each` in pixels."""
    return {"height": each * lines, "autosize": {"type": "fit-x", "contains": "padding"}}


def channel(field: str, **more: Any) -> Spec:
    """A channel that shows a field, whose kind may follow its name: `loss:Q`, as in Altair."""
    name, _, kind = field.partition(":")
    return {"field": name, **({"type": _KINDS[kind]} if kind else {}), **more}


def components() -> Spec:
    """Places on a map; only distances have a meaning."""
    axis = {"axis": {"labels": False, "ticks": False}}
    return {
        "x": channel("x:Q", **axis, title="first component"),
        "y": channel("y:Q", **axis, title="second component"),
    }


_LOSS = channel("loss:Q", title="loss, nats", **CLOSE)


def training_chart(rows: Rows, title: str, by: str) -> Spec:
    """Loss by step: rows of model, text, step, loss; one line for each value of the field `by`."""
    return spec(
        title,
        "Loss on held-out text by training step; lower is better.",
        rows,
        mark=LINE,
        encoding={
            "x": channel("step:Q", title="step"),
            "y": _LOSS,
            "color": channel(f"{by}:N", title=None),
        },
    )


def results_chart(rows: Rows, title: str, unit: str = "points") -> Spec:
    """Scores with their intervals: rows of column, mean, low, high, in points or another unit."""
    low = channel("low:Q", **CLOSE, title=f"test score, {unit} (95 % interval)")
    interval = {"mark": {"type": "rule", "size": 2}, "encoding": {"x": low, "x2": channel("high")}}
    mean = {
        "mark": {"type": "point", "filled": True, "size": 70, "tooltip": True},
        "encoding": {"x": channel("mean:Q", **CLOSE)},
    }
    return spec(
        title,
        "Mean test scores with 95 % intervals by model; "
        f"{'higher' if unit == 'points' else 'lower'} is better.",
        rows,
        **lines_high(len(rows)),
        encoding={"y": channel("column:N", title=None, sort=None)},
        layer=[interval, mean],
    )


def gains_chart(rows: Rows, measure: str, unit: str) -> Spec:
    """What a selection gains, with intervals and a line at 0: rows of over, mean, low, high."""
    shown = {"test": "datum.low > 0 || datum.high < 0", "value": "#0072b2"}
    line = {
        "y": channel("over:N", title=None, sort=None),
        "color": {"condition": shown, "value": "#8a8a8a"},
    }
    axis = {"tickCount": 8}
    low = channel("low:Q", title=f"gain in {unit} (95 % interval)", axis=axis)
    return spec(
        f"Gain of the selection: {measure}",
        "Means with 95 % intervals, in blue where the interval excludes 0; higher is better.",
        rows,
        **lines_high(len(rows), 30),
        layer=[
            {
                "mark": {"type": "rule", "size": 3},
                "encoding": {**line, "x": low, "x2": channel("high")},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "tooltip": True},
                "encoding": {**line, "x": channel("mean:Q")},
            },
            {"mark": RULE, "encoding": {"x": {"datum": 0}}},
        ],
    )


def curve_chart(rows: Rows, title: str, unit: str = "points") -> Spec:
    """Scores by number of training examples: rows of column, size, mean, low, high, in a unit."""
    x = channel("size:Q", scale={"type": "log"}, title="training examples")
    color = channel("column:N", title=None)
    low = channel("low:Q", **CLOSE, title=f"test score, {unit}")
    band = {
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {"x": x, "y": low, "y2": channel("high"), "color": color},
    }
    mean = {"x": x, "y": channel("mean:Q", **CLOSE), "color": color}
    return spec(
        title,
        "Mean test scores with 95 % intervals by number of training examples; "
        f"{'higher' if unit == 'points' else 'lower'} is better.",
        rows,
        layer=[band, {"mark": LINE, "encoding": mean}],
    )


def squares_chart(
    rows: Rows,
    title: str,
    description: str,
    y: tuple[str, str | None],
    x: tuple[str, str | None],
    value: str = "share",
    written: str = ".0%",
) -> Spec:
    """A heat map: a square for each pair with its value; higher values are darker."""
    shade = channel(f"{value}:Q", scale={"domain": [0, 1.5], "scheme": "blues"}, legend=None)
    number = channel(f"{value}:Q", format=written)
    return spec(
        title,
        description,
        rows,
        **lines_high(len({row[y[0]] for row in rows})),
        encoding={
            "y": channel(f"{y[0]}:N", sort=None, title=y[1]),
            "x": channel(f"{x[0]}:N", sort=None, title=x[1], axis={"labelAngle": -30}),
        },
        layer=[
            {"mark": {"type": "rect", "tooltip": True}, "encoding": {"color": shade}},
            {"mark": {"type": "text", "color": "black"}, "encoding": {"text": number}},
        ],
    )


def clusters_chart(rows: Rows, outlines: Rows) -> Spec:
    """Units by the first two components, and an ellipse for each cluster.

    Reference: Aharoni and Goldberg (2020), Figure 3.
    """
    scheme = {"scheme": "tableau10"} if len({row["cluster"] for row in rows}) <= 10 else TWENTY
    shared = {**components(), "color": channel("cluster:N", title="cluster", scale=scheme)}
    tooltip = [channel(field) for field in ("cluster:N", "domain:N", "text:N")]
    points = {
        "data": {"values": list(rows)},
        "mark": {"type": "point", "filled": True, "opacity": 0.6, "size": 22},
        "encoding": {**shared, "tooltip": tooltip},
    }
    ellipses = {
        "data": {"values": list(outlines)},
        "mark": {"type": "line", "strokeWidth": 2, "interpolate": "linear-closed"},
        "encoding": {**shared, "order": channel("step:Q")},
    }
    return spec(
        "Domains",
        "Units by the first two principal components, colored by cluster; each ellipse is two "
        "standard deviations around a cluster's mean.",
        height=420,
        layer=[points, ellipses],
    )


def shares_chart(rows: Rows) -> Spec:
    """Composition of selections: rows of run, source, share."""
    return spec(
        "Composition of each selection",
        "Share of each source in the corpus and in each selection.",
        rows,
        **lines_high(len({row["run"] for row in rows})),
        mark=BAR,
        encoding={
            "y": channel("run:N", title=None, sort=None),
            "x": channel("share:Q", title="share of words", axis={"format": "%"}),
            "color": channel("source:N", title=None, scale=TWENTY),
        },
    )
