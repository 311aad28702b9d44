"""Average precision of methods when the target's domain is rare in the corpus.

As `selectors`, after documents of the domain are dropped at random until its share is 5, 2 and 1
% (about 130 documents, so results vary with the seed); and the share that `consensus` estimates.
Reference: our own; the papers' corpora hold 1 % or more of each domain (Aharoni and Goldberg,
2020, Table 3: Koran).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import data
from data import ENCODERS, TARGETS, Setting
from measure import COMPARED, average_precision, scored, shown
from report import Report, cell, first, of_seeds, percent, spread, standing, table

SHARES = (0.05, 0.02, 0.01)

Piece = tuple[str, int, str]
"""A target, a seed, an encoder."""


def pieces(s: Setting) -> list[Piece]:
    """Pieces that can be measured in parallel."""
    return [(n, seed, e) for seed in range(s.seeds) for e in ENCODERS for n in TARGETS]


def measure(s: Setting, piece: Piece) -> dict[str, Any]:
    """By share: average precision of each method, and the estimated share."""
    name, seed, embedder = piece
    target, units = data.target(s, name, seed, embedder), data.units(s, embedder)
    truth = data.inside(s, TARGETS[name][2])
    return {str(share): _thinned(s, target, units, truth, share, piece) for share in SHARES}


def _thinned(
    s: Setting, target: Any, units: Any, truth: NDArray[np.bool_], share: float, piece: Piece
) -> dict[str, Any]:
    _, seed, embedder = piece
    places = thin(truth, share, seed)
    units, truth = units.take(places), truth[places]
    background = units.take(data.drawn(len(units), s.background, seed))
    found = {
        shown(v): scored(v, target, background, units, embedder=embedder, seed=seed)
        for v in COMPARED
    }
    return {
        "ap": {method: average_precision(of, truth) for method, of in found.items()},
        "estimated": found["consensus"].share,
        "domain": int(truth.sum()),
        "documents": len(truth),
    }


def thin(truth: NDArray[np.bool_], share: float, seed: int) -> NDArray[np.int64]:
    """Sorted indices that remain when a domain is thinned to a share."""
    domain, others = np.flatnonzero(truth), np.flatnonzero(~truth)
    kept = round(share / (1 - share) * len(others))
    left = domain[data.drawn(len(domain), kept, seed)]
    return np.sort(np.concatenate([left, others]))


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """For each encoder the means over targets by share, and each share's table."""
    parts = [_text(s)]
    figures: dict[str, Any] = {}
    for embedder in ENCODERS:
        parts.append(f"## {embedder}")
        for share in map(str, SHARES):
            of = {n: _values(found, n, embedder, share) for n in TARGETS}
            parts += [f"{100 * float(share):g} %:", _table(of)]
            figures.setdefault(embedder, {})[share] = {
                name: {
                    "average_precision": {m: spread(v) for m, v in by["ap"].items()},
                    "estimated_share": spread(by["estimated"]),
                    "domain": by["domain"][0],
                    "documents": by["documents"][0],
                }
                for name, by in of.items()
            }
    return Report(figures, "\n\n".join(parts), _conclusion(figures))


def _conclusion(figures: dict[str, Any]) -> str:
    """What the means over targets say, at the smallest share and at the largest."""
    said = []
    for embedder, by_share in figures.items():
        means = {share: _means(by_share[str(share)]) for share in (max(SHARES), min(SHARES))}
        large, small = means.values()
        said.append(
            f"On {embedder}, "
            f"{first(small, f'mean average precision at {100 * min(SHARES):g} %')}; at "
            f"{100 * max(SHARES):g} % {standing(large, 'consensus')}, at {100 * min(SHARES):g} % "
            f"{standing(small, 'consensus')}, where {standing(small, 'isolation_forest')}, the "
            "papers' "
            "detector."
        )
    return " ".join(said)


def _means(by_target: dict[str, Any]) -> dict[str, float]:
    """Mean average precision over targets, by method."""
    return {
        m: float(np.mean([of["average_precision"][m]["mean"] for of in by_target.values()]))
        for m in map(shown, COMPARED)
    }


def _values(
    found: dict[Piece, dict[str, Any]], name: str, embedder: str, share: str
) -> dict[str, Any]:
    """A target's results as lists by seed."""
    of = [r[share] for (n, _, e), r in found.items() if (n, e) == (name, embedder)]
    ap = {method: [r["ap"][method] for r in of] for method in of[0]["ap"]}
    return {"ap": ap, **{k: [r[k] for r in of] for k in ("estimated", "domain", "documents")}}


def _table(of: dict[str, dict[str, Any]]) -> str:
    rows = []
    for method in map(shown, COMPARED):
        values = [by["ap"][method] for by in of.values()]
        rows.append([f"`{method}`", *map(cell, values), f"**{np.mean(values):.3f}**"])
    estimated = [percent(by["estimated"]) for by in of.values()]
    rows.append(["% estimated by `consensus`", *estimated, ""])
    return table(["method", *of, "mean"], rows)


def _text(s: Setting) -> str:
    return (
        "Average precision as in `selectors`, on the same documents, targets and background, after "
        "documents of the target's domain were dropped at random until it has the share named "
        f"(a random order's average precision). {of_seeds(s.seeds)}; the seed draws what is "
        "dropped, too. The papers have no such table."
    )
