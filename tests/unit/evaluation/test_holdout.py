"""Held-out rows: the paper's rule for pairs, exact sizes, whole groups, no near-duplicates."""

import numpy as np
import pytest

from corpusfit.evaluation.splitting import KEPT, Groups, one_to_one, sample_groups


def keys(pairs):
    return np.array(pairs, np.uint64)


def test_one_translation_of_a_text_and_one_text_of_a_translation():
    pairs = [(1, 11), (1, 12), (2, 11), (1, 11), (3, 12), (4, 12), (2, 13)]
    assert one_to_one(keys(pairs)).tolist() == [0, 2, 3, 1, 0, 3, 0]


@pytest.mark.parametrize("seed", range(5))
def test_the_rule_holds_for_all_pairs_and_no_pair_is_dropped_needlessly(seed):
    pairs = np.random.default_rng(seed).integers(0, 60, (300, 2)).astype(np.uint64)
    dropped = one_to_one(pairs)
    kept = pairs[dropped == KEPT]
    for side in (0, 1):
        assert len(np.unique(kept[:, side])) == len(kept)
    for at in np.flatnonzero(dropped):
        before = pairs[:at][dropped[:at] == KEPT]
        same = before == pairs[at]
        assert same.any()
        assert {1: same.all(1).any(), 2: same[:, 0].any(), 3: same[:, 1].any()}[dropped[at]]


@pytest.fixture
def grouped():
    """A thousand rows of four hundred texts; some rows are excluded."""
    rng = np.random.default_rng(3)
    texts = rng.integers(0, 400, 1000).astype(np.uint64)
    kept = rng.random(1000) < 0.9
    return texts, kept


def test_groups_are_whole_and_sizes_exact(grouped):
    texts, kept = grouped
    groups = Groups.of_keys(texts, kept, seed=1)
    assert (groups.of[~kept] == -1).all()
    assert groups.sizes.tolist() == np.bincount(groups.of[kept]).tolist()
    drawn = sample_groups(groups, 100, 150, {}, len(groups.sizes))
    side = np.where(np.isin(groups.of, list(drawn.test)), 2, np.isin(groups.of, list(drawn.dev)))
    assert ((side == 1).sum(), (side == 2).sum()) == (100, 150)
    for text in np.unique(texts):
        assert len(np.unique(side[(texts == text) & kept])) <= 1


def test_the_draw_depends_on_the_seed_and_the_texts_not_on_their_order(grouped):
    texts, kept = grouped
    shuffled = np.random.default_rng(9).permutation(len(texts))

    def held(texts, kept, seed):
        groups = Groups.of_keys(texts, kept, seed)
        drawn = sample_groups(groups, 100, 150, {}, len(groups.sizes))
        return [
            set(texts[kept & np.isin(groups.of, list(chosen))].tolist())
            for chosen in (drawn.dev, drawn.test)
        ]

    first = held(texts, kept, 0)
    assert held(texts[shuffled], kept[shuffled], 0) == first
    assert held(texts, kept, 1) != first


def test_each_text_is_as_likely_as_any_other():
    """Chi-squared test over seeds: counts of 100 texts, a tenth of which is drawn each time."""
    texts, kept = np.arange(100, dtype=np.uint64), np.ones(100, bool)
    counts = np.zeros(100)
    for seed in range(400):
        groups = Groups.of_keys(texts, kept, seed)
        chosen = sample_groups(groups, 0, 10, {}, 100).test
        counts[np.isin(groups.of, list(chosen))] += 1
    assert counts.sum() == 4000
    assert ((counts - 40) ** 2 / (40 * 0.9)).sum() < 150  # 99 degrees: 0.1 % are above 148


def test_dev_has_no_near_duplicates_of_test():
    groups = Groups.of_keys(np.arange(50, dtype=np.uint64), np.ones(50, bool), seed=0)
    near = {group: {group + 10} for group in range(5)} | {g + 10: {g} for g in range(5)}
    drawn = sample_groups(groups, 12, 5, near, 50)
    assert drawn.test == set(range(5))
    assert drawn.dev == {*range(5, 10), *range(15, 22)}


def test_too_few_candidates_give_none():
    groups = Groups.of_keys(np.arange(50, dtype=np.uint64), np.ones(50, bool), seed=0)
    assert sample_groups(groups, 12, 5, {0: set(range(1, 50))}, 50) is None
    assert sample_groups(groups, 5, 5, {}, 9) is None
    pairs = Groups.of_keys(np.repeat(np.arange(5, dtype=np.uint64), 2), np.ones(10, bool), seed=0)
    assert sample_groups(pairs, 0, 3, {}, 5) is None  # groups of two cannot add up to three
