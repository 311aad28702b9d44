"""Average precision of methods when the target shares the domain but not its style or topics.

Sentences of European law must find Australian court cases; messages of desktop software must find
manuals of PHP and PowerShell. Measured as in `selectors`; the corpus has no text nearer to the
target.
Reference: the sentences are of Koehn and Knowles (2017), the corpus of Aharoni and Goldberg
(2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import data
from corpusfit import text as corpus
from data import ENCODERS, Setting
from measure import COMPARED, average_precision, scored, shown
from report import Report, cell, first, of_seeds, percent, spread, standing, table

PAIRS = {"law": "legal_", "it": "it_"}
LEAST = 5
"""Fewest words of a sentence."""

Piece = tuple[str, int, str]
"""A domain of the parallel text, a seed, an encoder."""


def pieces(s: Setting) -> list[Piece]:
    """Pieces that can be measured in parallel; none without parallel text."""
    at_hand = [n for n in PAIRS if (s.parallel / n / "dev.en").exists()]
    return [(n, seed, e) for seed in range(s.seeds) for e in ENCODERS for n in at_hand]


def measure(s: Setting, piece: Piece) -> dict[str, Any]:
    """Average precision of each method, and the estimated share."""
    name, seed, embedder = piece
    lines = _lines(s, name)
    places = data.drawn(len(lines), s.target, seed)
    target, units = data.paired([lines[i] for i in places], embedder), data.units(s, embedder)
    background = units.take(data.drawn(len(units), s.background, seed))
    truth = data.inside(s, PAIRS[name])
    found = {
        shown(v): scored(v, target, background, units, embedder=embedder, seed=seed)
        for v in COMPARED
    }
    return {
        "ap": {method: average_precision(of, truth) for method, of in found.items()},
        "estimated": found["consensus"].share,
        "share": float(truth.mean()),
    }


def _lines(s: Setting, name: str) -> list[str]:
    """Distinct sentences of enough words, normalized as in a run."""
    raw = (s.parallel / name / "dev.en").read_text(encoding="utf-8").split("\n")
    long = [line for line in raw if len(line.split()) >= LEAST]
    return list(dict.fromkeys(map(corpus.normalize, long)))


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """One table: a column for each pair and encoder."""
    columns: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (name, _, embedder), result in found.items():
        columns.setdefault((embedder, name), []).append(result)
    rows = []
    for method in map(shown, COMPARED):
        values = [[r["ap"][method] for r in of] for of in columns.values()]
        rows.append([f"`{method}`", *map(cell, values), f"**{np.mean(values):.3f}**"])
    estimated = [percent([r["estimated"] for r in of]) for of in columns.values()]
    true = [f"{100 * of[0]['share']:.1f}" for of in columns.values()]
    rows += [["% estimated by `consensus`", *estimated, ""], ["% true", *true, ""]]
    head = [f"{embedder}: {name} → {PAIRS[name]}*" for embedder, name in columns]
    figures = {
        f"{embedder} {name}": {
            "average_precision": {m: spread([r["ap"][m] for r in of]) for m in of[0]["ap"]},
            "estimated_share": spread([r["estimated"] for r in of]),
            "share": of[0]["share"],
        }
        for (embedder, name), of in columns.items()
    }
    text = "\n\n".join([_text(s), table(["method", *head, "mean"], rows)])
    return Report(figures, text, _conclusion(figures))


def _conclusion(figures: dict[str, Any]) -> str:
    """What the means over pairs and encoders say."""
    means = {
        m: float(np.mean([of["average_precision"][m]["mean"] for of in figures.values()]))
        for m in map(shown, COMPARED)
    }
    off = max(abs(of["estimated_share"]["mean"] - of["share"]) for of in figures.values())
    return (
        f"{first(means, 'mean average precision')}; {standing(means, 'isolation_forest')}, which "
        "the papers rank first of their detectors, against Wikipedia and on BERT-base's vectors. "
        f"The share that `consensus` estimates is off by up to {100 * off:.1f} points."
    )


def _text(s: Setting) -> str:
    return (
        f"Average precision as in `selectors`, on the same documents. Targets are {s.target} "
        f"different sentences of {LEAST} words or more, normalized, from the development sets of "
        "Koehn and Knowles (2017): European law must find court cases (`legal_*`), messages and "
        "manuals of desktop software must find manuals of PHP and PowerShell (`it_*`). Both are of "
        "one domain by subject and differ in style, length and topics. "
        f"{of_seeds(s.seeds)}. A random order has the true share. The papers have no such table: "
        "their targets are drawn from the corpus's own sources."
    )
