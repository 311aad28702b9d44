"""Batches hold every text once, under the budget, whatever the lengths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.embed.transformer import token_batches


@given(st.lists(st.integers(1, 600), max_size=200), st.integers(1, 2000))
def test_every_text_once_and_the_budget_held(lengths, budget):
    lengths = np.array(lengths, dtype=np.int64)
    batches = list(token_batches(lengths, budget))
    assert sorted(np.concatenate(batches).tolist() if batches else []) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * lengths[batch].max() <= budget or len(batch) == 1


def test_longest_first_and_ties_in_the_order_given():
    batches = list(token_batches(np.array([3, 9, 3, 9, 1]), 18))
    assert [b.tolist() for b in batches] == [[1, 3], [0, 2, 4]]
