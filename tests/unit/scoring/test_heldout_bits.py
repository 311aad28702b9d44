"""Held-out bits: brute force over texts, the selector of `choose`, SciPy's bootstrap."""

import numpy as np
import pytest
from scipy import stats

from corpusfit.core.types import take_texts, text_array
from corpusfit.kernels.threshold import Selector, find_threshold
from corpusfit.scoring import registry
from corpusfit.scoring.heldout_bits import (
    FOLDS,
    HALVES,
    MAX_TARGET,
    Comparison,
    Difference,
    HeldOut,
    best_first,
    fit_to_sample,
    fitting,
    held_out,
)
from corpusfit.scoring.language_model import entropy, train_models
from corpusfit.selection.choosing import tie_draws

SHARE = 0.1


def sentences(rng, n, words, size=12):
    return [" ".join(rng.choice(words, rng.integers(3, size))) for _ in range(n)]


@pytest.fixture
def corpus():
    rng = np.random.default_rng(5)
    cells = [f"cell{i}" for i in range(60)] + ["the", "of", "binds"] * 8
    money = [f"fund{i}" for i in range(60)] + ["the", "of", "fell"] * 8
    target = sentences(rng, 60, cells)
    sample = sentences(rng, 100, cells) + sentences(rng, 300, money, size=30)
    return text_array(target), text_array([sample[i] for i in rng.permutation(400)])


def total(held, method, target, sample):
    """Bits of each text, of selections from the whole sample."""
    every = np.arange(len(sample))
    fitted = [take_texts(target, held.fitted(f)) for f in range(held.count)]
    scores = [fit_to_sample(method, texts, sample, seed=0)() for texts in fitted]
    return sum(held.bits(each, f, [SHARE], every)[0] for f, each in enumerate(scores))


@pytest.mark.parametrize("name", ["moore_lewis", "cynical", "random"])
def test_bits_are_those_of_a_model_trained_on_the_taken_texts(corpus, name):
    target, sample = corpus
    held = held_out(target, sample, seed=3)
    method = registry.build(name, {})
    found = np.zeros(len(target))
    every = text_array(sample.to_pylist() + target.to_pylist())
    counts = np.array([len(text.split()) for text in sample.to_pylist()])
    budget = round(0.1 * counts.sum())
    for fold in range(FOLDS):
        scores = fit_to_sample(method, take_texts(target, held.fitted(fold)), sample, seed=0)()
        chosen, left = [], budget
        for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
            if counts[i] > left:
                break
            chosen.append(i)
            left -= counts[i]
        model, _ = train_models([take_texts(sample, np.array(chosen)), every], 3, signs=False)
        bits = entropy(model, 3, target, signs=False)[0]
        own = (held.folds == fold) & (held.tokens > 0)
        found[own] = (bits * held.tokens)[own]
    assert (found > 0).sum() > 40
    np.testing.assert_allclose(total(held, method, target, sample), found, rtol=2e-6)


def test_a_selection_of_the_domain_predicts_the_target_better_than_chance(corpus):
    target, sample = corpus
    held = held_out(target, sample, seed=0)
    sums = {
        name: halves(total(held, registry.build(name, {}), target, sample))
        for name in ("moore_lewis", "random")
    }
    compared = Comparison(held, sums)
    difference = compared.difference("random", "moore_lewis")
    assert 0 < difference.low < difference.mean < difference.high
    expected = sums["random"][0].sum() / held.tokens.sum()
    assert compared.bits("random") == pytest.approx(expected)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("budget", [1, 50, 300, 10**6])
def test_units_are_taken_as_choose_takes_them(ties, budget):
    rng = np.random.default_rng(budget)
    scores = rng.normal(size=80).round(0 if ties else 6).astype(np.float32)
    sizes = rng.integers(1, 20, 80)
    sample = scores, sizes, tie_draws(0, 1, 80)
    wanted = Selector(find_threshold(lambda: [sample], budget)).select(*sample)
    order = best_first(scores)
    found = np.sort(order[: fitting(np.cumsum(sizes[order]), budget)])
    if wanted.any():
        assert found.tolist() == np.flatnonzero(wanted).tolist()
    else:
        best = np.flatnonzero(scores == scores.max())
        assert found.tolist() == [best[np.argmin(sample[2][best])]]


def documents_of(tokens, documents=None):
    """Target texts in folds, each a document unless they are given."""
    n = len(tokens)
    documents = np.arange(n) if documents is None else documents
    return HeldOut(
        *(np.empty(0),) * 3,
        text_array([""] * n),
        tokens,
        documents % FOLDS,
        documents,
        {},
        np.zeros((FOLDS, 0), np.int64),
    )


def halves(bits):
    """The same bits on both halves of the sample."""
    return np.stack([bits, bits])


def test_over_documents_the_interval_is_that_of_scipys_paired_bootstrap():
    rng = np.random.default_rng(1)
    n = 120
    tokens = rng.integers(5, 40, n)
    near = tokens * rng.normal(9, 1, n)
    far = near + tokens * rng.normal(0.3, 1, n)
    compared = Comparison(documents_of(tokens), {"near": halves(near), "far": halves(far)})
    reference = stats.bootstrap(
        (near, far, tokens),
        lambda a, b, t, axis: (b.sum(axis) - a.sum(axis)) / t.sum(axis),
        paired=True,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(2),
    )
    found = compared.difference("far", "near")
    assert found.mean == pytest.approx((far - near).sum() / tokens.sum())
    assert found.mean == pytest.approx(compared.bits("far") - compared.bits("near"))
    width = reference.confidence_interval.high - reference.confidence_interval.low
    ends = reference.confidence_interval
    np.testing.assert_allclose((found.low, found.high), ends, atol=width / 20)


@pytest.mark.parametrize(
    ("by_target", "by_sample"), [(0.5, 0.0), (0.0, 0.5), (0.3, 0.3), (0.2, 0.8)]
)
def test_the_interval_covers_the_true_difference(by_target, by_sample):
    """Documents and units of the sample with known effects, drawn anew 600 times."""
    rng = np.random.default_rng(3)
    n, m, true, trials = 80, 1000, 0.1, 600
    tokens = np.full(n, 20)
    held = documents_of(tokens)
    covered = 0
    for _ in range(trials):
        of_documents = rng.normal(0, by_target * n**0.5, n)
        of_units = rng.normal(0, by_sample * m**0.5, m)
        more = np.empty((HALVES, n))
        for fold in range(FOLDS):
            order = rng.permutation(m).reshape(HALVES, -1)
            own = held.folds == fold
            more[:, own] = of_units[order].mean(axis=1)[:, None] + of_documents[own]
        bits = {"best": np.zeros((HALVES, n)), "other": (true + more) * tokens}
        found = Comparison(held, bits).difference("other", "best")
        covered += found.low <= true <= found.high
    assert 0.92 <= covered / trials <= 0.98


def test_equal_selections_are_not_distinguishable():
    same = halves(np.array([20.0, 30.0]))
    compared = Comparison(documents_of(np.array([3, 4])), {"b": same, "a": same})
    assert compared.difference("b", "a") == Difference(0.0, 0.0, 0.0)


def test_a_document_varies_as_one():
    tokens, documents = np.array([1, 1, 2]), np.array([0, 0, 1])
    found = [
        Comparison(
            documents_of(tokens, documents), {"a": halves(np.zeros(3)), "b": halves(more)}
        ).difference("b", "a")
        for more in (np.array([1.0, 3.0, 0.0]), np.array([2.0, 2.0, 0.0]))
    ]
    assert found[0] == found[1]
    # residuals 4 - 2 and 0 - 2 of four words, one degree of freedom
    assert found[0].high - 1 == pytest.approx(stats.t.ppf(0.975, 1) * (2 * 8) ** 0.5 / 4)


def test_halves_of_the_sample_are_of_whole_documents_and_new_in_every_fold():
    documents = np.repeat(np.arange(30), 3)
    target, sample = text_array(["a b", "c d"]), text_array(["a c"] * 90)
    held = held_out(target, sample, seed=2, sample_documents=documents)
    for fold in range(FOLDS):
        first, second = held.half(fold, 0), held.half(fold, 1)
        assert sorted([*first, *second]) == list(range(90))
        assert len(first) == 45
        assert not {*documents[first]} & {*documents[second]}
    assert len({tuple(half) for half in held.halves}) == FOLDS
    alone = held_out(target, sample, seed=2, sample_documents=np.zeros(90, np.int64))
    assert len(alone.half(0, 0)) == 45
    single = held_out(target, text_array(["a c"]), seed=2)
    assert single.half(0, 0).tolist() == single.half(0, 1).tolist() == [0]


@pytest.mark.parametrize(("share", "enough"), [(0.1, True), (0.0999, False)])
def test_a_share_of_fewer_than_five_units_is_not_measurable(share, enough):
    held = held_out(text_array(["a b", "c d"]), text_array(["a c"] * 100), seed=2)
    assert held.measurable(share) == enough


LONG = "one two three four five six seven eight nine"


@pytest.mark.parametrize(
    ("text", "unit", "evaluated"),
    [
        (LONG, f"Before that: ONE, two{LONG[7:]}; and more", False),
        (LONG, LONG[:-5], True),
        (LONG, "nine " + LONG[4:], True),
        ("one two", "so one two and more", True),  # a phrase, not a leak
        ("one two", "One -- two!", False),
        ("... !", "other", False),  # no word
        ("日本語のテキストで書く", "x 日本語のテキストで書く y", False),
    ],
)
def test_texts_of_the_corpus_are_not_evaluated_on(text, unit, evaluated):
    target = text_array([text, "alpha beta", "gamma delta", "epsilon zeta", "eta theta"])
    sample = ["some text", unit, f"more {text} alpha gamma epsilon eta".replace(" ", " so ")]
    held = held_out(target, text_array(sample), seed=0)
    assert (held.tokens > 0).tolist() == [evaluated] + [True] * 4
    assert sum(held.left_out.values()) == (not evaluated)


def test_texts_without_a_word_of_the_corpus_are_not_evaluated_on():
    texts = [f"слово{i} текст{i}" for i in range(30)]
    held = held_out(text_array(texts), text_array(["some text", "more text"]), seed=0)
    assert not held.usable
    assert list(held.left_out.values()) == [30]
    mixed = held_out(text_array([*texts, "text a", "text b"]), text_array(["some text so"]), seed=0)
    assert mixed.usable
    assert list(mixed.left_out.values()) == [30]


def test_texts_repeated_in_another_fold_are_not_evaluated_on():
    texts = ["Same words!"] + [f"word{i} corpus{i % 7}" for i in range(20)] + ["same, words"]
    for seed in range(20):
        held = held_out(text_array(texts), text_array(["a corpus of words"]), seed=seed)
        apart = held.folds[0] != held.folds[-1]
        assert (held.tokens[[0, -1]] > 0).tolist() == [not apart] * 2
        assert held.left_out.get("repeat others", 0) == 2 * apart


def test_folds_are_of_whole_documents_and_of_equal_size():
    documents = np.repeat(np.arange(40), 3)
    target = text_array([f"word{i} text{i % 7}" for i in range(120)])
    held = held_out(target, text_array(["corpus"]), seed=1, documents=documents)
    assert len(set(zip(documents.tolist(), held.folds.tolist(), strict=True))) == 40
    assert np.bincount(held.folds).tolist() == [30] * FOLDS
    assert held.fitted(2).tolist() == np.flatnonzero(held.folds != 2).tolist()


def test_a_large_target_is_sampled():
    target = text_array([f"word{i}" for i in range(MAX_TARGET + 100)])
    held = held_out(target, text_array(["corpus"]), seed=1)
    assert (held.folds >= 0).sum() == MAX_TARGET
    assert len(held.fitted(0)) == MAX_TARGET * (FOLDS - 1) // FOLDS
    assert not held.tokens[held.folds < 0].any()


@pytest.mark.parametrize(
    ("texts", "folds"), [(["a b"], 0), (["a b", "a b"], 0), (["a b", "c d"], 2), (["a", ""], 0)]
)
def test_a_tiny_target_has_fewer_folds_or_no_verdict(texts, folds):
    held = held_out(text_array(texts), text_array(["so a so c", "words"]), seed=0)
    assert (held.count if held.usable else 0) == folds


def test_one_long_document_is_divided_by_units():
    target = text_array([f"word{i} text" for i in range(12)])
    held = held_out(target, text_array(["corpus"]), seed=0, documents=np.zeros(12, np.int64))
    assert np.bincount(held.folds).tolist() == [3] * FOLDS


def test_a_sample_smaller_than_its_budget_is_one_unit():
    held = held_out(text_array(["a b", "c d"]), text_array(["a", "b c", "!"]), seed=0)
    (bits,) = held.bits(np.zeros(3, np.float32), 0, [SHARE], np.arange(3))
    assert np.isfinite(bits).all()
    assert np.count_nonzero(bits) == 1


def test_of_equal_scores_the_first_have_no_advantage():
    scores = np.repeat(np.float32([1, 2]), 5_000)
    found = np.sort(best_first(scores)[:7_500])
    assert (found >= 5_000).sum() == 5_000
    assert np.mean(found[found < 5_000]) == pytest.approx(2_500, rel=0.05)
