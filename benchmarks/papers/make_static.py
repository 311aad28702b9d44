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
    figures: dict[str, dict[str, dict[str, list[float]]]] = {}
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
    losses = {
        (method, name): float(np.mean(of["static:minilm"][name]) - np.mean(of["static"][name]))
        for method, of in figures.items()
        for name in TARGETS
    }
    text = (
        f"Average precision as in `selectors`, on the same documents, targets and seeds. "
        f"{of_seeds(s.seeds)}.\n\n{table(['method', 'embedder', *TARGETS, 'mean'], rows)}"
    )
    by_target = {
        m: {e: {n: spread(v) for n, v in by.items()} for e, by in of.items()}
        for m, of in figures.items()
    }
    return Report({"average_precision": by_target}, text, _conclusion(losses))


def _conclusion(losses: dict[tuple[str, str], float]) -> str:
    """The mean loss, and the largest of a method and target."""
    method, name = max(losses, key=lambda place: losses[place])
    return (
        f"With 8 bits instead of 32 the average precision is {np.mean(list(losses.values())):.4f} "
        f"lower on average; the largest loss is {losses[method, name]:.4f} (`{method}`, {name})."
    )
