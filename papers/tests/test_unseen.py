"""Lazy greedy is plain greedy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusfit_papers.coverage import greedy_order

TEXTS = st.lists(
    st.tuples(st.sets(st.integers(0, 9), max_size=6), st.integers(0, 4)), min_size=0, max_size=25
)


def plain(texts, weight):
    """Look at every text that is left and take the first of the best, while it has anything new."""

    def worth(i, seen):
        grams, spare = texts[i]
        return sum(weight[g] for g in grams - seen) / max(1, len(grams) + spare)

    left, order, seen = list(range(len(texts))), [], set()
    while left:
        best = max(left, key=lambda i: worth(i, seen))
        if worth(best, seen) == 0:
            break
        order.append(best)
        left.remove(best)
        seen |= texts[best][0]
    return order + sorted(left, key=lambda i: -worth(i, set()))


@given(TEXTS, st.lists(st.integers(1, 5), min_size=10, max_size=10))
def test_the_order_is_that_of_plain_greedy(texts, weight):
    found = np.array([g for grams, _ in texts for g in sorted(grams)], np.int32)
    ends = np.cumsum([0, *(len(grams) for grams, _ in texts)])
    lengths = np.array([len(grams) + spare for grams, spare in texts], np.int32)
    order = greedy_order(found, ends, lengths, np.array(weight, np.int64))
    assert order.tolist() == plain(texts, weight)
