"""Coverage with unseen n-grams, against a greedy choice by hand."""

import numpy as np
import pytest

from corpusfit.core.errors import InputError
from corpusfit.core.types import text_array
from corpusfit.scoring import registry

TARGET = text_array(["a b c", "a b", "a b", "c d", "x y"])  # ab 3, bc 1, cd 1, xy 1


def ranks(texts, **settings):
    """Texts in the order they are taken."""
    method = registry.build("ngram_coverage_unseen", {"order": 2, **settings})
    corpus = [(0, text_array(texts[:2])), (1, text_array(texts[2:]))]
    background = text_array(["x y", "x y", "a b"])
    found = method.score_corpus(corpus, TARGET, background, seed=0)
    scores = np.concatenate([s for _, s in found])
    assert len(set(scores.tolist())) == len(texts)
    assert scores.max() == 1.0
    assert scores.min() > 0.0
    return [texts[i] for i in np.argsort(-scores)]


def test_what_is_covered_counts_no_more():
    texts = ["a b", "q r", "a b c", "A, B!", "c d x", "x y", "b", "z a b"]
    # a b: 3 of 3; x y and b c (in a b c: 1/2) and c d (in c d x: 1/2) are new after it.
    first = ["a b", "x y", "a b c", "c d x"]
    # Nothing is new any more; the rest by its weight: 3/1, 3/2, none, none.
    rest = ["A, B!", "z a b", "q r", "b"]
    assert ranks(texts) == first + rest


def test_not_adaptive_lists_the_corpus():
    assert ranks(["a b", "x y", "b c"], adaptive=False) == ["x y", "a b", "b c"]


def test_only_the_commonest_count():
    assert ranks(["x y", "c d", "a b"], top=1)[0] == "a b"


def test_a_target_shorter_than_an_ngram_is_refused():
    with pytest.raises(InputError, match=r"method\.order"):
        ranks(["a b", "c", "d"], order=4)
