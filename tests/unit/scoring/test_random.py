"""`random` is fair: held to the closed form of the Cauchy distribution, and to equal rates."""

import numpy as np
import pytest

from corpusfit.core.types import text_array
from corpusfit.scoring.methods.random import RandomScorer
from corpusfit.text.reading import joined_scores


def segment_means(units: int, segments: int, seed: int = 0) -> np.ndarray:
    """float32 [segments]: scores of segments of so many different units."""
    texts = text_array([f"{units} {i}" for i in range(units * segments)])
    counts = np.full(segments, units, np.int32)
    return joined_scores(RandomScorer(seed).score(texts), counts, summed=False)


@pytest.mark.parametrize("units", [1, 2, 15])
def test_a_segment_s_score_is_standard_cauchy_for_any_number_of_units(units):
    stats = pytest.importorskip("scipy.stats")
    assert stats.kstest(segment_means(units, 4_000), "cauchy").pvalue > 0.01


@pytest.mark.parametrize("share", [0.02, 0.2, 0.8])
def test_long_and_short_segments_are_taken_at_equal_rates(share):
    scores = [segment_means(units, 10_000) for units in (1, 4, 15)]
    least = np.quantile(np.concatenate(scores), 1 - share)
    rates = [(s > least).mean() for s in scores]
    # four standard deviations of a share of 10,000
    assert rates == pytest.approx([share] * 3, abs=4 * np.sqrt(share * (1 - share) / 10_000))


def test_another_seed_is_another_draw_and_the_same_seed_the_same():
    first, again, other = (segment_means(2, 2_000, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    both = ((first > 0) & (other > 0)).mean()
    assert both == pytest.approx(0.25, abs=0.04)
