"""The scores of a run for the page: counts by threshold, histograms and examples, by source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.reporting.examples import Examples, read_examples
from corpusfit.scoring import registry, table
from corpusfit.scoring.table import grouped, source_groups
from corpusfit.selection.choosing import ScoredPart
from corpusfit.selection.examples import edges
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.spread import Counts, Spread, add_spreads, count_spread, read_spread


def spread_of(
    scores: Path, sources: Sequence[str], *, seed: int, threshold: float | None
) -> Spread:
    """Count the stored scores of a run, part by part, for a run of version 0.1."""
    also = [] if threshold is None else [threshold]
    parts = (ScoredPart(i, score, tokens) for i, _, score, tokens, _ in _parts(scores))
    at = edges(lambda: parts, seed=seed, also=also)
    group_of = source_groups(sources)
    spreads = []
    for index, usable, score, tokens, selected in _parts(scores):
        names, source = grouped(*table.read_sources(table.part_path(scores, index)), group_of)
        spreads.append(count_spread(names, source[usable], score, tokens, selected, at))
    return add_spreads(spreads, at)


def _parts(scores: Path) -> Iterator[tuple[int, Bools, NDArray[np.float32], Counts, Bools]]:
    """Every part with segments: its index, which are no copies, and their columns."""
    for index, path in table.parts(scores):
        columns = table.read_columns(path, "score", "tokens", "copy", "selected")
        score, tokens, copy, selected = columns
        usable = ~np.asarray(copy, np.bool_)
        if usable.any():
            yield (
                index,
                usable,
                np.asarray(score, np.float32)[usable],
                np.asarray(tokens, np.int64)[usable],
                np.asarray(selected, np.bool_)[usable],
            )


Bools = NDArray[np.bool_]

_MAX_SOURCES = 12
"""Most sources shown one by one; the others are counted together."""


def selection_data(folder: SelectionFolder, manifest: dict[str, Any], limit: int) -> dict[str, Any]:
    """Data for the page's script; the page escapes texts."""
    choose = manifest["plan"]["choose"]
    by_score = choose["policy"] == "top" and not choose.get("balance")
    # a drawn or balanced selection has no single threshold to show
    threshold = manifest["selected"]["threshold"] if by_score else None
    names = [source["name"] for source in manifest["corpus"]]
    spread = read_spread(folder.spread) or spread_of(
        folder.scores, names, seed=manifest["plan"]["seed"], threshold=threshold
    )
    examples = read_examples(folder.examples, limit)
    by_source = manifest["selected"]["by_source"]
    selected, words = (
        np.array([by_source.get(name, {}).get(what, 0) for name in spread.sources], np.int64)
        for what in ("selected", "tokens")
    )
    groups = _groups(spread, words)
    chosen = [i for i, row in enumerate(examples.corpus) if row["selected"]]
    others = [i for i, row in enumerate(examples.corpus) if not row["selected"]]
    return {
        "sources": [
            {
                "name": name,
                "segments": int(spread.of_source[members].sum()),
                "tokens": int(spread.tokens_of_source[members].sum()),
                "selected": int(selected[members].sum()),
                "selected_tokens": int(words[members].sum()),
            }
            for name, members in groups
        ],
        "taken": manifest["selected"]["segments"],
        "sample": _sample(spread, examples.corpus),
        "head": chosen[:_SHOWN],
        "last": chosen[_SHOWN:][-_SHOWN:],
        "below": [] if threshold is None else others[:_SHOWN],
        "lengths": spread.quantiles(LENGTH_SHARES),
        "cuts": _cuts(spread, groups, threshold),
        "higher": registry.higher(manifest["method"]["name"]),
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


_STRATA = 9
"""Strata of the selection, of equally many words, by falling score."""

_GOLDEN = (5**0.5 - 1) / 2
_SHOWN = 3
"""Examples shown of the highest scores, of the lowest selected ones, and of those below."""

LENGTH_SHARES = (0.1, 0.5, 0.9)
"""Quantiles of the lengths of segments."""


def _sample(spread: Spread, examples: Sequence[dict[str, Any]]) -> list[int]:
    """Places of examples that look like the selection, one from each of its strata.

    Examples are drawn between two thresholds, however much is selected there, and the highest
    scores have the most; so one is taken where the middle of a stratum's words lies, long texts in
    proportion to their length.
    """
    # They are in the order of the corpus, source after source, so strata take them from places
    # that are spread evenly over it (multiples of the golden ratio): each source is shown as often
    # as its words are selected.
    between: dict[int, list[int]] = {}
    for i, row in enumerate(examples):
        if row["selected"]:
            interval = np.searchsorted(-spread.thresholds, -np.float32(row["score"]), side="left")
            between.setdefault(int(interval), []).append(i)
    ends = np.cumsum(spread.taken)
    middles = (np.arange(_STRATA) + 0.5) / _STRATA * ends[-1]
    sample = []
    for number, interval in enumerate(np.searchsorted(ends, middles, side="right").tolist()):
        if left := between.get(interval):
            lengths = np.cumsum([examples[i]["characters"] for i in left])
            place = (0.5 + _GOLDEN * number) % 1 * lengths[-1]
            sample.append(left.pop(int(np.searchsorted(lengths, place))))
    return sorted(sample)


Groups = Sequence[tuple[str, NDArray[np.int64]]]


def _groups(spread: Spread, words: NDArray[np.int64]) -> Groups:
    """Each source alone, the largest part of the selection first, and small ones together."""
    order = np.lexsort((np.arange(len(words)), -spread.tokens_of_source, -words))
    alone = order if len(order) <= _MAX_SOURCES + 1 else order[:_MAX_SOURCES]
    single = [(spread.sources[i], np.array([i])) for i in alone]
    rest = order[len(alone) :]
    return [*single, (f"{len(rest)} other sources", rest)] if len(rest) else single


def _cuts(spread: Spread, groups: Groups, threshold: float | None) -> dict[str, Any]:
    """Every threshold with what it selects, in total and from each source."""
    total = max(1, int(spread.of_source.sum()))
    selected = spread.segments.sum(axis=0)
    at = spread.thresholds
    current = [] if threshold is None else np.flatnonzero(at == np.float32(threshold)).tolist()
    return {
        "threshold": at.astype(float).tolist(),
        "share": (selected / total).round(6).tolist(),
        "segments": selected.tolist(),
        "tokens": spread.tokens.sum(axis=0).tolist(),
        "by_source": np.array([spread.segments[g].sum(axis=0) for _, g in groups]).T.tolist(),
        "words_by_source": np.array([spread.tokens[g].sum(axis=0) for _, g in groups]).T.tolist(),
        "own": current[0] if current else None,
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
