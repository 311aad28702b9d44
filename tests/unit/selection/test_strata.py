"""Edges against sorted scores, and draws against what lies between two edges."""

import numpy as np
import pytest

from corpusfit.selection.choosing import ScoredPart
from corpusfit.selection.examples import SHARES, _edges, _sample, draw, places_of


def cut(scores, *places):
    """Scores as parts of these sizes."""
    pieces = np.split(np.asarray(scores, np.float32), places)
    return lambda: [ScoredPart(i, s, np.ones(len(s), np.int64)) for i, s in enumerate(pieces)]


def edges(parts, *, seed, also=()):
    return _edges([_sample(seed, 1.0, 0, parts())], also)


def draw_between(parts, at, each, seed):
    return places_of([draw(seed, at, each, 0, parts())[:-1]], each)


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=20_000).astype(np.float32)


def test_edges_are_quantiles_of_all_scores_where_all_are_looked_at(scores):
    found = edges(cut(scores, 700, 9_000), seed=0)
    ranked = np.sort(scores)[::-1]
    assert found.tolist() == [ranked[round(share * len(scores)) - 1] for share in SHARES]
    taken = [(scores >= edge).mean() for edge in found]
    assert taken == pytest.approx(SHARES, abs=1e-4)


def test_a_score_that_is_asked_for_is_among_them(scores):
    found = edges(cut(scores), seed=0, also=(0.123,))
    assert np.float32(0.123) in found
    assert (np.diff(found) < 0).all()


def test_of_very_many_a_sample_is_enough():
    scores = np.random.default_rng(1).normal(size=450_000).astype(np.float32)
    found = edges(cut(scores, 100_000, 300_000), seed=0)
    taken = [(scores >= edge).mean() for edge in found]
    assert taken == pytest.approx(SHARES, rel=0.3, abs=0.005)
    assert found.tolist() == edges(cut(scores, 100_000, 300_000), seed=0).tolist()


def test_each_stretch_gives_as_many_as_asked_or_all(scores):
    parts, at = cut(scores, 700, 9_000), np.array([2.0, 0.5, -3.9], np.float32)
    drawn = draw_between(parts, at, 7, seed=0)
    by_part = {part.index: part.scores for part in parts()}
    found = np.concatenate([by_part[i][places] for i, places in drawn.items()])
    stretches = [found >= 2, (found < 2) & (found >= 0.5), (found < 0.5) & (found >= -3.9)]
    lowest = (scores < -3.9).sum()
    assert [s.sum() for s in stretches] == [7, 7, 7]
    assert (found < -3.9).sum() == min(7, lowest)
    assert all((np.diff(places) > 0).all() for places in drawn.values())
    again = draw_between(parts, at, 7, seed=0)
    assert {i: p.tolist() for i, p in again.items()} == {i: p.tolist() for i, p in drawn.items()}
    other = draw_between(parts, at, 7, seed=1)
    assert {i: p.tolist() for i, p in other.items()} != {i: p.tolist() for i, p in drawn.items()}


def test_the_best_are_among_them(scores):
    parts, runs = cut(scores, 700, 9_000)(), (slice(0, 1), slice(1, 3))
    drawn = [draw(0, np.array([1.0], np.float32), 7, i, parts[run]) for i, run in enumerate(runs)]
    best = places_of([found[-1:] for found in drawn], 7)
    starts = {0: 0, 1: 700, 2: 9_000}
    places = sorted(starts[i] + place for i, own in best.items() for place in own.tolist())
    assert places == sorted(np.argsort(-scores)[:7].tolist())
    together = places_of(drawn, 7)  # each once
    assert all(set(own) <= set(together[i]) for i, own in best.items())
    assert all((np.diff(own) > 0).all() for own in together.values())


def test_draws_are_uniform(scores):
    at = np.array([1.0], np.float32)
    parts = cut(scores[:200], 60)
    high = np.flatnonzero(scores[:200] >= 1)
    times = np.zeros(200)
    for seed in range(600):
        for index, places in draw_between(parts, at, 3, seed=seed).items():
            times[places + 60 * index] += 1
    assert times[high].sum() == 600 * 3
    expected = 600 * 3 / len(high)
    assert (np.abs(times[high] - expected) < 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("scores", [[], [0.5], [0.5] * 40])
def test_odd_scores(scores):
    parts = cut(scores)
    at = edges(parts, seed=0)
    assert at.tolist() == sorted({*map(np.float32, scores)})
    drawn = draw_between(parts, at, 5, seed=0)
    assert sum(len(p) for p in drawn.values()) == min(5, len(scores))
