"""Shares of languages against the paper's tables, the definition of UniMax, and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit_papers.mixing.amounts import allocate, smoothed, unimax

TABLE_8 = {
    "fr": (735_821, 872_678),
    "es": (385_873, 939_452),
    "de": (846_007, 831_257),
    "it": (279_303, 923_548),
    "pt": (118_482, 811_522),
    "ru": (619_734, 908_011),
    "ro": (27_006, 569_792),
    "en": (227_808, 903_706),
}
"""mDAPT, Table 8: by language, specific sentences (M_D) and what up-samples them (M_WIKI)."""

TABLE_9 = {
    "zh": (223_774, 470_111),
    "da": (264_701, 465_044),
    "nl": (49_475, 391_750),
    "fr": (915_411, 143_427),
    "de": (1_175_985, 0),
    "it": (161_313, 467_680),
    "ja": (109_269, 450_352),
    "no": (112_036, 451_799),
    "pt": (92_644, 439_942),
    "ru": (241_257, 468_466),
    "es": (987_502, 95_691),
    "sv": (157_792, 467_050),
    "en": (346_856, 444_532),
    "tr": (34_990, 362_685),
}
"""mDAPT, Table 9."""

BUDGET = 10_000_000


def upsampled(table, budget):
    """The amount that up-samples each language, with unlimited general text."""
    own = np.array([own for own, _ in table.values()])
    shares = allocate(smoothed(own, 0.3), own, own + budget, budget)
    return shares - own


def test_table_8_of_the_paper_exactly():
    """Eight languages, none over its smoothed share: the budget of 10 million, alpha 0.3."""
    printed = np.array([wiki for _, wiki in TABLE_8.values()])
    assert sum(map(sum, TABLE_8.values())) == BUDGET
    np.testing.assert_array_equal(upsampled(TABLE_8, BUDGET), printed)


def test_table_9_of_the_paper():
    """German has more than its share and is not up-sampled; the others share what is left.

    The printed table adds up to 9,991,534: for that budget our rule gives every number in it, to
    one sentence of rounding. For 10 million each total is within 0.1 % of the printed one.
    """
    printed = np.array([wiki for _, wiki in TABLE_9.values()])
    own = np.array([own for own, _ in TABLE_9.values()])
    total = int((own + printed).sum())
    assert total == 9_991_534
    np.testing.assert_allclose(upsampled(TABLE_9, total), printed, rtol=0, atol=1)
    ours = own + upsampled(TABLE_9, BUDGET)
    assert ours.sum() == BUDGET
    np.testing.assert_allclose(ours, own + printed, rtol=1e-3)


def test_smoothed_is_the_normalized_power():
    """P(L)^alpha over its sum (mT5, section 3.2); 1 keeps the shares, 0 makes them equal."""
    sizes = np.array([1, 10, 100])
    powers = (sizes / 111) ** 0.3
    np.testing.assert_allclose(smoothed(sizes, 0.3), powers / powers.sum())
    np.testing.assert_allclose(smoothed(sizes, 1.0), sizes / 111)
    np.testing.assert_allclose(smoothed(sizes, 0.0), [1 / 3] * 3)
    np.testing.assert_allclose(smoothed(np.array([0, 4, 4]), 0.0), [0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("sizes", "budget", "cap", "wanted"),
    [
        ([1000, 10, 100], 300, 1, [190, 10, 100]),  # the small ones are used up
        ([1000, 10, 100], 300, 5, [125, 50, 125]),  # the smallest alone meets its cap
        ([1000, 10, 100], 300, 10, [100, 100, 100]),  # even
        ([10, 10], 100, 2, [20, 20]),  # less than the budget
        ([5, 5, 5], 10, 1, [3, 3, 4]),  # what does not divide goes to the last
    ],
)
def test_unimax_by_hand(sizes, budget, cap, wanted):
    """Chung et al. (2023), Algorithm 1, worked out on paper."""
    assert unimax(np.array(sizes), budget, cap).tolist() == wanted


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=12),
    st.integers(1, 10**7),
    st.integers(1, 5),
)
def test_unimax_is_max_min_fair(sizes, budget, cap):
    """The closed form: one level for all; a language whose cap is below it has its cap."""
    sizes = np.array(sizes)
    got = unimax(sizes, budget, cap)
    assert got.sum() == min(budget, cap * sizes.sum())
    below = got < cap * sizes
    if below.any():
        level = got[below]
        assert level.max() - level.min() <= len(sizes)  # whole units
        assert got.max() <= level.max() + len(sizes)


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e3), st.integers(0, 10**6), st.integers(0, 10**6)),
        min_size=1,
        max_size=12,
    ),
    st.floats(0, 1),
)
def test_allocate_meets_the_budget_and_the_bounds(languages, where):
    """The sum is exact; between the bounds shares are in proportion to the weights."""
    weights = np.array([w for w, _, _ in languages])
    lower = np.array([a for _, a, _ in languages])
    upper = lower + np.array([b for _, _, b in languages])
    budget = int(lower.sum() + where * (upper.sum() - lower.sum()))
    got = allocate(weights, lower, upper, budget)
    assert got.sum() == budget
    assert (lower <= got).all()
    assert (got <= upper).all()
    free = (lower < got - 1) & (got + 1 < upper)
    if free.sum() > 1:
        rates = got[free] / weights[free]
        np.testing.assert_allclose(rates, rates[0], atol=2 / weights[free].min())


def test_allocate_outside_its_bounds():
    with pytest.raises(ValueError, match=r"6 to 9.*\b5\b"):
        allocate(np.ones(2), np.array([3, 3]), np.array([4, 5]), 5)
