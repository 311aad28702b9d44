"""Agreement without labels: against scipy's ranks, Cohen's kappa of scikit-learn, and simulations
whose answer is known."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from corpusfit.kernels.scores import mid_ranks
from corpusfit_papers.agreement import agreed_depth, class_share, kappas, spectral_weights


@pytest.mark.parametrize("k", [1, 30, 150])
def test_kappa_of_two_rankings_is_cohens(k):
    chance = np.random.default_rng(1)
    truth = chance.standard_normal(300)
    ranks = np.array([mid_ranks((truth + chance.standard_normal(300)).astype("f4")) for _ in "ab"])
    tops = [np.isin(np.arange(300), np.argsort(-r, kind="stable")[:k]) for r in ranks]
    found = kappas(ranks, np.array([0.3, 0.7]), [k])
    assert found[0] == pytest.approx(cohen_kappa_score(*tops))


def test_weights_follow_how_right_independent_rankings_are():
    """Parisi et al.: the eigenvector sorts independent ones by how right they are."""
    chance = np.random.default_rng(2)
    positive = np.arange(20_000) < 2_000
    noise = np.array([0.3, 0.6, 1.0, 2.0, 1e6])
    ranks = np.array(
        [mid_ranks((positive + s * chance.standard_normal(20_000)).astype("f4")) for s in noise]
    )
    weights = spectral_weights(ranks, 0.1, list("abcde"))
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(weights) < 0).all()
    assert weights[-1] < 0.01 < weights[-2]


def test_kin_share_one_voice():
    ranks = np.tile(mid_ranks(np.random.default_rng(3).standard_normal(100).astype("f4")), (3, 1))
    assert spectral_weights(ranks, 0.1, ["a", "a", "b"]) == pytest.approx([0.25, 0.25, 0.5])


def test_rankings_that_say_nothing_weigh_the_same():
    assert spectral_weights(np.full((4, 1), 0.5), 0.1, list("abcd")) == pytest.approx([0.25] * 4)


def test_a_ranking_that_ties_everything_is_not_trusted():
    """Wherever the domain lies in the order of the texts; here it is first."""
    chance = np.random.default_rng(6)
    inside = np.arange(3_000) < 300
    good = [mid_ranks((2 * inside + chance.standard_normal(3_000)).astype("f4")) for _ in "abc"]
    ranks = np.array([*good, np.full(3_000, 0.5)])
    weights = spectral_weights(ranks, 0.1, list("abcd"))
    assert weights[3] == pytest.approx(0, abs=1e-9)
    assert kappas(np.full((2, 100), 0.5), np.array([0.5, 0.5]), [10])[0] == pytest.approx(0)


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_agreement_ends_at_the_share_of_what_is_found(share):
    """Rankings that find the same set and order all else by chance agree down to its size."""
    chance = np.random.default_rng(4)
    n = 10_000
    inside = np.arange(n) < share * n
    ranks = np.array(
        [mid_ranks((3 * inside + chance.standard_normal(n)).astype("f4")) for _ in range(5)]
    )
    depths = [25, 50, 100, 200, 400, 500, 800, 1_600]
    depth = agreed_depth(ranks, np.full(5, 0.2), depths)
    assert share * n / 2.1 <= depth <= share * n


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_the_share_is_found_from_log_odds_at_equal_priors(share):
    """Two normals a distance of 3 apart have log odds 3x - 4.5."""
    chance = np.random.default_rng(5)
    x = chance.standard_normal(50_000) + 3.0 * (chance.random(50_000) < share)
    assert class_share(3.0 * x - 4.5) == pytest.approx(share, rel=0.08)


def test_the_share_is_never_nothing_or_all():
    assert class_share(np.full(10, -50.0)) == pytest.approx(0.05)
    assert class_share(np.full(10, 50.0)) == pytest.approx(0.95)
