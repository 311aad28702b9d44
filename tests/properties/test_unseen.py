"""Lazy greedy is plain greedy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.kernels.unseen import greedy_order

TEXTS = st.lists(
    st.tuples(st.sets(st.integers(0, 9), max_size=6), st.integers(0, 4)), min_size=0, max_size=25
)


def plain(texts, weight):
    """Look at every text that is left, take the first of the best, begin anew when all is seen."""
    left = [i for i, (grams, _) in enumerate(texts) if grams]
    order, seen = [], set()
    while left:

        def worth(i):
            grams, spare = texts[i]
            return sum(weight[g] for g in grams - seen) / (len(grams) + spare)  # noqa: B023

        best = max(left, key=worth)
        if worth(best) == 0:
            seen = set()
            continue
        order.append(best)
        left.remove(best)
        seen |= texts[best][0]
    return order + [i for i, (grams, _) in enumerate(texts) if not grams]


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(1, 5), min_size=10, max_size=10))
def test_the_order_is_that_of_plain_greedy(texts, weight):
    found = np.array([g for grams, _ in texts for g in sorted(grams)], np.int32)
    ends = np.cumsum([0, *(len(grams) for grams, _ in texts)])
    lengths = np.array([len(grams) + spare for grams, spare in texts], np.int32)
    order = greedy_order(found, ends, lengths, np.array(weight, np.int64))
    assert order.tolist() == plain(texts, weight)
