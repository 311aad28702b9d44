"""What the 8 bits of the embedder `static` cost: average precision of methods on it and in 32 bits.

Measured as in `selectors`; `static:minilm` is the same distillation without rounding.
"""

from __future__ import annotations

import numpy as np

import data
from data import TARGETS, Setting
from measure import COMPARED, average_precision, scored, shown
from report import Report, cell, of_seeds, spread, table

EMBEDS = ("static:minilm", "static")
METHODS = tuple(v for v in COMPARED if v[0] != "dsir")

Piece = tuple[str, int, str]
"""A target, a seed, an encoder."""

Figures = dict[str, dict[str, dict[str, list[float]]]]
"""Average precision by method, encoder, target and seed."""


def pieces(s: Setting) -> list[Piece]:
    """Pieces that can be measured in parallel."""
    return [(name, seed, e) for seed in range(s.seeds) for e in EMBEDS for name in TARGETS]


def measure(s: Setting, piece: Piece) -> dict[str, float]:
    """Average precision of each method."""
    name, seed, embedder = piece
    target, units = data.target(s, name, seed, embedder), data.units(s, embedder)
    background = units.take(data.drawn(len(units), s.background, seed))
    truth = data.inside(s, TARGETS[name][2])
    return {
        shown(v): average_precision(
            scored(v, target, background, units, embedder=embedder, seed=seed), truth
        )
        for v in METHODS
    }


def report(s: Setting, found: dict[Piece, dict[str, float]]) -> Report:
    """One table: 32 and 8 bits of each method, by target."""
    figures: Figures = {}
    rows = []
    for method in map(shown, METHODS):
        figures[method] = {
            e: {n: [found[n, seed, e][method] for seed in range(s.seeds)] for n in TARGETS}
            for e in EMBEDS
        }
        for embedder, by in figures[method].items():
            mean = np.mean(list(by.values()))
            cells = (cell(values, 3) for values in by.values())
            rows.append([f"`{method}`", f"`{embedder}`", *cells, f"**{mean:.4f}**"])
    text = (
        f"Average precision as in `selectors`, on the same documents, targets and seeds. "
        f"{of_seeds(s.seeds)}. Forests and "
        "clusters begin with random draws, which other last bits change as another seed does: "
        "single cells of these differ by more.\n\n"
    )
    text += table(["method", "embedder", *TARGETS, "mean"], rows)
    by_target = {
        m: {e: {n: spread(v) for n, v in by.items()} for e, by in of.items()}
        for m, of in figures.items()
    }
    return Report({"average_precision": by_target}, text, _conclusion(figures))


def _conclusion(figures: Figures) -> str:
    """How far each method's mean over targets falls."""
    means = {m: [float(np.mean(list(of[e].values()))) for e in EMBEDS] for m, of in figures.items()}
    losses = {method: exact - rounded for method, (exact, rounded) in means.items()}
    worst = max(losses, key=lambda method: losses[method])
    exact, rounded = np.mean(list(means.values()), axis=0)
    return (
        "With 8 bits instead of 32 a method's mean average precision over targets falls by at most "
        f"{losses[worst]:.4f} (`{worst}`); over all methods it is {rounded:.4f}, not {exact:.4f}."
    )
