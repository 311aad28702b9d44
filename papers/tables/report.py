"""Formatting of results: mean and standard deviation over seeds, Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Report:
    """A table of a paper, measured.

    Attributes:
        figures: results as plain values.
        text: set-up and tables in Markdown, without the heading.
        conclusion: what follows from the figures, and where the papers differ.
    """

    figures: dict[str, Any]
    text: str
    conclusion: str


def standing(means: Mapping[str, float], name: str) -> str:
    """A method's place among all by a figure of which more is better."""
    place = 1 + sum(value > means[name] for value in means.values())
    return f"`{name}` is number {place} of {len(means)} ({means[name]:.3f})"


def first(means: Mapping[str, float], what: str) -> str:
    """The method with the highest figure, and the next."""
    best, *others = sorted(means, key=lambda name: -means[name])
    then = f", before `{others[0]}` ({means[others[0]]:.3f})" if others else ""
    return f"`{best}` has the highest {what} ({means[best]:.3f}){then}"


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (0 for one value) and the values by seed."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    rounded = [round(float(v), 6) for v in values]
    return {"mean": round(float(np.mean(values)), 6), "sd": round(deviation, 6), "seeds": rounded}


def cell(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard deviation; one value without it, none as a dash."""
    if not len(values):
        return "–"
    of = spread(values)
    mean = f"{of['mean']:.{digits}f}"
    return f"{mean} ± {of['sd']:.{digits}f}" if len(values) > 1 else mean


def percent(values: Sequence[float], digits: int = 1) -> str:
    """`cell` for shares."""
    return cell([100 * v for v in values], digits)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of_seeds(seeds: int) -> str:
    """Explanation of a cell."""
    return f"Mean ± standard deviation over {seeds} seeds" if seeds > 1 else "One seed"
