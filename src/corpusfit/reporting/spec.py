"""What the page's Vega-Lite charts share: frame, channels, marks, scales."""

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
