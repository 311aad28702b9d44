"""The noise of masked language modeling, against the shares that BERT's paper states."""

import numpy as np

from corpusfit.kernels.batches import masked
from corpusfit.kernels.chance import place_keys

VOCABULARY = 1_000
MASK = 4
ORDINARY = np.arange(VOCABULARY) >= 5
EVERY = np.ones(VOCABULARY, np.bool_)


def rows(n: int, length: int) -> np.ndarray:
    ids = np.random.default_rng(0).integers(5, VOCABULARY, (n, length))
    ids[:, 0], ids[:, -1] = 2, 3
    return ids


def noise(ids, rate=0.15, begins=EVERY, step=0):
    others = np.flatnonzero(ORDINARY)
    return masked(ids, ORDINARY, begins, others, MASK, rate, place_keys(7, step, len(ids)))


def test_fifteen_in_a_hundred_of_which_eighty_ten_and_ten():
    ids = rows(2_000, 128)
    inputs, picked = noise(ids)
    n = picked.sum()
    assert abs(n / (ids >= 5).sum() - 0.15) < 0.003
    assert abs((inputs[picked] == MASK).sum() / n - 0.8) < 0.01
    left = inputs[picked] == ids[picked]  # one in a thousand is replaced by itself
    assert abs(left.sum() / n - 0.1) < 0.01
    assert (inputs[~picked] == ids[~picked]).all()


def test_special_tokens_are_neither_predicted_nor_put_in():
    ids = rows(500, 32)
    inputs, picked = noise(ids, rate=0.9)
    assert not picked[:, [0, -1]].any()
    changed = inputs[picked & (inputs != MASK)]
    assert (changed >= 5).all()


def test_a_row_is_masked_alike_wherever_it_stands():
    ids = rows(64, 40)
    keys = place_keys(7, 3, 64)
    others = np.flatnonzero(ORDINARY)
    whole = masked(ids, ORDINARY, EVERY, others, MASK, 0.15, keys)
    some = masked(ids[10:20], ORDINARY, EVERY, others, MASK, 0.15, keys[10:20])
    assert (whole[0][10:20] == some[0]).all()
    assert (whole[1][10:20] == some[1]).all()


def test_every_step_masks_anew():
    ids = rows(64, 40)
    assert (noise(ids, step=1)[1] != noise(ids, step=2)[1]).any()


def test_whole_words_are_predicted_together_at_the_same_rate():
    ids = rows(2_000, 128)
    begins = np.arange(VOCABULARY) % 3 != 0  # a third of the tokens go on with a word
    _, picked = noise(ids, begins=begins)
    goes_on = ORDINARY[ids[:, 1:]] & ORDINARY[ids[:, :-1]] & ~begins[ids[:, 1:]]
    assert (picked[:, 1:] == picked[:, :-1])[goes_on].all()
    assert abs(picked.sum() / (ids >= 5).sum() - 0.15) < 0.005
