"""Counts of scores, against direct counts."""

import numpy as np
import pytest

from corpusfit.selection.spread import read_spread, spread_of, write_spread


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=900).astype(np.float32)


def test_every_segment_is_in_a_bin(scores):
    found = spread_of(scores)
    middle = (scores > found.bins[20]) & (scores < found.bins[40])
    assert found.heights[20:40].sum() == middle.sum()
    assert found.heights.sum() == len(scores)


def test_what_is_stored_is_read(scores, tmp_path):
    found = spread_of(scores)
    write_spread(tmp_path / "s", found)
    for stored, values in zip(read_spread(tmp_path / "s"), found, strict=True):
        np.testing.assert_array_equal(stored, values)
    assert read_spread(tmp_path / "none") is None


@pytest.mark.parametrize(
    "scores",
    [
        [],
        [0.0] * 90 + [1.0] * 10,
        [0.0] * 5 + [1.0] * 95,
        [1e-9 * i for i in range(100)],
        [2.0**i for i in range(100)],
        [7.0] * 100,
    ],
)
def test_bins_separate_scores_at_any_scale(scores):
    found = spread_of(np.asarray(scores, np.float32))
    assert (np.diff(found.bins) > 0).all()
    assert found.heights.sum() == len(scores)
    several = np.count_nonzero(found.heights) > 1
    assert several == (len(set(scores)) > 1)
