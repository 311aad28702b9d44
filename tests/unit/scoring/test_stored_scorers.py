"""A stored scorer whose arrays do not fit together is refused: kernels read without bounds checks.

`benchmarks/torture` tries the same at random, with bounds checks (target `fitted`).
"""

import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from corpusfit.core.errors import ModelError
from corpusfit.core.types import text_array
from corpusfit.kernels.cynical import number_features
from corpusfit.scoring import registry
from corpusfit.scoring.rounds import RoundScorer

TEXTS = text_array([f"the kinase {i} binds the receptor of growth" for i in range(40)])
OTHERS = text_array([f"shares of the market {i} fell before the results" for i in range(40)])
ROWS = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)


def fitted(name, options):
    if name == "cynical":
        table = number_features(np.arange(5, 9, dtype=np.uint64))
        one = np.ones(1)
        rounds = (np.ones((1, 4)), one, np.ones(1, np.int64), one, one)
        return RoundScorer(table, np.ones(4), False, *rounds, table.copy(), np.ones(4), 0.0)
    method = registry.build(name, options)
    texts = (TEXTS, OTHERS) if method.reads == "text" else (ROWS[:6], ROWS)
    return method.fit(*texts, seed=0)


def changed(stored, name, change):
    """The stored scorer with another array, or another plain value, of a name."""
    data = stored.tobytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    arrays, about = load(data), json.loads(header["__metadata__"]["json"])
    if name in arrays:
        arrays[name] = change(arrays[name].copy())
    else:
        about["fields"][name] = change(about["fields"][name])
    arrays = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    return np.frombuffer(save(arrays, {"json": json.dumps(about)}), np.uint8)


def full(table):
    """A hash table without a free slot, in which a search does not end."""
    table[table == 0] = 7
    return table


def more(array):
    return array + 1000


def half(array):
    return array[: len(array) // 2]


def other_type(array):
    return array.astype(np.float64 if array.dtype != np.float64 else np.float32)


CASES = [
    ("dsir", {"buckets": 16}, {"table": [lambda t: t[:0], other_type], "order": [lambda _: 9]}),
    ("moore_lewis", {}, {"target": [full, np.ravel], "corpus": [full], "corpus_order": [more]}),
    ("perplexity", {}, {"table": [full, np.ravel], "order": [lambda _: 0, lambda _: "2"]}),
    (
        "ngram_coverage",
        {"order": 1},
        {"keys": [full, lambda k: k[:-1]], "places": [more, half], "frequency": [half]},
    ),
    (
        "bm25",
        {},
        {"docs": [more], "lists": [more, half], "column_of": [more], "columns": [np.ravel]}
        | {"keys": [full], "entries": [half], "shift": [half], "mean_length": [lambda _: 0.0]},
    ),
    (
        "tfidf",
        {"compare": "nearest", "k": 2},
        {"terms": [more], "ends": [more], "docs": [more], "idf": [half], "k": [more]},
    ),
    ("tfidf", {}, {"centroid": [half], "k": [lambda _: -1]}),
    ("isolation_forest", {"trees": 2}, {"feature": [more], "path": [half], "threshold": [half]}),
    ("knn", {"k": 2}, {"k": [more], "target": [np.ravel]}),
    ("lof", {}, {"k": [more], "reach": [half], "density": [half]}),
    (
        "cluster_ratio",
        {"clusters": "1"},
        {"ratio": [half], "sizes": [lambda _: None, lambda _: [9]]},
    ),
    (
        "cynical",
        {},
        {"table": [full, lambda t: t + np.uint64(99)], "counts": [half], "budgets": [half]}
        | {"seen": [full], "commonness": [half]},
    ),
]


@pytest.mark.parametrize(("name", "options", "changes"), CASES, ids=lambda value: str(value)[:20])
def test_arrays_that_do_not_fit_are_refused(name, options, changes):
    stored = registry.as_array(name, fitted(name, options))
    registry.from_array(stored)
    for field, each in changes.items():
        for change in each:
            with pytest.raises(ModelError):
                registry.from_array(changed(stored, field, change))
