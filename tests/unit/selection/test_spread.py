"""Counts of scores and lengths, against direct counts."""

import numpy as np
import pytest

from corpusfit.selection.spread import add_spreads, bins_of, count_spread, read_spread, write_spread


def spread(scores, tokens, selected):
    """Counted in three runs of parts."""
    scores, tokens = np.asarray(scores, np.float32), np.asarray(tokens, np.int64)
    runs = zip(*(np.array_split(each, 3) for each in (scores, tokens, selected)), strict=True)
    return add_spreads(count_spread(*run, bins_of(scores)) for run in runs)


@pytest.fixture
def counted():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=900).astype(np.float32)
    tokens = generator.integers(1, 900, 900)
    return spread(scores, tokens, tokens < 300), scores, tokens


def test_every_segment_is_in_a_bin(counted):
    found, scores, _ = counted
    middle = (scores > found.bins[20]) & (scores < found.bins[40])
    assert found.heights[20:40].sum() == middle.sum()
    assert found.heights.sum() == len(scores)


def test_quantiles_of_lengths_are_those_of_numpy_to_four_per_cent(counted):
    found, _, tokens = counted
    expected = [
        np.quantile(own, (0.1, 0.5, 0.9), method="inverted_cdf")
        for own in (tokens, tokens[tokens < 300])
    ]
    quantiles = np.array(found.quantiles((0.1, 0.5, 0.9)))
    assert (quantiles <= expected).all()
    assert quantiles == pytest.approx(np.array(expected), rel=0.05)


def test_what_is_stored_is_read(counted, tmp_path):
    found, *_ = counted
    write_spread(tmp_path / "s", found)
    stored = read_spread(tmp_path / "s")
    for name, values in vars(found).items():
        np.testing.assert_array_equal(getattr(stored, name), values, name)
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
    zero = np.zeros(len(scores), np.int64)
    found = spread(scores, zero, zero > 0)
    assert (np.diff(found.bins) > 0).all()
    assert found.heights.sum() == len(scores)
    several = np.count_nonzero(found.heights) > 1
    assert several == (len(set(scores)) > 1)
