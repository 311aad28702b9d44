"""Scores as they are shown: in points, or as the error that they negate."""

from __future__ import annotations

from typing import Literal

POINTS = "points"  # The unit of most scores: hundredths
# Result of a test against the base model: none, significantly better, significantly worse.
Mark = Literal["", "*", "†"]


def cell(mean: float, sd: float | None, unit: str = POINTS) -> str:
    """A score and its standard deviation, `72.31 ± 4.70`, or the negated error in its unit."""
    shown = points
    middle = mean
    if unit != POINTS:
        shown = "{:.4f}".format
        middle = 0.0 - mean
    return shown(middle) if sd is None else f"{shown(middle)} ± {shown(sd)}"


def magnitude(value: float, unit: str) -> float:
    """A mean as it is shown: the score of an error, such as bits per byte, is stored negated."""
    return value if unit == POINTS else abs(value)


def points(share: float) -> str:
    """A share in points, with two decimals."""
    return f"{round(100 * share, 2) + 0.0:.2f}"  # + 0.0: there is no -0
