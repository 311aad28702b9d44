"""N-grams and their tables agree with plain Python on any tokens."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import count_each, find_each, gram_at, grams_of, table_of
from corpusfit.scoring.tokens import written_tokens


def grams_in(ids, order):
    """The n-grams of one text of some tokens."""
    return np.array([gram_at(ids, i, order) for i in range(len(ids) - order + 1)], np.uint64)


TEXTS = st.lists(st.text("aB .é日", max_size=20), max_size=6)


@given(TEXTS, st.integers(1, 4))
def test_ngrams_are_those_of_each_text(texts, order):
    grams, bounds = grams_of(*buffers(text_array(texts)), table(), order)
    assert len(bounds) == len(texts) + 1
    for text, first, last in zip(texts, bounds[:-1], bounds[1:], strict=True):
        assert grams[first:last].tolist() == grams_in(written_tokens(text)[0], order).tolist()
    found, counts, ends = count_each(grams, bounds)
    for i, text in enumerate(texts):
        here = slice(ends[i], ends[i + 1])
        want = Counter(grams_in(written_tokens(text)[0], order).tolist())
        assert dict(zip(found[here].tolist(), counts[here].tolist(), strict=True)) == want


@given(st.sets(st.integers(1, 2**64 - 1), max_size=60), st.sets(st.integers(0, 2**64 - 1)))
def test_a_table_finds_what_is_in_it_and_nothing_else(inside, others):
    listed = np.array(sorted(inside), np.uint64)
    index = table_of(listed)
    assert find_each(*index, listed).tolist() == list(range(len(listed)))
    outside = np.array(sorted(others - inside), np.uint64)
    assert (find_each(*index, outside) == -1).all()


def test_word_order_matters_in_an_ngram():
    ids, written = written_tokens("One two one")
    assert written == ["one", "two", "one"]
    assert len(set(grams_in(ids, 2).tolist())) == 2
