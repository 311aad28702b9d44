"""Purity by the example in Manning et al. (2008), 16.3, and against scikit-learn's table."""

import numpy as np
import pytest

from corpusfit.domains.describe import confusion, purity


def test_the_textbooks_example():
    """Figure 16.4: 17 points in three clusters, purity (5 + 4 + 3) / 17."""
    clusters = [0] * 6 + [1] * 6 + [2] * 5
    classes = [0] * 5 + [1] + [0, 1, 1, 1, 1, 2] + [0, 0, 2, 2, 2]
    counts = confusion(np.array(clusters), np.array(classes), 3, 3)
    assert purity(counts) == pytest.approx(12 / 17)


def test_counts_are_scikit_learns():
    from sklearn.metrics.cluster import contingency_matrix

    rng = np.random.default_rng(0)
    clusters, domains = rng.integers(4, size=200), rng.integers(3, size=200)
    theirs = contingency_matrix(domains, clusters).T
    np.testing.assert_array_equal(confusion(clusters, domains, 4, 3), theirs)


def test_at_random_the_purity_is_near_the_largest_share():
    domains = np.repeat(np.arange(5), 2_000)
    counts = confusion(np.random.default_rng(0).integers(5, size=10_000), domains, 5, 5)
    assert 0.2 < purity(counts) < 0.23  # the paper's Table 1 has 15.08 with unequal domains
