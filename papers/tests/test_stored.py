"""A stored scorer whose arrays do not fit together is refused: kernels read without checks."""

import numpy as np
import pytest

from storing import full, half, more, refuse

CASES = [
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
    ("lof", {}, {"k": [more], "reach": [half], "density": [half]}),
    (
        "cluster_ratio",
        {"clusters": "1"},
        {"ratio": [half], "sizes": [lambda _: None, lambda _: [9]]},
    ),
]


@pytest.mark.parametrize(("name", "options", "changes"), CASES, ids=lambda value: str(value)[:20])
def test_arrays_that_do_not_fit_are_refused(name, options, changes):
    refuse(name, options, changes)
