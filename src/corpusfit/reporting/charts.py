"""The page's charts as SVG, one function for each: without scripts, the same bytes each time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from corpusfit.core.escaping import harmless

COLORS = {"selection": "#0072b2", "random": "#8a8a8a"}
"""From the palette of Okabe and Ito, safe for color-blind readers."""

_WIDTH = 480
_LEFT = 70.0
_RIGHT = 20.0
_TOP = 30.0
_BOTTOM = 45.0
"""Margins for the axes, the title and the labels."""

_TICKS = 6
"""Most ticks of an axis, about."""

_LINE = 36
"""Height of a line of a chart whose height is that of its lines."""

_BAR = 12
"""Height of a bar of such a line."""

_LETTERS = 40
"""Most letters of a name."""

_LETTER = 6.5
"""Width of a letter, about."""


@dataclass(frozen=True)
class Axis:
    """Where values from `low` to `high` stand, from `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Round numbers: steps of 1, 2 or 5 times a power of ten."""
        span = (self.high - self.low) or 1.0
        power = 10.0 ** math.floor(math.log10(span / _TICKS))
        step = next(power * n for n in (1, 2, 5, 10) if span / (power * n) <= _TICKS)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [n * step for n in range(first, last + 1)]


@dataclass
class Drawing:
    """An SVG that is being drawn; texts and attributes are escaped."""

    title: str
    description: str
    height: float
    width: float = _WIDTH
    root: ET.Element = field(init=False)

    def __post_init__(self) -> None:
        self.root = ET.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {self.width:g} {self.height:g}",
                "role": "img",
                "aria-label": harmless(f"{self.title}. {self.description}"),
                "font-family": "system-ui, sans-serif",
                "font-size": "12",
                "fill": "currentColor",
            },
        )
        self.text(self.title, _LEFT, 16, font_weight="bold")

    def add(self, name: str, text: str = "", title: str = "", /, **attributes: str | float) -> None:
        """An element, with a title to point at; numbers have a tenth of a pixel.

        `_` in the name of an attribute stands for `-`.
        """
        plain = {
            key.replace("_", "-"): harmless(value) if isinstance(value, str) else f"{value:.1f}"
            for key, value in attributes.items()
        }
        element = ET.SubElement(self.root, name, plain)
        element.text = harmless(text) or None
        if title:
            ET.SubElement(element, "title").text = harmless(title)

    def text(self, text: str, x: float, y: float, **attributes: str | float) -> None:
        """A text whose line stands at a place."""
        self.add("text", text, x=x, y=y, **attributes)

    def line(self, x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> None:
        """A line; gray unless told otherwise."""
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, **{"stroke": "#8a8a8a", **attributes})

    def x_axis(self, axis: Axis, title: str) -> None:
        """An axis at the foot."""
        foot = self.height - _BOTTOM
        self.line(axis.begin, foot, axis.end, foot)
        for tick in axis.ticks():
            self.line(axis.at(tick), foot, axis.at(tick), foot + 4)
            self.text(f"{tick:,.6g}", axis.at(tick), foot + 17, text_anchor="middle")
        self.text(title, (axis.begin + axis.end) / 2, foot + 36, text_anchor="middle")

    def y_axis(self, axis: Axis, title: str) -> None:
        """An axis at the left, with its title above it."""
        for tick in axis.ticks():
            self.line(_LEFT, axis.at(tick), self.width - _RIGHT, axis.at(tick), stroke_opacity=0.3)
            self.text(f"{tick:,.6g}", _LEFT - 6, axis.at(tick) + 4, text_anchor="end")
        self.text(title, self.width - _RIGHT, 16, text_anchor="end")

    def curve(self, points: Sequence[tuple[float, float]], color: str) -> None:
        """A line through some places."""
        listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add("polyline", points=listed, fill="none", stroke=color, stroke_width=2)

    def svg(self) -> str:
        """The finished drawing."""
        return ET.tostring(self.root, encoding="unicode")


def scores_chart(bins: Sequence[float], heights: Sequence[int], threshold: float | None) -> str:
    """Histogram of the segments' scores.

    Bars at or above the threshold are in full color, all of them where there is none.
    """
    drawing = Drawing(
        "Scores",
        "Segments of the corpus by score, and the threshold.",
        280,
    )
    foot = drawing.height - _BOTTOM
    x = Axis(bins[0], bins[-1], _LEFT, _WIDTH - _RIGHT)
    y = Axis(0, max(1, *heights), foot, _TOP)
    drawing.y_axis(y, "segments")
    for low, high, height in zip(bins, bins[1:], heights, strict=False):
        above = threshold is None or high > min(threshold, bins[-2])
        drawing.add(
            "rect",
            "",
            f"{low:,.4g} to {high:,.4g}: {height:,} segments",
            x=x.at(low),
            y=y.at(height),
            width=x.at(high) - x.at(low),
            height=foot - y.at(height),
            fill=COLORS["selection"],
            fill_opacity=1.0 if above else 0.35,
        )
    if threshold is not None and bins[0] <= threshold <= bins[-1]:
        at = x.at(threshold)
        drawing.line(at, _TOP, at, foot, stroke="currentColor", stroke_dasharray="4 3")
    drawing.x_axis(x, "score")
    return drawing.svg()


def shares_chart(shares: Mapping[str, tuple[float, float]]) -> str:
    """Shares of the sources among the words of the corpus and of the selection, by name.

    Reference: TADPOLE, Figure 5 (DANA, Table 2), whose shares are of texts. Here they are of words:
    models are trained on words, and texts of one source may be a hundred times as long as those of
    another.
    """
    drawing = Drawing(
        "Sources",
        "Share of each source among the words of the corpus and of the selection.",
        _TOP + _LINE * len(shares) + _BOTTOM,
    )
    names = {source: textwrap.shorten(source, _LETTERS, placeholder="…") for source in shares}
    left = _LETTER * max(map(len, names.values()), default=0) + 20
    most = max((share for both in shares.values() for share in both), default=0.0)
    x = Axis(0, most or 1.0, left, _WIDTH - _RIGHT)
    for number, (source, both) in enumerate(shares.items()):
        top = _TOP + _LINE * number
        drawing.text(names[source], left - 10, top + _LINE / 2, text_anchor="end")
        for color, share in zip(("random", "selection"), both, strict=True):
            top += _BAR
            fill = COLORS[color]
            width = x.at(share) - left
            drawing.add("rect", x=left, y=top - _BAR / 2, width=width, height=_BAR, fill=fill)
    drawing.x_axis(x, "share of words")
    return drawing.svg()


def gains_chart(gains: Mapping[str, tuple[float, float, float]], measure: str, unit: str) -> str:
    """What a selection gains: a mean and the ends of its interval by name, and a line at 0."""
    drawing = Drawing(
        f"Gain of the selection: {measure}",
        "Means with 95 % intervals, in blue where the interval excludes 0; higher is better.",
        _TOP + _LINE * len(gains) + _BOTTOM,
    )
    low = min(0.0, *(interval[1] for interval in gains.values()))
    high = max(0.0, *(interval[2] for interval in gains.values()))
    margin = 0.05 * (high - low) or 1.0
    left = _LETTER * max(map(len, gains)) + 20
    x = Axis(low - margin, high + margin, left, _WIDTH - _RIGHT)
    for number, (name, (mean, begin, end)) in enumerate(gains.items()):
        at = _TOP + _LINE * (number + 0.5)
        color = COLORS["selection"] if begin > 0 or end < 0 else COLORS["random"]
        drawing.text(name, left - 10, at + 4, text_anchor="end")
        drawing.line(x.at(begin), at, x.at(end), at, stroke=color, stroke_width=3)
        title = f"{mean:+,.4g} ({begin:+,.4g} to {end:+,.4g}) {unit}"
        drawing.add("circle", "", title, cx=x.at(mean), cy=at, r=5.0, fill=color)
    foot = drawing.height - _BOTTOM
    drawing.line(x.at(0), _TOP, x.at(0), foot, stroke="currentColor", stroke_dasharray="4 3")
    drawing.x_axis(x, f"gain in {unit} (95 % interval)")
    return drawing.svg()


def losses_chart(curves: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """Losses by step of the models adapted on the selection and on random text."""
    drawing = Drawing(
        "Loss on held-out text of the task",
        "Loss by training step of a model on the selection and of one on random text; lower is "
        "better.",
        280,
    )
    steps, losses = zip(*(point for curve in curves.values() for point in curve), strict=True)
    x = Axis(min(steps), max(steps), _LEFT, _WIDTH - _RIGHT)
    y = Axis(min(losses), max(losses), drawing.height - _BOTTOM, _TOP)
    drawing.y_axis(y, unit)
    for number, (name, curve) in enumerate(curves.items()):
        drawing.curve([(x.at(step), y.at(loss)) for step, loss in curve], COLORS[name])
        drawing.text(
            name,
            _WIDTH - _RIGHT - 10,
            _TOP + 16 * (number + 1),
            text_anchor="end",
            fill=COLORS[name],
        )
    drawing.x_axis(x, "step")
    return drawing.svg()
