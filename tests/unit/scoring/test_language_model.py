"""The methods that ask n-gram models: closed forms, explanations, odd texts."""

import numpy as np
import pyarrow as pa
import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.types import text_array
from corpusfit.kernels.backoff import MAX_BYTES
from corpusfit.scoring import registry
from corpusfit.scoring.language_model import (
    WORDLESS,
    PredictableScorer,
    bits_of_tokens,
    entropy,
    equal_sample,
    train_models,
)

METHODS = ["moore_lewis", "predictable"]
TARGET = text_array(["The kinase binds ATP.", "a kinase inhibitor binds", "the inhibitor of ATP"])
CORPUS = text_array(["shares fell, sharply", "the market fell", "investors sold", "a share rose"])
ODD = [
    "", " ", "a", "kinase", "---- !!!", "日本語のテキスト", "ไทย", "😀 😀", "\x00\x01",
    "x" * 20_000, "the kinase " * 20_000, "日本" * 9_000, "a-" * 9_000, "é" * 9_001,
    "the 🧬 kinase, naïvely",
]  # fmt: skip


def fitted(name, target=TARGET, background=CORPUS, **settings):
    if name == "predictable":
        order, signs = settings["order"], settings.get("signs", False)
        (table,) = train_models([target], order, signs=signs)
        return PredictableScorer(table, order, signs)
    return registry.build(name, settings).fit(target, background, seed=0)


def test_two_texts_have_the_probabilities_worked_out_by_hand():
    """`a b` and `a`, order 2, so few counts that every discount is 0.5, 1 or 1.5.

    Words before: a 1, b 1, end 2. Left over: (0.5 + 0.5 + 1) / 4 to each of 4 words, so the
    probabilities are a 1/4, b 1/4, end 3/8, unknown 1/8.
    """
    (table,) = train_models([text_array(["a b", "a"])], 2, signs=False)
    start = (2 - 1) / 2 + 1 / 2 * 1 / 4
    b_after_a, end_after_a = (0.5 + 0.5 * 2 * 1 / 4) / 2, (0.5 + 0.5 * 2 * 3 / 8) / 2
    end_after_b = 0.5 + 0.5 * 3 / 8
    want = [
        start * b_after_a * end_after_b,
        start * end_after_a,
        start * (0.5 * 1 / 8) * 3 / 8,
    ]
    got = entropy(table, 2, text_array(["a b", "a", "a c"]), signs=False)[0] * [-3, -2, -3]
    np.testing.assert_allclose(np.exp2(got), want, rtol=1e-6)


def test_perplexity_is_two_to_minus_the_score():
    scorer = fitted("predictable", text_array(["a b", "a"]), order=2)
    perplexity = 2.0 ** -scorer.score(text_array(["a"]))[0]
    assert perplexity == pytest.approx((0.625 * 0.4375) ** -0.5, rel=1e-6)


def test_moore_lewis_is_the_difference_of_entropies_over_one_vocabulary():
    scorer = fitted("moore_lewis", text_array(["a a"]), text_array(["b b"]), order=1)
    got = scorer.score(text_array(["a", "b", "c", ""]))
    # a 2, end 1, less 1 and 0.5; the 1.5 / 3 left are shared by unknown, a, b and end
    a, b = 1 / 3 + 0.5 / 4, 0.5 / 4
    half = np.log2(a / b) / 2
    np.testing.assert_allclose(got, [half, -half, 0, WORDLESS], atol=1e-6)


PUBLISHED = {"sample": "texts", "shared_vocabulary": False, "per_token": False}


def test_as_published_it_is_the_difference_of_total_log_probabilities():
    """By hand: two models of order 1 with their own words.

    a 2, end 1, less 1 and 0.5; the 1.5 / 3 left are shared by unknown, a and end.
    """
    target, corpus = text_array(["a a"]), text_array(["b b"])
    scorer = fitted("moore_lewis", target, corpus, order=1, **PUBLISHED)
    a, unknown = 1 / 3 + 0.5 / 3, 0.5 / 3
    one = np.log2(a / unknown)
    got = scorer.score(text_array(["a", "b", "c", "a a", "a b", ""]))
    np.testing.assert_allclose(got, [one, -one, 0, 2 * one, 0, 0], atol=1e-6)


def test_as_published_with_order_5_against_models_trained_one_by_one():
    """Against a plain loop over the tokens of `train`'s models, one for each sample."""
    texts = ["The kinase fell.", "a kinase inhibitor, a market", "gold", "the inhibitor of ATP"]
    scorer = fitted("moore_lewis", order=5, signs=True, **PUBLISHED)
    sample = equal_sample(CORPUS, TARGET, seed=0, signs=True, by_tokens=False)
    assert len(sample) == len(TARGET)
    models = [train_models([some], 5, signs=True)[0] for some in (TARGET, sample)]
    for text, score in zip(texts, scorer.score(text_array(texts)), strict=True):
        near, far = (bits_of_tokens(model, 5, text, signs=True)[1] for model in models)
        total = sum(float(n) - float(f) for n, f in zip(near, far, strict=True)) * len(near)
        assert score == pytest.approx(total, abs=1e-5)
        assert sum(e.effect for e in scorer.explain(text)) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("order", [1, 3, 5])
def test_effects_add_up_to_the_score(name, order):
    scorer = fitted(name, order=order, signs=True)
    for text in ["The kinase binds the market, sharply.", "", "x", "ATP ATP ATP Ünknown", "日本"]:
        effects = scorer.explain(text)
        total = sum(e.effect for e in effects)
        assert total == pytest.approx(scorer.score(text_array([text]))[0], abs=1e-5)
        assert [e.effect for e in effects] == sorted((e.effect for e in effects), reverse=True)
        assert len({e.part for e in effects}) == len(effects)


def test_an_explanation_names_the_ngrams_that_were_known():
    parts = {e.part for e in fitted("predictable", order=3).explain("The kinase binds gold")}
    assert parts == {"<s> the", "<s> the kinase", "the kinase binds", "gold", "</s>"}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("signs", [False, True])
def test_any_text_has_a_finite_score(name, signs):
    for target in (
        TARGET,
        text_array([""]),
        text_array(["--"]),
        text_array(ODD),
        text_array(["a"] * 99),
    ):
        for background in (CORPUS, text_array([""]), target):
            scores = fitted(name, target, background, order=3, signs=signs).score(text_array(ODD))
            assert np.isfinite(scores).all()


def test_a_long_text_is_scored_as_its_tokens_are_wherever_it_is_cut():
    """The stretches that a long text is read in leave no trace: shift it byte by byte."""
    scorer = fitted("predictable", order=3)
    body = "the kinase, naïvely 日本, binds of "
    long = body * (2 * MAX_BYTES // len(body.encode()) + 2)
    want = scorer.score(text_array([long]))
    shifted = [" " * i + long for i in range(1, 40)]
    assert (scorer.score(text_array(shifted)) == want).all()
    assert scorer.explain(long)
    total = sum(e.effect for e in scorer.explain(long))
    assert total == pytest.approx(want[0], rel=1e-5)


def test_the_sample_is_as_large_as_the_target():
    rng = np.random.default_rng(0)
    texts = text_array([" ".join("w" * rng.integers(1, 30)) for _ in range(500)])
    like = text_array(["w " * 8] * 100)
    sample = equal_sample(texts, like, seed=3, signs=False)
    tokens = sum(len(t.split()) + 2 for t in sample.to_pylist())
    assert abs(tokens - 1000) <= 15
    assert sample == equal_sample(texts, like, seed=3, signs=False)
    assert sample != equal_sample(texts, like, seed=4, signs=False)
    assert len(equal_sample(like, pa.concat_arrays([texts, texts]), seed=0, signs=False)) == 100
    assert len(equal_sample(texts, like, seed=3, signs=False, by_tokens=False)) == 100
    assert len(equal_sample(like, texts, seed=3, signs=False, by_tokens=False)) == 100


def test_wrong_settings_are_named(tmp_path):
    for order in (0, 6):
        with pytest.raises(UsageError, match=r"method\.order.*5"):
            registry.build("moore_lewis", {"order": order})
    with pytest.raises(UsageError, match=r"method\.sample.*tokens, texts"):
        registry.build("moore_lewis", {"sample": "lines"})
    with pytest.raises(UsageError, match=r"method\.arpa_in"):
        registry.build("moore_lewis", {"arpa_in": "one.arpa"})
    both = dict.fromkeys(("arpa_in", "arpa_general"), str(tmp_path / "none.arpa"))
    with pytest.raises(ModelError, match=r"none.arpa"):
        fitted("moore_lewis", **both)


def test_models_from_files_are_used_for_both_sides(tmp_path):
    paths = []
    for name, lift in (("in", "-0.3"), ("general", "-1.3")):
        path = tmp_path / f"{name}.arpa"
        path.write_text(
            f"\\data\\\nngram 1=3\n\n\\1-grams:\n0\t<s>\t0\n-1\t</s>\t0\n{lift}\ta\t0\n\n\\end\\\n"
        )
        paths.append(str(path))
    scorer = fitted("moore_lewis", arpa_in=paths[0], arpa_general=paths[1])
    assert scorer.score(text_array(["a"]))[0] == pytest.approx(0.5 * np.log2(10))
