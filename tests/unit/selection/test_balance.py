"""Quotas by hand, and what must hold of any."""

import numpy as np
import pytest

from choosing import choices
from corpusfit.core.plan import ChoosePlan
from corpusfit.selection.balance import allocate, ratios
from corpusfit.selection.choosing import ScoredPart


@pytest.mark.parametrize(
    ("quota", "have", "amount", "taken"),
    [
        ([0.5, 0.5], [10, 10], 6, [3, 3]),
        ([0.5, 0.5], [1, 10], 6, [1, 5]),  # what the small one cannot fill goes to the other
        ([0.6, 0.3, 0.1], [100, 100, 100], 10, [6, 3, 1]),
        ([1.0, 0.0], [2, 10], 5, [2, 3]),  # beyond its quota there is only the other
        ([0.5, 0.5], [2, 2], 9, [2, 2]),
        ([1 / 3, 1 / 3, 1 / 3], [9, 9, 9], 10, [4, 3, 3]),
    ],
)
def test_amounts(quota, have, amount, taken):
    assert allocate(np.array(quota), have, amount) == taken


def test_whatever_the_quota_it_adds_up():
    chance = np.random.default_rng(0)
    for _ in range(200):
        k = int(chance.integers(1, 9))
        quota = chance.dirichlet(np.full(k, 0.5))
        have = chance.integers(0, 40, k).tolist()
        amount = int(chance.integers(0, 200))
        taken = allocate(quota, have, amount)
        assert sum(taken) == min(amount, sum(have))
        assert all(0 <= t <= h for t, h in zip(taken, have, strict=True))


def test_ratios_are_of_quota_and_corpus():
    np.testing.assert_allclose(
        ratios(np.array([0.5, 0.5]), np.array([25.0, 75.0]), 100), [2, 2 / 3]
    )


def test_a_group_that_is_hardly_there_counts_as_one_segment():
    found = ratios(np.array([0.5, 0.5]), np.array([1e-9, 100.0]), 100)
    np.testing.assert_allclose(found, [50.0, 0.5])


def parts(n=90, k=3, seed=0):
    chance = np.random.default_rng(seed)
    made = []
    for index in range(3):
        shares = chance.dirichlet(np.full(k, 0.2), n // 3).astype(np.float32)
        scores = chance.normal(size=n // 3).astype(np.float32) + shares[:, 0]
        groups = shares.argmax(axis=1).astype(np.int64)
        made.append(ScoredPart(index, scores, chance.integers(5, 50, n // 3), groups, shares))
    return made


def together(found):
    found = list(found)
    return [np.concatenate([getattr(c, name) for c in found]) for name in ("selected", "weight")]


def test_the_best_of_each_group_are_taken():
    made = parts()
    quota = np.array([0.2, 0.5, 0.3])
    plan = ChoosePlan(segments=20, balance="cluster", clusters="x")
    selected, _ = together(choices(made, plan, seed=0, quota=quota))
    scores = np.concatenate([p.scores for p in made])
    main = np.concatenate([p.shares for p in made]).argmax(axis=1)
    wanted = allocate(quota, np.bincount(main, minlength=3).tolist(), 20)
    for group, n in enumerate(wanted):
        own = np.flatnonzero(main == group)
        best = own[np.argsort(-scores[own], kind="stable")[:n]]
        assert set(np.flatnonzero(selected & (main == group))) == set(best)


def test_a_token_budget_is_kept_in_each_group():
    made = parts()
    plan = ChoosePlan(tokens=400, balance="cluster", clusters="x")
    selected, _ = together(choices(made, plan, seed=0, quota=np.full(3, 1 / 3)))
    tokens = np.concatenate([p.tokens for p in made])
    assert 400 - 50 < tokens[selected].sum() <= 400


def test_a_token_budget_too_small_for_its_groups_takes_the_best_of_all():
    made = parts(k=3)
    plan = ChoosePlan(tokens=100, balance="cluster", clusters="x")
    quota = np.full(3, 1 / 3)
    selected, _ = together(choices(made, plan, seed=0, quota=quota))
    assert 50 < np.concatenate([p.tokens for p in made])[selected].sum() <= 100


@pytest.mark.parametrize("policy", ["continuous", "resample"])
def test_weights_count_the_groups(policy):
    made, plain = parts(), ChoosePlan(policy=policy, fraction=0.5)
    plan = ChoosePlan(policy=policy, fraction=0.5, balance="cluster", clusters="x")
    quota = np.array([0.0, 0.5, 0.5])
    _, before = together(choices(made, plain, seed=0))
    selected, after = together(choices(made, plan, seed=0, quota=quota))
    shares = np.concatenate([p.shares for p in made])
    more = shares @ ratios(quota, shares.sum(axis=0, dtype=np.float64), len(shares))
    np.testing.assert_allclose(after, before * more / more.max(), rtol=1e-5)
    if policy == "resample":
        only = shares[:, 0] > 0.9
        assert selected[~only].mean() > selected[only].mean()


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_a_share_of_words_is_gone_over_once_and_not_by_every_group(share):
    made = parts(k=3)
    tokens = np.concatenate([p.tokens for p in made])
    plan = ChoosePlan(fraction=share, balance="cluster", clusters="x")
    selected, _ = together(choices(made, plan, seed=0, quota=np.full(3, 1 / 3)))
    amount = round(share * tokens.sum())
    assert amount <= tokens[selected].sum() < amount + tokens.max()
