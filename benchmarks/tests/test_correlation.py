"""Correlations against scipy, within groups on centered values, and p against enumeration."""

import numpy as np
import pytest

from correlation import correlation, correlation_within

stats = pytest.importorskip("scipy.stats", reason="the extra train is not installed")


def test_a_correlation_between_groups_does_not_count():
    """Simpson's paradox: r is near 1 overall, and -1 within each group."""
    x = [1.0, 2.0, 3.0, 11.0, 12.0, 13.0]
    y = [3.0, 2.0, 1.0, 13.0, 12.0, 11.0]
    assert stats.pearsonr(x, y).statistic > 0.9
    found = correlation_within("aaabbb", x, y)
    assert (found.n, found.groups) == (6, 2)
    assert found.pearson == pytest.approx(-1)
    # of 3! * 3! permutations, two have as large a correlation
    assert found.p == pytest.approx(2 / 36, abs=0.01)


def test_it_is_scipys_correlation_of_centered_values():
    rng = np.random.default_rng(4)
    groups = np.repeat([0, 1, 2], [4, 6, 5])
    x, y = rng.normal(size=(2, 15)) + 10 * groups
    centered = [v - np.bincount(groups, v)[groups] / np.bincount(groups)[groups] for v in (x, y)]
    found = correlation_within(groups.tolist(), x, y)
    assert found.pearson == pytest.approx(stats.pearsonr(*centered).statistic)
    assert 0.01 < found.p < 1


@pytest.mark.parametrize(
    ("groups", "x"),
    [("abc", [1.0, 2.0, 3.0]), ("aab", [1.0, 2.0, 9.0]), ("aaa", [2.0, 2.0, 2.0]), ("", [])],
)
def test_too_few_or_constant_values_have_no_correlation(groups, x):
    assert correlation_within(groups, x, x) is None


def test_correlation_is_that_of_scipy():
    rng = np.random.default_rng(15)
    x = rng.normal(size=12)
    y = -x + rng.normal(size=12)
    found = correlation(x.tolist(), y.tolist())
    pearson = stats.pearsonr(x, y)
    spearman = stats.spearmanr(x, y)
    assert found.n == 12
    assert (found.pearson, found.pearson_p) == pytest.approx(tuple(pearson))
    assert found.spearman == pytest.approx(spearman.statistic)
    assert found.spearman_p == pytest.approx(spearman.pvalue, abs=0.02)
    assert correlation(x.tolist(), y.tolist()) == found


@pytest.mark.parametrize("x", [[], [1.0, 2.0], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3, 0.3]])
def test_too_few_or_constant_values_have_none(x):
    y = [1.0, 2.0, 3.0][: len(x)]
    assert correlation(x, y) is None
    assert correlation(y, x) is None
