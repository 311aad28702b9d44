"""Likeness: what a selection is worth beside random text and beside target texts."""

import numpy as np
import pytest

from corpusfit.core.types import text_array
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.scoring.likeness import FEWEST, FEWEST_WORDS, LITTLE, bigram_bits, likeness
from corpusfit.scoring.tokens import word_buffers

COMMON = ["the", "of", "and", "to", "in"] * 12
WORDS = {name: [f"{name}{i}" for i in range(60)] + COMMON for name in ("cell", "fund", "star")}


def sentences(rng, n, topic, size=20):
    return [" ".join(rng.choice(WORDS[topic], size)) for _ in range(n)]


@pytest.mark.parametrize(("topic", "foreign"), [("cell", False), ("fund", False), ("star", True)])
def test_only_a_target_that_the_corpus_lacks_is_foreign(topic, foreign):
    rng = np.random.default_rng(1)
    corpus = text_array(sentences(rng, 300, "cell") + sentences(rng, 2_000, "fund"))
    found = likeness(text_array(sentences(rng, 100, topic)), corpus, None, seed=0)
    assert found.foreign == foreign
    assert (found.closed < LITTLE) == foreign
    assert found.words == 50 * 20
    expected = (found.drawn - found.selected) / (found.drawn - found.target)
    assert found.closed == pytest.approx(expected)


def test_a_corpus_of_nothing_else_is_not_foreign():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        corpus = text_array(sentences(rng, 500, "cell"))
        target = text_array(sentences(rng, 60, "cell"))
        assert not likeness(target, corpus, None, seed=seed).foreign


def test_nothing_is_said_of_a_tiny_target():
    rng = np.random.default_rng(1)
    corpus = text_array(sentences(rng, 300, "fund"))
    target = sentences(rng, FEWEST, "star")
    assert likeness(text_array(target), corpus, None, seed=0).foreign
    assert likeness(text_array(target[1:]), corpus, None, seed=0) is None
    one_document = np.zeros(FEWEST, np.int64)
    assert likeness(text_array(target), corpus, one_document, seed=0) is None
    fewer_words = sentences(rng, FEWEST, "star", 2 * FEWEST_WORDS // FEWEST - 1)
    assert likeness(text_array(fewer_words), corpus, None, seed=0) is None


def test_the_bigram_model_is_that_of_its_formula_and_sums_to_one():
    texts = ["a b a c", "b a b", "c"]
    numbers, identities = number_words(*word_buffers(text_array(texts)), characters(), False)
    v = len(identities)
    begin = 0.75 * 4 / v / 11  # at most, of the begin, which follows nothing
    for before in range(1, v):
        every = np.array([[before, word] for word in range(v) if word != 1], np.uint32)
        found = sum(2 ** -bigram_bits(numbers, pair, v)[0] for pair in every)
        assert 1 - 1.001 * begin < found < 1
    a, b = 3, 4
    # 11 words and ends, 4 different; a follows b twice of three times, of two different words
    of_a = (3 - 0.75 + 0.75 * 4 / v) / 11
    expected = (2 - 0.75 + 0.75 * 2 * of_a) / 3
    assert 2 ** -bigram_bits(numbers, np.array([b, a], np.uint32), v)[0] == pytest.approx(expected)
