"""P@1 against scikit-learn's search on the same vectors, and its rules by hand."""

import numpy as np
import pytest

from corpusfit_papers.retrieving import deduplicate, nearest, retrieved


def vectors(seed, n, d=12):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


@pytest.mark.parametrize("block", [1, 1_000, 2**23])
def test_the_nearest_and_its_margin_are_scikit_learns(block):
    from sklearn.neighbors import NearestNeighbors

    queries, others = vectors(0, 200), vectors(1, 90)
    search = NearestNeighbors(n_neighbors=2, metric="cosine", algorithm="brute").fit(others)
    distances, places = search.kneighbors(queries)
    place, lead = nearest(queries, others, block)
    assert (place == places[:, 0]).all()
    np.testing.assert_allclose(lead, distances[:, 1] - distances[:, 0], atol=1e-6)


def test_precision_is_that_of_scikit_learns_search():
    """Translations near their sentences, so that some are retrieved and some are not."""
    from sklearn.neighbors import NearestNeighbors

    source = vectors(2, 300)
    target = source + 1.2 * vectors(3, 300)
    side = deduplicate([str(i) for i in range(300)])
    for queries, others in ((source, target), (target, source)):
        search = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute").fit(others)
        expected = search.kneighbors(queries, return_distance=False)[:, 0] == np.arange(300)
        assert 0.2 < expected.mean() < 0.9
        assert (retrieved(side, side, queries, others) == expected).all()


def test_a_tie_is_a_miss():
    """A model with one vector, or a zero vector, for all sentences retrieves nothing."""
    side = deduplicate(["a", "b", "c"])
    for same in (np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)):
        assert not retrieved(side, side, same, same).any()
    close = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8]], np.float32)
    assert retrieved(side, side, close, close).tolist() == [True, False, False]


def test_copies_are_one_sentence():
    """Two sentences with the same translation: both retrieve it, and it is no tie with itself."""
    source, target = (
        deduplicate(["Guten Tag", "Hallo", "Nacht"]),
        deduplicate(["Hi", "Hi", "Night"]),
    )
    assert (target.texts, target.places.tolist()) == (["Hi", "Night"], [0, 0, 1])
    assert deduplicate(["e\u0301", "é", "e"]).places.tolist() == [0, 0, 1]
    queries = np.array([[1, 0.1], [1, 0.2], [0, 1]], np.float32)
    others = np.array([[1, 0], [0, 1]], np.float32)
    assert retrieved(source, target, queries, others).tolist() == [True, True, True]
    # from English, one vector has one nearest: at most one of two translations is retrieved
    assert retrieved(target, source, others, queries).tolist() == [True, False, True]
