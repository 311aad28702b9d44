"""Characteristic words, against scipy."""

import numpy as np
import pytest

from corpusfit.domains.describe import characteristic_words


def test_own_words_are_those_that_diverge_most():
    """Against scipy's parts of the divergence."""
    from scipy.special import rel_entr

    texts = ["cell bank", "cell assay", "bank market", "bank share"]
    found = characteristic_words(texts, np.array([0, 0, 1, 1]), 2)
    assert found == [["cell"], ["bank"]]
    parts = rel_entr(np.array([2, 1]) / 4, np.array([2, 3]) / 8)
    assert parts[0] == pytest.approx(0.5 * np.log(2))
    assert parts[0] > parts[1]


def test_a_word_is_one_word_in_every_form():
    texts = ["ce\u00adll bank", "ｃｅｌｌ assay", "bank market", "bank share"]
    assert characteristic_words(texts, np.array([0, 0, 1, 1]), 2) == [["cell"], ["bank"]]


def test_a_cluster_without_texts_has_no_words():
    assert characteristic_words(["a cell", "a cell"], np.array([0, 0]), 2)[1] == []
