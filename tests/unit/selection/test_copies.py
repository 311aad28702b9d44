"""Copies by their keys, against a plain search."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.selection.copies import find_copies

EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
documents = st.tuples(
    st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1)),
    st.sampled_from([-1.5, 0.0, 0.25]),
)


@given(st.lists(st.lists(documents, max_size=9), max_size=6), st.integers(1, 70))
def test_the_best_of_equal_documents_stays_and_of_those_the_first(parts, at_once):
    keys = [np.array([key for key, _ in part], np.uint64) for part in parts]
    everything = [document for part in parts for document in part]
    best = {}
    for place, (key, score) in enumerate(everything):
        if key not in best or score > everything[best[key]][1]:
            best[key] = place
    scores = np.array([score for _, score in everything], np.float32)
    found = find_copies(lambda: keys, scores, at_once=at_once)
    expected = [best[key] != place for place, (key, _) in enumerate(everything)]
    assert found.tolist() == expected
