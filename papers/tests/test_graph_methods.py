"""`textrank` and `textgram` against networkx on a dense matrix of similarities."""

import networkx as nx
import numpy as np
import pytest

from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.types import Paired, text_array
from corpusfit.scoring import registry
from corpusfit_papers import similarity


def vectors(seed, n, d=12):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) + 1.5 * np.eye(d)[rng.integers(0, d, n)]).astype(np.float32)


def by_networkx(rows, neighbors, pairs, tolerance=1e-6):
    """log(n · PageRank): each row's best neighbors, of all those pairs the best, no others."""
    unit = rows.astype(np.float64) / np.linalg.norm(rows, axis=1, keepdims=True)
    similarities = unit @ unit.T
    n = len(rows)
    listed = {}
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: -similarities[i, j])
        for j in others[:neighbors]:
            if similarities[i, j] > 0:
                listed[min(i, j), max(i, j)] = similarities[i, j]
    best = sorted(listed, key=lambda pair: -listed[pair])[: pairs or None]
    matrix = np.zeros((n, n))
    for i, j in best:
        matrix[i, j] = matrix[j, i] = similarities[i, j]
    ranks = nx.pagerank(nx.from_numpy_array(matrix), tol=tolerance, max_iter=1000)
    return np.log(n * np.array([ranks[i] for i in range(n)]))


def scored(name, corpus, target=None, **settings):
    method = registry.build(name, settings)
    half = len(corpus) // 2
    shards = [(3, corpus[:half]), (5, corpus[half:half]), (6, corpus[half:])]
    found = dict(method.score_corpus(shards, target, target, seed=0))
    assert list(found) == [3, 5, 6]
    return np.concatenate(list(found.values()))


@pytest.mark.parametrize("neighbors", [1, 3, 100])
@pytest.mark.parametrize("pairs", [0, 7, 60, 10_000])
def test_textrank_is_pagerank_on_the_strongest_pairs(neighbors, pairs):
    corpus = vectors(0, 90)
    found = scored("textrank", corpus, corpus[:1], neighbors=neighbors, pairs=pairs)
    np.testing.assert_allclose(found, by_networkx(corpus, neighbors, pairs), atol=2e-4)


def test_tolerance_is_networkxs():
    corpus = vectors(1, 120)
    for tolerance in (1e-3, 1e-12):
        found = scored("textrank", corpus, corpus[:1], neighbors=4, tolerance=tolerance)
        want = by_networkx(corpus, 4, 0, tolerance)
        np.testing.assert_allclose(found, want, atol=2e-4)


def test_textrank_does_not_look_at_the_target():
    corpus = vectors(2, 40)
    one, other = (scored("textrank", corpus, vectors(seed, 5)) for seed in (3, 4))
    assert (one == other).all()


WORDS = ["the cell binds", "the cell", "cell grows", "the cell binds it", "a market", "x"]
# the cell 3, cell binds 2; then, once each: cell grows, binds it, a market.


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({"top": 2}, [0, 1, 3]),  # those with "the cell" or "cell binds"
        ({"top": 100}, [0, 1, 2, 3, 4]),  # all with a bigram
        ({"top": 2, "anchors": 1}, [1]),  # has least beside it
        ({"top": 2, "anchors": 2}, [0, 1]),
        ({"order": 3, "top": 1}, [0, 3]),
    ],
)
def test_textgram_is_pagerank_with_typical_target_units_joined(settings, chosen):
    corpus, near = vectors(5, 60), vectors(6, len(WORDS))
    target = Paired(text_array(WORDS), near)
    found = scored("textgram", corpus, target, neighbors=5, pairs=150, **settings)
    want = by_networkx(np.concatenate([corpus, near[chosen]]), 5, 150)[: len(corpus)]
    np.testing.assert_allclose(found, want, atol=2e-4)


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({"top": 2}, [0, 0, 1, 3, 3]),  # "the cell", "cell binds"
        ({"top": 100}, [0, 0, 1, 2, 3, 3, 3, 4, 4]),  # once for each different bigram
        ({"top": 2, "anchors": 2}, [0, 1]),  # the second copy of 0 comes after 1
    ],
)
def test_with_copies_a_unit_joins_once_for_each_listed_bigram(settings, chosen):
    """Algorithm 1 appends a sentence for every bigram of the list that it has."""
    words = [*WORDS[:4], "the cell the cell" if settings["top"] == 100 else "a market"]
    corpus, near = vectors(5, 40), vectors(6, len(words))
    target = Paired(text_array(words), near)
    found = scored("textgram", corpus, target, copies=True, pairs=0, **settings)
    want = by_networkx(np.concatenate([corpus, near[chosen]]), 100, 0)[: len(corpus)]
    np.testing.assert_allclose(found, want, atol=2e-4)


def test_what_is_near_the_target_gains_by_it():
    corpus, near = vectors(7, 60), vectors(8, 1)
    target = Paired(text_array(["the cell"] * 5), np.repeat(near, 5, axis=0))
    alone = scored("textrank", corpus, near, neighbors=5)
    joined = scored("textgram", corpus, target, neighbors=5)
    unit = corpus / np.linalg.norm(corpus, axis=1, keepdims=True)
    nearest = np.argsort(-(unit @ near[0]))[:5]
    assert (joined - alone)[nearest].mean() > (joined - alone).mean() + 0.1


def test_a_unit_equal_to_a_target_unit_is_a_unit_like_any_other():
    corpus = vectors(9, 30)
    target = Paired(text_array(["the cell"] * 3), corpus[:3])
    found = scored("textgram", corpus, target)
    want = by_networkx(np.concatenate([corpus, corpus[:3]]), 100, 0)[:30]
    np.testing.assert_allclose(found, want, atol=2e-4)


def test_units_alone_share_the_lowest_score():
    corpus = np.concatenate([np.eye(6), np.eye(6)[:2]]).astype(np.float32)
    found = scored("textrank", corpus, corpus[:1])
    assert len(set(found[2:6].tolist())) == 1
    assert found[[0, 1, 6, 7]].min() > found[2:6].max()


def test_a_target_without_bigrams_is_refused():
    target = Paired(text_array(["one", "two"]), vectors(0, 2))
    with pytest.raises(InputError, match=r"method\.order"):
        scored("textgram", vectors(1, 4), target)


def test_above_the_exact_size_cells_are_used(monkeypatch):
    corpus = vectors(10, 3000)
    exact = scored("textrank", corpus, corpus[:1], neighbors=10)
    monkeypatch.setattr(similarity, "EXACT", 2999)
    cells = scored("textrank", corpus, corpus[:1], neighbors=10)
    np.testing.assert_allclose(cells, exact, atol=1e-4)  # three cells, all of them near


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan")])
def test_tolerance_is_checked(tolerance):
    with pytest.raises(UsageError, match=r"method\.tolerance"):
        registry.build("textrank", {"tolerance": tolerance})
