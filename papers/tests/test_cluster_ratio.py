"""`cluster_ratio`: its clustering against scikit-learn, its scores against the formula."""

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.scoring import registry
from corpusfit_papers.methods.cluster_ratio import spherical_k_means


def topics(n, places, seed, noise=0.12, width=20):
    """n unit vectors around each of some axes."""
    rng = np.random.default_rng(seed)
    x = np.repeat(np.eye(width)[places], n, axis=0)
    x = x + noise * rng.standard_normal((len(places) * n, width))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


CORPUS = topics(60, range(8), 0)
TARGET = topics(30, [2, 5], 1)


def fit(target=TARGET, background=CORPUS, seed=4, **settings):
    return registry.build("cluster_ratio", settings).fit(target, background, seed=seed)


def test_k_means_finds_the_topics():
    x = topics(60, range(8), 0, noise=0.01)
    centers = spherical_k_means(x, 8, np.random.default_rng(0))
    of = (x @ centers.T).argmax(axis=1).reshape(8, 60)
    assert (of == of[:, :1]).all()
    assert len(set(of[:, 0])) == 8
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("k", [3, 20])
def test_k_means_is_as_good_as_scikit_learns(k):
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(k)
    x = np.concatenate([CORPUS, topics(200, range(12), 5)])
    peer = KMeans(k, n_init=5, random_state=0).fit(x).cluster_centers_
    peer = peer / np.linalg.norm(peer, axis=1, keepdims=True)
    ours = spherical_k_means(x, k, rng)
    assert (x @ ours.T).max(axis=1).mean() > 0.98 * (x @ peer.T).max(axis=1).mean()


def test_each_center_is_the_mean_direction_of_its_rows():
    centers = spherical_k_means(CORPUS, 5, np.random.default_rng(1))
    of = (CORPUS @ centers.T).argmax(axis=1)
    for j in range(5):
        mean = CORPUS[of == j].mean(axis=0)
        np.testing.assert_allclose(centers[j], mean / np.linalg.norm(mean), atol=1e-5)


def test_no_more_centers_than_different_rows():
    x = np.repeat(np.eye(4, dtype=np.float32)[:3], 5, axis=0)
    assert len(spherical_k_means(x, 10, np.random.default_rng(0))) == 3
    assert len(spherical_k_means(np.zeros((6, 4), np.float32), 3, np.random.default_rng(0))) <= 3


@pytest.mark.parametrize("softness", [0.0, 0.5])
def test_the_score_is_the_formula(softness):
    scorer = fit(clusters="4,8", softness=softness, smoothing=0.3)
    want, first = np.zeros(len(CORPUS)), 0
    for size, temperature in zip(scorer.sizes, scorer.temperatures, strict=True):
        centers = scorer.centroids[first : first + size].astype(np.float64)

        def belonging(x, centers=centers, temperature=temperature):
            cosines = x @ centers.T
            if not softness:
                return np.eye(len(centers))[cosines.argmax(axis=1)]
            powers = np.exp(cosines / temperature)
            return powers / powers.sum(axis=1, keepdims=True)

        assert temperature == pytest.approx(softness * (CORPUS @ centers.T).std(axis=1).mean())
        p, q = (belonging(x).mean(axis=0) + 0.3 / size for x in (TARGET, CORPUS))
        want += belonging(CORPUS) @ np.log(p / q) / 2
        first += size
    np.testing.assert_allclose(scorer.score(CORPUS), want, atol=1e-4)


def test_the_targets_topics_come_first():
    scores = fit().score(topics(40, range(8), 9)).reshape(8, 40)
    assert scores[[2, 5]].min() > scores[[0, 1, 3, 4, 6, 7]].max()


def test_another_target_has_the_same_clusters():
    one, other = fit(), fit(topics(3, [7], 2))
    assert (one.centroids == other.centroids).all()
    assert one.temperatures == other.temperatures
    assert (one.ratio != other.ratio).any()
    assert (fit(seed=5).centroids != one.centroids).any()


def test_soft_memberships_leave_no_ties():
    new = topics(40, range(8), 9)
    assert len(np.unique(fit(softness=0.0).score(new))) < 100
    assert len(np.unique(fit().score(new))) == len(new)


def test_few_background_texts_make_few_clusters():
    assert fit(background=CORPUS[::8]).sizes == (6,) * 4
    alone = fit(background=CORPUS[:1])
    assert alone.sizes == (1,) * 4
    np.testing.assert_allclose(alone.score(CORPUS), 0.0, atol=1e-6)


@pytest.mark.parametrize("background", [np.ones((40, 20)), np.zeros((40, 20))])
def test_where_all_texts_are_equal_all_scores_are(background):
    scores = fit(background=background.astype(np.float32)).score(CORPUS)
    np.testing.assert_allclose(scores, 0.0, atol=1e-5)


def test_a_target_that_is_half_of_the_corpus_is_still_found():
    corpus = np.concatenate([topics(60, [1], 3), topics(60, [6], 4)])
    scores = fit(corpus[:60], corpus).score(corpus)
    assert scores[:60].min() > 0.0 > scores[60:].max()


@pytest.mark.parametrize("clusters", ["", "0", "16,", "16;64", "-4", "2.5"])
def test_clusters_are_whole_numbers_with_commas(clusters):
    with pytest.raises(UsageError, match=r"method\.clusters"):
        registry.build("cluster_ratio", {"clusters": clusters})
