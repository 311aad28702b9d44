"""Significance tests against scipy and closed forms, and their error rates on simulated data."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from corpusfit.evaluation import significance as resampling
from corpusfit.evaluation.metrics import accuracy, from_counts
from corpusfit.evaluation.significance import (
    Comparison,
    compare,
    holm,
    interval,
    mark,
    scored_difference,
    verdict,
)
from corpusfit.evaluation.task import Examples
from corpusfit.evaluation.tasks import load

LABELS = ("a", "b", "c")
MACRO = partial(from_counts, "macro_f1")


def counted(gold, answers):
    """Tallies by seed of predictions [seeds, n]."""
    examples = Examples([["a text"]] * len(gold), gold[:, None].tolist())
    return [load("classification").tally(LABELS, examples, a.astype(np.int32)) for a in answers]


def drawn(seed, n, seeds, right, base_right):
    """Tallies of two models with given probabilities of a correct prediction."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 3, n).astype(np.int32)
    difficulty = rng.normal(0, 0.15, n)  # the same for both models

    def model(share):
        of_seed = rng.normal(0, 0.02, (seeds, 1))
        is_right = rng.random((seeds, n)) < share + difficulty + of_seed
        return counted(gold, np.where(is_right, gold, (gold + 1) % 3))

    return model(right), model(base_right)


def scores(tallies_by_seed, name):
    return np.array([float(from_counts(name, t.sum(0))) for t in tallies_by_seed])


@pytest.mark.parametrize("name", ["accuracy", "macro_f1"])
def test_a_comparison_has_the_differences_and_their_t_test(name):
    ours, base = drawn(0, 200, 8, 0.8, 0.75)
    found = compare(ours, base, partial(from_counts, name), seed=0, rounds=200)
    a, b = scores(ours, name), scores(base, name)
    assert found.difference == pytest.approx((a - b).mean())
    assert found.sd == pytest.approx((a - b).std(ddof=1))
    assert found.p_seeds == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.low < found.difference < found.high
    assert found.p == max(found.p_seeds, found.p_items)
    assert (found.seeds, found.examples) == (8, 200)


@pytest.fixture(params=["one block", "many blocks"])
def _blocks(request, monkeypatch):
    if request.param == "many blocks":
        monkeypatch.setattr(resampling, "BLOCK_BYTES", 8 * 10 * 999)


@pytest.mark.usefixtures("_blocks")
def test_randomization_over_examples_is_that_of_scipy():
    # 10 examples have 1,024 ways to swap, which scipy enumerates
    ours, base = drawn(3, 10, 4, 0.9, 0.7)
    a, b = (np.stack([t[:, 0, 0] for t in model], 1).mean(1) for model in (ours, base))
    exact = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples", vectorized=True
    ).pvalue
    found = compare(ours, base, accuracy, seed=1, rounds=40_000).p_items
    assert 0.01 < exact < 0.9
    assert found == pytest.approx(exact, abs=0.01)


def test_randomization_of_f1_is_that_of_all_swaps():
    ours, base = drawn(4, 9, 3, 0.9, 0.7)
    both = np.stack([np.stack(ours), np.stack(base)])  # [2, seeds, n, 3, C]
    observed = abs((scores(ours, "macro_f1") - scores(base, "macro_f1")).mean())
    as_large = 0
    for way in range(2**9):
        sides = np.array([way >> i & 1 for i in range(9)])
        a, b = (both[side, :, np.arange(9)] for side in (sides, 1 - sides))  # [n, seeds, 3, C]
        gap = (from_counts("macro_f1", a.sum(0)) - from_counts("macro_f1", b.sum(0))).mean()
        as_large += abs(gap) >= observed - 1e-12
    found = compare(ours, base, MACRO, seed=2, rounds=40_000).p_items
    assert 0.01 < as_large / 2**9 < 0.9
    assert found == pytest.approx(as_large / 2**9, abs=0.01)


@pytest.mark.usefixtures("_blocks")
def test_the_interval_of_one_seed_is_the_bootstrap_of_scipy():
    ours, _ = drawn(5, 300, 1, 0.7, 0.7)
    right = ours[0][:, 0, 0].astype(float)
    want = stats.bootstrap(
        (right,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    found = interval(ours, accuracy, seed=0, rounds=20_000)
    assert found == pytest.approx((want.low, want.high), abs=0.004)
    assert found[0] < right.mean() < found[1]


def test_the_interval_is_wide_enough_for_seeds_that_differ_and_for_few_examples():
    # closed form: with S seeds of different accuracy and the same difficult examples, the variance
    # of the mean is about var_seeds / S + var_examples / n
    rng = np.random.default_rng(6)
    gold = np.zeros(400, np.int32)
    share = np.array([0.5, 0.6, 0.7, 0.8, 0.5, 0.6, 0.7, 0.8])[:, None]
    rank = rng.permutation(400) / 400  # the same examples are difficult in every seed
    ours = counted(gold, np.where(rank < share, 0, 1))
    low, high = interval(ours, accuracy, seed=0, rounds=20_000)
    of_items = (rank < share).mean(0).var() / 400
    of_seeds = share.var() / 8
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(of_items + of_seeds), rel=0.05)


def test_equal_seeds_give_equal_results():
    ours, base = drawn(7, 60, 3, 0.8, 0.7)
    first = compare(ours, base, MACRO, seed=5, rounds=500)
    assert compare(ours, base, MACRO, seed=5, rounds=500) == first
    assert compare(ours, base, MACRO, seed=6, rounds=500) != first


def test_sums_beyond_float32_are_exact():
    one = np.array([[[2**24], [2**24 + 1], [2**24 + 1]]])  # an example of many pieces, one wrong
    share = 2**24 / (2**24 + 1)
    assert interval([one], accuracy, seed=0, rounds=3) == (share, share)
    none = one * np.array([0, 1, 1])[:, None]
    assert compare([one], [none], accuracy, seed=0, rounds=3).low == share


def test_seeds_are_paired_in_order_and_further_seeds_are_ignored():
    ours, base = drawn(9, 80, 5, 0.8, 0.7)
    found = compare(ours, base[:3], accuracy, seed=0, rounds=100)
    assert found == compare(ours[:3], base[:3], accuracy, seed=0, rounds=100)
    assert found.seeds == 3


def test_one_seed_has_no_test_over_seeds():
    ours, base = drawn(10, 80, 1, 0.9, 0.6)
    found = compare(ours, base, accuracy, seed=0, rounds=100)
    assert (found.sd, found.p_seeds) == (None, None)
    assert found.p == found.p_items


def test_equal_predictions_are_no_difference():
    ours, _ = drawn(11, 40, 8, 0.8, 0.8)
    found = compare(ours, ours, MACRO, seed=0, rounds=100)
    assert (found.difference, found.sd, found.low, found.high) == (0, 0, 0, 0)
    assert (found.p_seeds, found.p_items, found.p) == (1, 1, 1)


def test_equal_differences_get_a_sign_test():
    gold = np.zeros(60, np.int32)
    worse = np.where(np.arange(60) < 40, 0, 1)
    for seeds in (2, 4, 8):
        ours, base = counted(gold, [gold] * seeds), counted(gold, [worse] * seeds)
        found = compare(ours, base, accuracy, seed=0, rounds=100)
        signs = stats.binomtest(seeds, seeds).pvalue
        assert found.p_seeds == pytest.approx(signs)


@pytest.mark.parametrize("examples", [1, 2, 5, 6, 100])
def test_examples_that_all_differ_alike_are_a_sign_test(examples):
    """A bootstrap of them has no error: two of two would be a difference without doubt."""
    gold = np.zeros(examples, np.int32)
    ours, base = counted(gold, [gold] * 3), counted(gold, [gold + 1] * 3)
    found = scored_difference(ours, base, accuracy, seed=0)
    assert found.mean == 1
    assert found.shown == int(stats.binomtest(examples, examples).pvalue < 0.05)
    assert found.detectable > 0


def test_tallies_of_other_examples_are_refused():
    ours, base = drawn(12, 40, 2, 0.8, 0.8)
    with pytest.raises(ValueError, match="examples"):
        compare(ours, [t[::-1] for t in base], accuracy, seed=0, rounds=10)
    with pytest.raises(ValueError, match="shape"):
        compare(ours, [t[:1] for t in base], accuracy, seed=0, rounds=10)


def test_false_positives_are_rare():
    ps = []
    for trial in range(300):
        ours, base = drawn(1_000 + trial, 80, 5, 0.7, 0.7)
        found = compare(ours, base, MACRO, seed=trial, rounds=199)
        ps.append((found.p_seeds, found.p_items, found.p))
    rates = (np.array(ps) <= 0.05).mean(0)
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert rates.max() <= most
    assert rates[2] <= rates[:2].min()
    assert rates[2] <= 0.05


def test_a_gain_on_this_sample_of_examples_alone_is_not_a_gain():
    # all seeds of a model are right on the same examples, so seeds agree on a gain of the sample
    ps = []
    for trial in range(150):
        rng = np.random.default_rng(5_000 + trial)
        gold, common = np.zeros(100, np.int32), rng.normal(size=100)

        def model(rng=rng, gold=gold, common=common):
            own = 0.8 * common + 0.45 * rng.normal(size=100)
            wrong = own + 0.4 * rng.normal(size=(8, 100)) < -0.6
            return counted(gold, wrong.astype(np.int32))

        found = compare(model(), model(), accuracy, seed=trial, rounds=199)
        ps.append((found.p_seeds, found.p))
    of_seeds, of_both = (np.array(ps) <= 0.05).mean(0)
    assert of_seeds > 0.15
    assert of_both <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 150)


def test_the_smallest_p_of_a_randomization_is_one_over_rounds_plus_one():
    gold = np.zeros(200, np.int32)
    ours, base = counted(gold, np.zeros((3, 200))), counted(gold, np.ones((3, 200)))
    assert compare(ours, base, accuracy, seed=0, rounds=99).p_items == 1 / 100


def test_a_difference_over_examples_alone_is_not_enough():
    # one fine-tuning in four is far better, the others are worse: examples agree, seeds do not
    rng = np.random.default_rng(13)
    gold = np.zeros(500, np.int32)
    shares = np.array([[0.99], [0.78], [0.76], [0.79]])
    ours = counted(gold, np.where(rng.random((4, 500)) < shares, 0, 1))
    base = counted(gold, np.where(rng.random((4, 500)) < 0.75, 0, 1))
    found = compare(ours, base, accuracy, seed=0, rounds=2_000)
    assert found.p_items < 0.01
    assert found.p_seeds > 0.05
    assert found.p == found.p_seeds


def test_a_true_difference_is_found():
    hits, inside = [], []
    for trial in range(40):
        ours, base = drawn(2_000 + trial, 250, 8, 0.80, 0.70)
        found = compare(ours, base, MACRO, seed=trial, rounds=499)
        hits.append(found.p <= 0.05 and found.difference > 0)
        inside.append(found.low <= 0.1 <= found.high)
        swapped = compare(base, ours, MACRO, seed=trial, rounds=499)
        assert swapped.difference == pytest.approx(-found.difference)
    assert np.mean(hits) > 0.9
    assert np.mean(inside) > 0.8


def test_holm_by_hand():
    # four tests: 4 * 0.005, 3 * 0.01, 2 * 0.03, and 0.04 is raised to the one before it
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.01, None, 0.04, 0.03, 0.005]) == [
        *(pytest.approx(0.03), None, pytest.approx(0.06)),
        *(pytest.approx(0.06), pytest.approx(0.02)),
    ]
    assert holm([0.7, 0.8]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([0.3]) == [0.3]
    assert holm([None, None]) == [None, None]
    assert holm([]) == []


def test_holm_rejects_as_the_step_down_procedure():
    rng = np.random.default_rng(14)
    for _ in range(50):
        ps = rng.random(7) ** 3
        rejected = np.zeros(7, bool)
        for rank, place in enumerate(np.argsort(ps)):
            if ps[place] > 0.05 / (7 - rank):
                break
            rejected[place] = True
        assert [p <= 0.05 for p in holm(ps.tolist())] == rejected.tolist()


SURE = Comparison(0.012, 0.004, 0.004, 0.02, 0.002, 0.001, 0.002, 8, 500)


def test_marks_agree_with_verdicts():
    worse = dataclasses.replace(SURE, difference=-0.01, low=-0.02, high=-0.004)
    assert [mark(SURE, p) for p in (0.001, 0.05, 0.9)] == ["*", "", ""]
    assert [mark(worse, p) for p in (0.049, 0.05)] == ["†", ""]
    open_interval = dataclasses.replace(worse, high=0.002)
    assert mark(open_interval, 0.017) == ""
    assert verdict(open_interval, 0.017).startswith("no difference shown")


def test_a_verdict_warns_about_a_single_seed():
    found = verdict(dataclasses.replace(SURE, sd=None, p_seeds=None, seeds=1), 0.003)
    assert found.endswith("p = 0.003); one seed only, variation over seeds unknown")


def test_a_difference_without_an_error_of_the_examples_is_the_t_interval():
    """scipy's interval of a one-sample t-test."""
    values = [0.3, 0.1, 0.4, 0.25]
    found = resampling.difference(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.shown == 1
    assert resampling.difference([-v for v in values]).shown == -1


def test_an_interval_of_few_replicates_on_one_test_set_covers_the_truth():
    """Simulated: the replicates share the error of the test set, which is known by its size."""
    rng = np.random.default_rng(0)
    for replicates in (3, 8):
        missed = 0
        for _ in range(2_000):
            shared = rng.normal(0, 1)
            values = rng.normal(shared, 1, replicates)
            found = resampling.difference(values.tolist(), error=1.0, examples=500)
            missed += found.low > 0 or found.high < 0
        assert missed / 2_000 < 0.06


def test_what_is_detectable_is_detected_in_eight_of_ten_cases():
    rng = np.random.default_rng(1)
    found = [resampling.difference(rng.normal(0, 1, 200).tolist()) for _ in range(50)]
    effect = float(np.mean([f.detectable for f in found]))
    shown = [resampling.difference(rng.normal(effect, 1, 200).tolist()).shown for _ in range(1_000)]
    assert 0.76 < np.mean(shown) < 0.84
