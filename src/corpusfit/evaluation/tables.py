"""How a score is shown: in points, or the error that it negates in its unit."""

from __future__ import annotations

POINTS = "points"
"""The unit of most scores: hundredths."""


def cell(mean: float, sd: float | None, unit: str = POINTS) -> str:
    """A score and its standard deviation, `72.31 ± 4.70`, or the negated error in its unit."""
    shown, middle = _points, mean
    if unit != POINTS:
        shown, middle = "{:.4f}".format, 0.0 - mean
    return shown(middle) if sd is None else f"{shown(middle)} ± {shown(sd)}"


def magnitude(value: float, unit: str) -> float:
    """A mean as it is shown: the score of an error, such as bits per byte, is stored negated."""
    return value if unit == POINTS else abs(value)


def _points(share: float) -> str:
    return f"{round(100 * share, 2) + 0.0:.2f}"  # + 0.0: there is no -0
