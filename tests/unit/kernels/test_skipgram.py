"""Skip-grams: a step against the closed form, draws against their weights, words that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from corpusfit.kernels import skipgram as kernel
from corpusfit.kernels.skipgram import WIDTH, alias_table, skipgram, toward


def texts_of(*texts):
    return np.concatenate([[1, *text, 2] for text in texts]).astype(np.uint32)


def step(vector, others, grad, labels, rate, table):
    for k in range(len(others)):
        toward(vector, others[k], grad, labels[k], rate, table)


def loss(vector, others, labels):
    signs = np.where(labels == 1, 1, -1)
    return np.logaddexp(0, -signs * (others @ vector)).sum()


def test_a_step_goes_against_the_gradient_of_the_loss():
    rng = np.random.default_rng(0)
    vector, others = rng.normal(0, 0.3, WIDTH), rng.normal(0, 0.3, (6, WIDTH))
    labels = np.array([1, 0, 0, 0, 0, 0])
    rate = 0.05
    moved = vector.astype(np.float32), others.astype(np.float32), np.zeros(WIDTH, np.float32)

    step(*moved, labels, rate, kernel._sigmoids())

    # s(x) - label times the other vector
    off = 1 / (1 + np.exp(-(others @ vector))) - labels
    assert moved[2] == pytest.approx(-rate * off @ others, abs=2e-4)
    assert moved[1] == pytest.approx(others - rate * np.outer(off, vector), abs=2e-4)
    # and by differences of the loss itself
    at = 1e-6 * np.eye(WIDTH)
    slope = [
        (loss(vector + d, others, labels) - loss(vector - d, others, labels)) / 2e-6 for d in at
    ]
    assert moved[2] == pytest.approx(-rate * np.array(slope), abs=2e-4)


def test_scores_beyond_the_table_are_certain():
    vector, grad = np.full(WIDTH, 2, np.float32), np.zeros(WIDTH, np.float32)

    step(vector, np.full((1, WIDTH), 2, np.float32), grad, np.ones(1), 0.1, kernel._sigmoids())
    step(vector, np.full((1, WIDTH), -2, np.float32), grad, np.zeros(1), 0.1, kernel._sigmoids())

    assert np.abs(grad).max() < 1e-3


def test_the_alias_table_draws_by_weights():
    weights = np.array([1.0, 5.0, 0.5, 3.0, 10.0])

    chances, others = alias_table(weights)

    drawn = chances / 2.0**32
    np.add.at(drawn, others, 1 - chances / 2.0**32)
    assert drawn / len(weights) == pytest.approx(weights / weights.sum())


def test_words_that_share_their_neighbors_get_vectors_that_are_alike():
    rng = np.random.default_rng(0)
    # now and then 3 or 4 stands among 10 to 209, 5 or 6 among 210 to 409
    texts = []
    for i in range(2_000):
        pair, first = (((3, 4), 10), ((5, 6), 210))[i % 2]
        text = rng.integers(first, first + 200, 12)
        if rng.random() < 0.2:
            text[6] = rng.choice(pair)
        texts.append(text)

    numbers, vectors = skipgram(texts_of(*texts), 0)

    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    a, b, c, d = (unit[numbers == word][0] for word in (3, 4, 5, 6))
    assert min(a @ b, c @ d) > 0.5 > max(a @ c, a @ d, b @ c, b @ d)


def test_the_seed_decides_every_bit():
    words = texts_of(*np.random.default_rng(0).integers(3, 40, (60, 12)))

    first, again, other = (skipgram(words, seed)[1] for seed in (1, 1, 2))

    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_words_seen_once_have_no_vector_and_others_come_by_falling_count():
    numbers, vectors = skipgram(texts_of([3, 4, 5, 5, 5], [4, 7]), 0)

    assert numbers.tolist() == [5, 4]
    assert vectors.shape == (2, WIDTH)


@pytest.mark.parametrize("texts", [[], [[]], [[3]], [[3, 3, 3]], [[3, 4], [5]]])
def test_next_to_no_text_is_no_error(texts):
    words = texts_of(*texts) if texts else np.empty(0, np.uint32)

    numbers, vectors = skipgram(words, 0)

    assert len(numbers) == len(vectors) == (1 if texts == [[3, 3, 3]] else 0)
    assert np.isfinite(vectors).all()
