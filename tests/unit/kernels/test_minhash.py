"""Keys of MinHash against plain minima, and against the probability that alike sets share one."""

import numpy as np
import pytest

from corpusfit.kernels.overlap import band_keys

BANDS, ROWS = 8, 3


def drawn(seed):
    chance = np.random.default_rng(seed)
    factors, offsets = chance.integers(0, 2**32, (2, BANDS * ROWS)).astype(np.uint32)
    return factors | np.uint32(1), offsets


def keys_of(texts, seed):
    bounds = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    return band_keys(np.concatenate(texts), bounds, *drawn(seed), ROWS)


def test_two_texts_share_a_key_where_all_minima_of_its_orders_are_equal():
    chance = np.random.default_rng(0)
    pool = chance.integers(0, 2**64, 40, np.uint64)
    texts = [chance.choice(pool, chance.integers(1, 40), replace=False) for _ in range(60)]
    keys = keys_of(texts, 1)
    factors, offsets = (np.asarray(drawn(1)[i], object) for i in range(2))
    low = np.array(
        [
            [
                min((int(g >> 32) * f + o) % 2**32 for g in map(int, text))
                for f, o in zip(factors, offsets, strict=True)
            ]
            for text in texts
        ]
    ).reshape(len(texts), BANDS, ROWS)
    expected = (low[:, None] == low[None]).all(3).transpose(2, 0, 1)
    shared = keys[:, :, None] == keys[:, None, :]
    np.testing.assert_array_equal(shared, expected)
    assert 0.01 < expected[:, ~np.eye(len(texts), dtype=bool)].mean() < 0.5


@pytest.mark.parametrize(("common", "similarity"), [(80, 2 / 3), (90, 9 / 11)])
def test_alike_texts_share_a_key_with_the_closed_forms_probability(common, similarity):
    chance, found, tries = np.random.default_rng(5), 0, 400
    for seed in range(tries):
        grams = chance.integers(0, 2**64, 200 - common, np.uint64)
        keys = keys_of([grams[:100], grams[100 - common :]], seed)
        found += bool((keys[:, 0] == keys[:, 1]).any())
    expected = 1 - (1 - similarity**ROWS) ** BANDS
    assert abs(found / tries - expected) < 4 * np.sqrt(expected * (1 - expected) / tries)
