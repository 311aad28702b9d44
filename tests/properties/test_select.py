"""Exact selection against plain sorting; weights against the paper's formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choosing import choices
from corpusfit.core.plan import ChoosePlan
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.kernels.threshold import Selector, find_threshold
from corpusfit.selection.choosing import (
    ScoredPart,
    moments,
    relevance,
)

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
few = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, -1e-30, 3.0])
parts_of_keys = st.lists(
    st.lists(
        st.tuples(st.one_of(finite, few), st.integers(1, 9), st.sampled_from([0, 1, 7, 65_535])),
        max_size=30,
    ),
    max_size=5,
)


def arrays(parts):
    kinds = np.float32, np.int64, np.uint16
    return [
        tuple(np.array([each[i] for each in p], kind) for i, kind in enumerate(kinds))
        for p in parts
    ]


@given(parts_of_keys, st.integers(0, 150), st.booleans())
def test_the_cut_takes_what_sorting_takes(parts, budget, over):
    split = arrays(parts)
    selector = Selector(find_threshold(lambda: split, budget, over=over))
    taken = np.concatenate([selector.select(*each) for each in split] or [np.empty(0, bool)])
    empty = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
    keys, costs, draws = map(np.concatenate, zip(*split, strict=True)) if split else empty
    order = np.lexsort((np.arange(len(keys)), draws, -keys))
    expected, spent = np.zeros(len(keys), bool), 0
    for i in order:
        if spent >= budget if over else spent + costs[i] > budget:
            break
        spent += costs[i]
        expected[i] = True
    np.testing.assert_array_equal(taken, expected)


def scored(n=1000, parts=7, seed=0):
    chance = np.random.default_rng(seed)
    scores = chance.normal(3, 2, n).astype(np.float32)
    tokens = chance.integers(1, 500, n)
    places = np.array_split(np.arange(n), parts)
    return scores, tokens, [ScoredPart(i, scores[p], tokens[p]) for i, p in enumerate(places)]


def chosen(parts, plan, seed=0):
    found = list(choices(parts, plan.check() or plan, seed=seed))
    return np.concatenate([c.selected for c in found]), np.concatenate([c.weight for c in found])


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        (ChoosePlan(fraction_of="segments"), 200),
        (ChoosePlan(fraction_of="segments", fraction=0.29), 290),
        (ChoosePlan(fraction_of="segments", fraction=1e-9), 1),
        (ChoosePlan(fraction=1.0), 1000),
        (ChoosePlan(fraction=1e-9), 1),
        (ChoosePlan(segments=17), 17),
        (ChoosePlan(segments=10**9), 1000),
        (ChoosePlan(policy="continuous"), 1000),
        (ChoosePlan(policy="resample", segments=50), 50),
    ],
)
def test_amounts(plan, count):
    selected, _ = chosen(scored()[2], plan)
    assert selected.sum() == count


@pytest.mark.parametrize("share", [0.01, 0.2, 0.29, 0.999])
@pytest.mark.parametrize("policy", ["top", "resample"])
def test_a_fraction_is_of_the_words_and_only_the_last_segment_goes_over(share, policy):
    _, tokens, parts = scored()
    selected, _ = chosen(parts, ChoosePlan(policy=policy, fraction=share))
    assert 0 <= tokens[selected].sum() - round(share * tokens.sum()) < 500


def test_equal_fractions_give_methods_with_short_segments_as_many_words():
    """By segments, a method that ranks short segments first gets a third of the words."""
    tokens = np.arange(1, 1001)
    kept = []
    for scores in (tokens, -tokens):
        part = [ScoredPart(0, scores.astype(np.float32), tokens)]
        kept.append(int(tokens[chosen(part, ChoosePlan(fraction=0.1))[0]].sum()))
    assert max(kept) - min(kept) < 1000
    assert min(kept) >= 0.1 * tokens.sum()


def test_top_weights_are_one_or_zero_and_threshold_is_inclusive():
    scores, tokens, parts = scored()
    selected, weight = chosen(parts, ChoosePlan(threshold=float(scores[5])))
    np.testing.assert_array_equal(selected, scores >= scores[5])
    np.testing.assert_array_equal(weight, selected.astype(np.float32))
    selected, _ = chosen(parts, ChoosePlan(tokens=5_000))
    assert tokens[selected].sum() <= 5_000
    assert scores[selected].min() > np.sort(scores[~selected])[-1]


def test_lambda_is_the_papers_formula():
    """TADPOLE, section 3.2: lambda = 1 / (1 + exp(-C (alpha - A))), A normalized."""
    scores, _, parts = scored()
    selected, weight = chosen(parts, ChoosePlan(policy="continuous", c=2.5, alpha=-0.5))
    anomaly = -scores.astype(np.float64)
    anomaly = (anomaly - anomaly.mean()) / anomaly.std()
    np.testing.assert_allclose(weight, 1 / (1 + np.exp(-2.5 * (-0.5 - anomaly))), rtol=1e-5)
    assert selected.all()
    flat = relevance(np.ones(3, np.float32), moments([np.ones(3, np.float32)]), c=1, alpha=0)
    np.testing.assert_array_equal(flat, np.float32(0.5))
    none = chosen(parts, ChoosePlan(policy="continuous", c=0.0))[1]
    np.testing.assert_array_equal(none, np.float32(0.5))  # C = 0: no adaptation
    hard = chosen(parts, ChoosePlan(policy="continuous", c=1e6))[1]
    assert set(np.round(hard, 3)) == {0.0, 1.0}  # C to infinity: discrete


def test_drawing_is_in_proportion_to_lambda_and_by_the_seed():
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    scores = np.log(weights / (1 - weights)).astype(np.float32)  # c makes lambda equal weights
    part = [ScoredPart(0, scores, np.ones(4, np.int64))]
    over = moments([scores])
    plan = ChoosePlan(
        policy="resample", segments=1, c=over.deviation, alpha=over.mean / over.deviation
    )
    assert np.allclose(chosen(part, plan)[1], weights, atol=1e-5)
    draws = [int(np.flatnonzero(chosen(part, plan, seed=s)[0])[0]) for s in range(1000)]
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 1000, weights, atol=0.05)
    assert chosen(part, plan, seed=5)[0].tolist() == chosen(part, plan, seed=5)[0].tolist()


def test_place_keys_are_uniform_and_differ_by_seed_and_shard():
    values = uniform(place_keys(0, 0, 20_000))
    assert 0 < values.min() < values.max() < 1
    np.testing.assert_allclose(np.histogram(values, 10, (0, 1))[0] / 20_000, 0.1, atol=0.01)
    keys = [place_keys(s, p, 1000) for s, p in [(0, 0), (1, 0), (0, 1), (-1, 0)]]
    assert len(np.unique(np.concatenate(keys))) == 4000
