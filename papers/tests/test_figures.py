"""Figures of scores against a truth: scikit-learn's answers, and what a sort by hand gives."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from corpusfit_papers.figures import figures


def drawn(seed, n, levels):
    """Scores of so many different values, and a truth that goes with them a little."""
    chance = np.random.default_rng(seed)
    scores = (chance.integers(-levels, levels, n) / levels).astype(np.float32)
    inside = chance.random(n) < 0.1 + 0.3 * (scores > 0.2)
    inside[chance.integers(n)] = True
    return scores, inside


@pytest.mark.parametrize("levels", [1, 3, 50, 10**6])
@pytest.mark.parametrize("n", [1, 2, 37, 4_000])
def test_average_precision_is_that_of_scikit_learn(n, levels):
    for seed in range(5):
        scores, inside = drawn(seed, n, levels)
        found = figures(scores, inside).average_precision
        assert found == pytest.approx(average_precision_score(inside, scores), abs=1e-12)


def test_zero_and_minus_zero_are_equal_scores():
    scores = np.array([0.0, -0.0, 0.0, -1.0], np.float32)
    inside = np.array([False, True, False, True])
    want = average_precision_score(inside, scores)
    assert figures(scores, inside).average_precision == pytest.approx(want)
    assert figures(scores[[1, 0, 2, 3]], inside[[1, 0, 2, 3]]).average_precision == want


def test_known_answers():
    inside = np.array([True, False, True, False])
    assert figures(np.array([4, 3, 2, 1], np.float32), inside).average_precision == (1 + 2 / 3) / 2
    assert figures(np.zeros(4, np.float32), inside).average_precision == 0.5
    assert figures(inside.astype(np.float32), inside).average_precision == 1.0


def test_the_best_so_many_take_equal_scores_by_position():
    scores = np.repeat(np.array([1, 3, 2], np.float32), [500, 20, 480])
    inside = np.zeros(1_000, bool)
    inside[[0, 1, 505, 519, 520, 530]] = True
    curve = figures(scores, inside).curve
    assert [(p.share, p.segments) for p in curve] == [
        (0.01, 10),
        (0.05, 50),
        (0.1, 100),
        (0.2, 200),
        (0.5, 500),
    ]
    assert [round(p.precision * p.segments) for p in curve] == [1, 4, 4, 4, 4]
    assert [p.recall for p in curve] == [1 / 6, 4 / 6, 4 / 6, 4 / 6, 4 / 6]


@pytest.mark.parametrize("levels", [3, 10**6])
def test_the_histogram_is_that_of_numpy_between_the_quantiles(levels):
    scores, inside = drawn(0, 5_000, levels)
    found = figures(scores, inside).histogram
    edges = np.array(found.edges)
    assert len(edges) == 41
    low, high = np.quantile(scores, [0.001, 0.999], method="nearest")
    assert (edges[0], edges[-1]) == pytest.approx((low, high))
    for counts, of in ((found.inside, scores[inside]), (found.outside, scores[~inside])):
        assert counts[1:-1] == np.histogram(of.astype(np.float64), edges)[0].tolist()
        assert (counts[0], counts[-1]) == ((of < edges[0]).sum(), (of > edges[-1]).sum())
    assert sum(found.inside) + sum(found.outside) == 5_000


def test_the_histogram_of_equal_scores_has_them_in_one_bin():
    found = figures(np.full(7, 3, np.float32), np.arange(7) < 2).histogram
    assert (sorted(found.inside)[-2:], sorted(found.outside)[-2:]) == ([0, 2], [0, 5])
    assert (found.edges[0], found.edges[-1]) == (2.5, 3.5)
