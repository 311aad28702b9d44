"""Formatting of results: mean and standard deviation over seeds, Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Report:
    """A table of a paper, measured.

    Attributes:
        figures: results as plain values.
        text: set-up and tables in Markdown, without the heading.
    """

    figures: dict[str, Any]
    text: str


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
