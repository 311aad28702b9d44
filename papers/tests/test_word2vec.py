"""word2vec against a plain loop over its formulas, and on words of two topics."""

import math

import numpy as np
import pytest

from corpusfit_papers.baselines import word_vectors
from corpusfit_papers.word2vec import train_words

MASK = 2**64 - 1


class Chance:
    """SplitMix64, as its authors write it."""

    def __init__(self, seed):
        self.state = seed

    def __call__(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return ((x ^ (x >> 31)) >> 11) * 2.0**-53


def plainly(sentences, counts, vectors, window, negative, sample, epochs, rate, seed):
    """Mikolov et al. (2013), equations 4 and 5, word by word in float64."""
    chance, n = Chance(seed), sum(map(len, sentences))
    inner, outer = vectors.astype(np.float64), np.zeros(vectors.shape)
    table = np.cumsum(np.asarray(counts) ** 0.75)
    for epoch in range(epochs):
        before = 0
        for sentence in sentences:
            line = []
            for i, word in enumerate(sentence):
                share = counts[word] / n
                if sample and share > sample:
                    kept = (math.sqrt(share / sample) + 1) * sample / share
                    if kept < chance():
                        continue
                line.append((word, before + i))
            before += len(sentence)
            for a, (center, place) in enumerate(line):
                step = rate * max(1e-4, 1 - (epoch * n + place) / (epochs * n))
                reach = 1 + int(chance() * window)
                for b in range(max(0, a - reach), min(len(line), a + reach + 1)):
                    if b == a:
                        continue
                    word, error = line[b][0], np.zeros(vectors.shape[1])
                    for k in range(negative + 1):
                        other, label = center, 1.0
                        if k:
                            other = int(np.searchsorted(table, chance() * table[-1], "right"))
                            label = 0.0
                            if other == center:
                                continue
                        sigmoid = 1 / (1 + math.exp(-inner[word] @ outer[other]))
                        error += (label - sigmoid) * step * outer[other]
                        outer[other] += (label - sigmoid) * step * inner[word]
                    inner[word] += error
    return inner


@pytest.mark.parametrize("sample", [0.0, 0.05])
def test_against_a_plain_loop(sample):
    rng = np.random.default_rng(3)
    sentences = [rng.integers(0, 9, m).tolist() for m in (7, 1, 0, 12, 5)]
    ids = np.array([word for s in sentences for word in s], np.int32)
    starts = np.cumsum([0, *map(len, sentences)])
    counts = np.bincount(ids, minlength=9)
    start = rng.uniform(-0.5, 0.5, (9, 6)).astype(np.float32)
    settings = (3, 4, sample, 3, 0.1)
    found = start.copy()
    train_words(ids, starts, counts, found, *settings, 11)
    expected = plainly(sentences, counts, start, *settings, 11)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    assert np.abs(found - start).max() > 0.01


def test_texts_of_a_topic_are_near_each_other():
    """Without a word in common between topics; the same bytes for the same seed."""
    rng = np.random.default_rng(0)
    topics = [[f"{name}{i}" for i in range(30)] for name in ("law", "koran")]
    texts = [" ".join(rng.choice(topics[i % 2], 12)) for i in range(400)]
    found = word_vectors(texts, 5)
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    cosine = unit @ unit.T
    same = np.add.outer(np.arange(400), np.arange(400)) % 2 == 0
    assert cosine[same].mean() > cosine[~same].mean() + 0.5
    assert np.array_equal(found, word_vectors(texts, 5))


@pytest.mark.parametrize("texts", [["", "!?"], ["once only here"], ["a a", ""]])
def test_texts_without_known_words(texts):
    found = word_vectors(texts, 0)
    assert found.shape == (len(texts), 100)
    assert np.isfinite(found).all()
    assert not found[-1].any()
