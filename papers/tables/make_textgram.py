"""TextGram, Algorithm 1: target sentences that join once, or once for each listed bigram in them.

Documents, targets and static vectors as in `selectors`, with the paper's number of linked pairs and
with all pairs.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 5 and Algorithm 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import data
from corpusfit.scoring.blocks import plain_rows
from corpusfit_papers.methods.textgram import TextGram
from corpusfit_papers.neighbors import fixed_point, nearest, strongest_pairs
from corpusfit_papers.similarity import EXACT
from data import TARGETS, Setting
from measure import best
from report import Report, cell, of_seeds, spread, table

ENCODER = "static"
EMBEDS = (ENCODER,)
PAIRS = (500_000, 0)
SHARE = 0.1
"""Share of the corpus that counts as selected."""

Piece = tuple[str, int]
"""A target and a seed."""


def pieces(s: Setting) -> list[Piece]:
    """Pieces that can be measured in parallel."""
    return [(name, seed) for seed in range(s.seeds) for name in TARGETS]


def measure(s: Setting, piece: Piece) -> dict[str, Any]:
    """By number of pairs and way of joining: nodes, kinds of links, precision; and the overlap."""
    name, seed = piece
    target, units = data.target(s, name, seed, ENCODER), data.units(s, ENCODER)
    truth = data.inside(s, TARGETS[name][2])
    amount = round(SHARE * len(truth))
    found = {}
    for pairs in PAIRS:
        chosen = {}
        for copies in (False, True):
            method = TextGram(copies=copies, pairs=pairs)
            typical = method._typical(target.texts)
            rows = np.concatenate([units.vectors, target.vectors[typical]])
            lists = nearest(
                fixed_point(plain_rows(rows)), method.neighbors, pairs=pairs, exact=EXACT
            )
            first, second, _ = strongest_pairs(*lists, pairs)
            near = (first >= len(truth)).astype(int) + (second >= len(truth))
            scores = next(method.score_corpus([(0, units.vectors)], target, target, seed=seed))[1]
            chosen[copies] = best(scores, amount)
            found[f"{pairs} {'copies' if copies else 'once'}"] = {
                "joined": len(typical),
                "among target": float((near == 2).mean()),
                "to target": float((near == 1).mean()),
                "precision": float(truth[chosen[copies]].mean()),
            }
        overlap = len(np.intersect1d(chosen[False], chosen[True])) / amount
        found[f"{pairs} copies"]["overlap"] = overlap
    return {"found": found, "chance": float(truth.mean())}


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """A table for each number of pairs."""
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (name, _), result in found.items():
        for way, figures in result["found"].items():
            for key, value in figures.items():
                values.setdefault(way, {}).setdefault(name, {}).setdefault(key, []).append(value)
    chance = {name: result["chance"] for (name, _), result in found.items()}
    parts = [
        f"{of_seeds(s.seeds)}. Shares of links that join two target nodes, or a document and a "
        "target node; precision of the best tenth of documents for the target's true domain; and "
        "the share of that tenth that both ways of joining have in common. Vectors are static; "
        "the paper does not name its encoder. Its corpus has a million sentences, this one "
        f"{len(data.documents(s)[0]):,} documents.",
    ]
    for pairs in PAIRS:
        parts += [f"## {f'The {pairs:,} strongest pairs' if pairs else 'All pairs'}"]
        parts += [_table(values[f"{pairs} once"], values[f"{pairs} copies"], chance)]
    figures = {
        way: {name: {k: spread(v) for k, v in of.items()} for name, of in names.items()}
        for way, names in values.items()
    }
    said = {"found": figures, "chance": chance}
    return Report(said, "\n\n".join(parts), _conclusion(values, chance))


def _table(
    once: dict[str, dict[str, list[float]]],
    copies: dict[str, dict[str, list[float]]],
    chance: dict[str, float],
) -> str:
    head = ["target", "way", "nodes joined", "among target", "to target", "precision", "in common"]
    rows = []
    for name, alone in once.items():
        for way, of in (("once", alone), ("for each bigram", copies[name])):
            shown = [cell(of[key], 3) for key in ("among target", "to target", "precision")]
            shown[2] += f" (chance {chance[name]:.3f})"
            rows.append([name, way, cell(of["joined"], 0), *shown, cell(of.get("overlap", []))])
    return table(head, rows)


def _conclusion(
    values: dict[str, dict[str, dict[str, list[float]]]], chance: dict[str, float]
) -> str:
    def mean(way: str, key: str) -> float:
        return float(np.mean([np.mean(of[key]) for of in values[way].values()]))

    said = []
    for pairs in PAIRS:
        once = f"{pairs} once"
        copies = f"{pairs} copies"
        nodes = mean(copies, "joined") / mean(once, "joined")
        said.append(
            f"With {f'{pairs:,}' if pairs else 'all'} pairs, joining once for each bigram makes "
            f"{nodes:.1f} times as many nodes of the target and changes "
            f"{100 - 100 * mean(copies, 'overlap'):.0f} % of the best tenth; its mean precision is "
            f"{mean(copies, 'precision'):.3f}, joined once {mean(once, 'precision'):.3f}."
        )
    random = float(np.mean(list(chance.values())))
    return f"{' '.join(said)} A random order has {random:.3f}; the paper reports no precision."
