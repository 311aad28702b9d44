"""Data of one selection for the page's script: counts by threshold, histograms, examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.reporting.distribution import Spread, spread_of
from corpusfit.reporting.examples import Examples, read_examples
from corpusfit.selection.folder import SelectionFolder

_MOST = 12
"""Most sources shown one by one; the others are counted together."""


def selection_data(folder: SelectionFolder, manifest: dict[str, Any], room: int) -> dict[str, Any]:
    """What the page's script needs; texts are as in the corpus, and the page escapes them."""
    choose = manifest["plan"]["choose"]
    by_score = choose["policy"] == "top" and not choose.get("balance")
    threshold = manifest["selected"]["threshold"] if by_score else None
    names = [source["name"] for source in manifest["corpus"]]
    spread = spread_of(folder.scores, names, seed=manifest["plan"]["seed"], threshold=threshold)
    examples = read_examples(folder.examples, room)
    by_source = manifest["selected"]["by_source"]
    counts = [by_source.get(name, {}).get("selected", 0) for name in spread.sources]
    selected = np.array(counts, np.int64)
    groups = _groups(spread, selected)
    return {
        "sources": [
            {
                "name": name,
                "segments": int(spread.of_source[members].sum()),
                "tokens": int(spread.tokens_of_source[members].sum()),
                "selected": int(selected[members].sum()),
            }
            for name, members in groups
        ],
        "taken": manifest["selected"]["segments"],
        "stages": len((manifest["cascade"] or {"stages": [1]})["stages"]),
        "cuts": _cuts(spread, groups, threshold),
        "scores": _scores(spread, groups, examples),
        "examples": [
            {**row, "nearest": nearest}
            for row, nearest in zip(examples.corpus, examples.nearest, strict=True)
        ],
        "targets": examples.target,
        "map": {
            "corpus": examples.of_corpus.round(4).tolist(),
            "target": examples.of_target.round(4).tolist(),
        },
        "by": examples.by,
    }


Groups = Sequence[tuple[str, NDArray[np.int64]]]


def _groups(spread: Spread, selected: NDArray[np.int64]) -> Groups:
    order = np.lexsort((np.arange(len(selected)), -spread.of_source, -selected))
    alone = order if len(order) <= _MOST + 1 else order[:_MOST]
    found = [(spread.sources[i], np.array([i])) for i in alone]
    rest = order[len(alone) :]
    return [*found, (f"{len(rest)} other sources", rest)] if len(rest) else found


def _cuts(spread: Spread, groups: Groups, threshold: float | None) -> dict[str, Any]:
    """Every threshold with what it selects, in total and from each source."""
    total = max(1, int(spread.of_source.sum()))
    selected = spread.segments.sum(axis=0)
    at = spread.thresholds
    own = [] if threshold is None else np.flatnonzero(at == np.float32(threshold)).tolist()
    return {
        "threshold": at.astype(float).tolist(),
        "share": (selected / total).round(6).tolist(),
        "segments": selected.tolist(),
        "tokens": spread.tokens.sum(axis=0).tolist(),
        "by_source": np.array([spread.segments[g].sum(axis=0) for _, g in groups]).T.tolist(),
        "own": own[0] if own else None,
    }


def _scores(spread: Spread, groups: Groups, examples: Examples) -> dict[str, Any]:
    """Histograms of each source's segments, and of the target's units where they have scores."""
    target = [unit["score"] for unit in examples.target if unit["score"] is not None]
    clipped = np.clip(np.array(target, float), spread.bins[0], spread.bins[-1])
    return {
        "bins": spread.bins.astype(float).tolist(),
        "sources": [spread.heights[members].sum(axis=0).tolist() for _, members in groups],
        "target": np.histogram(clipped, spread.bins)[0].tolist(),
    }
