"""N-gram coverage against a count in plain Python."""

from collections import Counter

import numpy as np
import pytest

from corpusfit.core.errors import InputError
from corpusfit.core.types import text_array
from corpusfit.kernels.tokens import reference
from corpusfit.scoring import registry

TARGET = ["The cat sat on the mat.", "The cat ran", "on the mat the cat sat", "cat"]
BACKGROUND = ["shares fell on the market", "the market fell", "the shares fell on the news"]
NEW = [
    "The cat sat",
    "the cat, the cat, the cat sat",
    "fell on the",
    "the",
    "",
    "?!",
    "no such one",
]


def grams(text, order):
    tokens = reference(text)
    return [tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1)]


def by_hand(texts, order, top):
    """Text to score; only right where no tie is cut in two."""
    counts = Counter(g for t in texts for g in grams(t, order))
    listed = {g: n / counts.total() for g, n in counts.most_common(top)}
    return lambda t: (
        sum(listed.get(g, 0) for g in set(grams(t, order))) / max(1, len(grams(t, order)))
    )


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize(("order", "top"), [(1, 1), (1, 100), (2, 100), (3, 100), (4, 100)])
def test_scores_are_those_of_a_count(order, top, adaptive):
    settings = {"order": order, "top": top, "adaptive": adaptive}
    scorer = registry.build("ngram_coverage", settings).fit(
        text_array(TARGET), text_array(BACKGROUND), seed=0
    )
    want = [by_hand(TARGET if adaptive else BACKGROUND, order, top)(t) for t in NEW]
    np.testing.assert_allclose(scorer.score(text_array(NEW)), want, rtol=1e-6)
    for text, score in zip(NEW, want, strict=True):
        effects = scorer.explain(text)
        assert sum(e.effect for e in effects) == pytest.approx(score)
        assert all(len(e.part.split()) == order for e in effects)
        strengths = [e.effect for e in effects]
        assert strengths == sorted(strengths, reverse=True)


def test_without_division_the_score_is_the_sum():
    """TextGram, equation 1."""
    target, background = text_array(TARGET), text_array(BACKGROUND)
    settings = {"order": 2, "top": 100, "per_token": False}
    scorer = registry.build("ngram_coverage", settings).fit(target, background, seed=0)
    mean = by_hand(TARGET, 2, 100)
    want = [mean(t) * max(1, len(grams(t, 2))) for t in NEW]
    np.testing.assert_allclose(scorer.score(text_array(NEW)), want, rtol=1e-6)
    for text, score in zip(NEW, want, strict=True):
        assert sum(e.effect for e in scorer.explain(text)) == pytest.approx(score)


def test_only_the_commonest_are_listed():
    scorer = registry.build("ngram_coverage", {"order": 2, "top": 1}).fit(
        text_array(TARGET), text_array(BACKGROUND), seed=0
    )
    assert [e.part for e in scorer.explain("on the mat the cat")] == ["the cat"]


@pytest.mark.parametrize(
    ("adaptive", "target", "background", "says"),
    [
        (
            True,
            ["one", "two words"],
            ["a b c d"],
            r"method\.order.*text of `target`.*\b3\b.*\b2 texts",
        ),
        (True, ["?!", ""], ["a b c d"], r"method\.order.*text of `target`.*\b3\b"),
        (False, ["a b c d"], ["one"], r"method\.order.*text of `corpus`.*\b3\b.*\b1 texts"),
    ],
)
def test_texts_shorter_than_an_ngram_are_refused(adaptive, target, background, says):
    method = registry.build("ngram_coverage", {"adaptive": adaptive})
    with pytest.raises(InputError, match=says):
        method.fit(text_array(target), text_array(background), seed=0)
