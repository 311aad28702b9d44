"""A stored scorer whose arrays do not fit together is refused: kernels read without bounds checks.

`benchmarks/torture` tries the same at random, with bounds checks (target `fitted`).
"""

import numpy as np
import pytest

from storing import full, half, more, other_type, refuse

CASES = [
    ("dsir", {"buckets": 16}, {"table": [lambda t: t[:0], other_type], "order": [lambda _: 9]}),
    ("moore_lewis", {}, {"target": [full, np.ravel], "corpus": [full], "corpus_order": [more]}),
    ("isolation_forest", {"trees": 2}, {"feature": [more], "path": [half], "threshold": [half]}),
    ("knn", {"k": 2}, {"k": [more], "target": [np.ravel]}),
    (
        "cynical",
        {},
        {"table": [full, lambda t: t + np.uint64(99)], "counts": [half], "budgets": [half]}
        | {"seen": [full], "commonness": [half]},
    ),
]


@pytest.mark.parametrize(("name", "options", "changes"), CASES, ids=lambda value: str(value)[:20])
def test_arrays_that_do_not_fit_are_refused(name, options, changes):
    refuse(name, options, changes)
