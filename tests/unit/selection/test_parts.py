"""How a corpus is split into parts decides nothing; drawing follows the closed form."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from choosing import choices
from corpusfit.core.plan import ChoosePlan
from corpusfit.kernels.threshold import Selector, find_threshold
from corpusfit.selection.choosing import (
    ScoredPart,
    draw_keys,
    moments,
)

scores_and_tokens = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from([0.0, -0.0, 0.25, -1.5, 2.0]),
            st.floats(-(2.0**99), 2.0**99, width=32),
        ),
        st.integers(0, 400),
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda row: row[0],  # of equal scores some are drawn, by their places in parts
)
PLANS = [
    ChoosePlan(fraction=0.3),
    ChoosePlan(segments=7),
    ChoosePlan(tokens=900),
    ChoosePlan(threshold=0.0),
    ChoosePlan(policy="continuous"),
    ChoosePlan(policy="continuous", tokens=900),
]


def logs(weights):
    return np.log(np.maximum(weights.astype(np.float64), np.finfo(np.float32).tiny))


def split(scores, tokens, borders):
    edges = [0, *sorted(min(b, len(scores)) for b in borders), len(scores)]
    return [
        ScoredPart(i, scores[a:b], tokens[a:b])
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]


def decided(parts, plan, seed=3):
    found = list(choices(parts, plan, seed=seed))
    assert [c.index for c in found] == [p.index for p in parts]
    assert [len(c.weight) for c in found] == [len(p.scores) for p in parts]
    return tuple(np.concatenate([getattr(c, n) for c in found]) for n in ("selected", "weight"))


@pytest.mark.parametrize("plan", PLANS)
@settings(max_examples=60, deadline=None)
@given(rows=scores_and_tokens, borders=st.lists(st.integers(0, 60), max_size=6))
def test_any_split_decides_the_same(plan, rows, borders):
    scores = np.array([s for s, _ in rows], np.float32)
    tokens = np.array([t for _, t in rows], np.int64)
    whole, weight = decided([ScoredPart(0, scores, tokens)], plan)
    selected, weights = decided(split(scores, tokens, borders), plan)
    np.testing.assert_array_equal(selected, whole)
    np.testing.assert_allclose(weights, weight, atol=1e-6)
    assert weights.dtype == np.float32
    if plan.tokens is not None:
        assert tokens[selected].sum() <= plan.tokens
    if selected.any() and not selected.all():
        assert scores[selected].min() >= scores[~selected].max()


@pytest.mark.parametrize(
    "plan", [ChoosePlan(segments=300), ChoosePlan(tokens=3_000), ChoosePlan(fraction=0.3)]
)
def test_of_equal_scores_some_are_drawn_from_all_parts(plan):
    """Of whole numbers, as classifiers give them, the first files would have all of the last."""
    scores = np.array([3, 2, 2, -0.0, 0] * 200, np.float32)
    parts = split(scores, np.full(1000, 10), [250, 500, 750])
    selected, _ = decided(parts, plan)
    assert selected[scores == 3].all()
    drawn = selected & (scores == 2)
    assert (selected.sum(), drawn.sum()) == (300, 100)
    # hypergeometric: 25 of 100 with a deviation of 3.8
    assert all(10 < each.sum() < 40 for each in np.split(drawn, 4))
    other, _ = decided(parts, plan, seed=4)
    assert other.sum() == 300
    assert (other != selected).any()


def test_a_token_budget_stops_at_the_first_that_does_not_fit():
    keys, costs = np.array([3, 2, 2, 2, 1], np.float32), np.array([4, 3, 9, 1, 1], np.int64)
    part = keys, costs, np.zeros(5, np.uint16)
    for budget, count in ((3, 0), (4, 1), (7, 2), (15, 2), (16, 3), (17, 4), (18, 5), (99, 5)):
        taken = Selector(find_threshold(lambda: [part], budget)).select(*part)
        assert np.flatnonzero(taken).tolist() == list(range(count))


def test_drawing_several_follows_successive_draws_in_proportion():
    """P(i in two draws without replacement) = p_i + sum over j of p_j p_i / (1 - p_j)."""
    weights = np.array([0.9, 0.5, 0.3, 0.2, 0.1], np.float32)
    p = weights / weights.sum()
    expected = p + [sum(p[j] * p[i] / (1 - p[j]) for j in range(5) if j != i) for i in range(5)]
    assert expected.sum() == pytest.approx(2)
    draws = 4000
    hits = np.zeros(5)
    for seed in range(draws):
        hits[np.argsort(-draw_keys(logs(weights), seed=seed, part=0))[:2]] += 1
    np.testing.assert_allclose(hits / draws, expected, atol=4 * np.sqrt(0.25 / draws))


def test_log_importance_weights_are_drawn_by_their_exponential_as_dsir_does():
    """DSIR's Gumbel top-1 takes x with probability w(x) / sum of w (Xie et al. 2023, section 3)."""
    scores, one = np.array([-3.0, 1000.5, 1001.0, 999.0], np.float32), np.ones(2, np.int64)
    parts = [ScoredPart(0, scores[:2], one), ScoredPart(3, scores[2:], one)]
    plan = ChoosePlan(policy="resample", segments=1)
    hits = np.zeros(4)
    for seed in range(1000):
        found = list(choices(parts, plan, seed=seed, log_weights=True))
        hits += np.concatenate([c.selected for c in found])
    shares = np.exp(scores.astype(float) - 1001)
    np.testing.assert_allclose(hits / 1000, shares / shares.sum(), atol=0.05)
    weights = np.concatenate([c.weight for c in found])
    np.testing.assert_allclose(weights, shares, rtol=1e-6)


def test_parts_draw_their_own_chances_and_weights_of_nothing_come_last():
    weights = np.array([0.5] * 50 + [0.0], np.float32)
    first, second = (draw_keys(logs(weights), seed=0, part=part) for part in (0, 1))
    assert not np.intersect1d(first, second).size
    assert first.argmin() == second.argmin() == 50
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, draw_keys(logs(weights), seed=0, part=0))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=50),
    st.lists(st.integers(0, 50), max_size=5),
)
def test_moments_are_numpys(values, borders):
    values = np.array(values, np.float32)
    parts = [p.scores for p in split(values, np.ones(len(values), np.int64), borders)]
    found = moments(parts)
    assert found.mean == pytest.approx(values.astype(float).mean(), abs=1e-9)
    assert found.deviation == pytest.approx(values.astype(float).std(), abs=1e-6)
    assert moments([]).deviation == 0
