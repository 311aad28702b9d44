"""Counts of stored scores, made of the scores themselves."""

import numpy as np

from corpusfit.scoring import table
from corpusfit.scoring.table import grouped, source_groups
from corpusfit.selection.choosing import ScoredPart
from corpusfit.selection.examples import edges
from corpusfit.selection.spread import add_spreads, count_spread


def spread_of(scores, sources, *, seed, threshold):
    """The counts of the stored scores of a run, part by part."""
    also = [] if threshold is None else [threshold]
    parts = (ScoredPart(i, score, tokens) for i, _, score, tokens, _ in _parts(scores))
    at = edges(lambda: parts, seed=seed, also=also)
    group_of = source_groups(sources)
    spreads = []
    for index, usable, score, tokens, selected in _parts(scores):
        names, source = grouped(*table.read_sources(table.part_path(scores, index)), group_of)
        spreads.append(count_spread(names, source[usable], score, tokens, selected, at))
    return add_spreads(spreads, at)


def _parts(scores):
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
