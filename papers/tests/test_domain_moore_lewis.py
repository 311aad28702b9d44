"""`domain_moore_lewis` against its two parts, and where the answer is known."""

import numpy as np
import pytest

from corpusfit.core.types import Paired, text_array
from corpusfit.scoring import registry

WIDTH = 16
OWN = "kinase binds receptor inhibits cell"
COUSIN = "galaxy orbits telescope measures star"
REST = "market fell shares sold bank"


def units(chance, n, axis, words):
    """n units about one axis, each of six of the words."""
    vectors = 0.3 * chance.standard_normal((n, WIDTH))
    vectors[:, axis] += 2.0
    texts = [" ".join(chance.choice(words.split(), 6)) for _ in range(n)]
    return texts, vectors.astype(np.float32)


def joined(*parts):
    texts = [text for texts, _ in parts for text in texts]
    return Paired(text_array(texts), np.concatenate([vectors for _, vectors in parts]))


@pytest.fixture(scope="module")
def fitted():
    """A target; a corpus with its words in and outside its domain, and other words in it."""
    chance = np.random.default_rng(0)
    rest = [units(chance, 150, axis, REST) for axis in range(2, 10)]
    background = joined(
        units(chance, 60, 0, OWN), units(chance, 60, 0, COUSIN), units(chance, 60, 1, OWN), *rest
    )
    target = joined(units(chance, 100, 0, OWN))
    return (
        target,
        background,
        registry.build("domain_moore_lewis", {}).fit(target, background, seed=0),
    )


def test_a_score_is_the_probability_of_the_domain_and_the_cross_entropy_difference(fitted):
    target, background, scorer = fitted
    domain = registry.build("consensus", {}).fit(target, background, seed=0)
    words = registry.build("moore_lewis", {}).fit(target.texts, background.texts, seed=0)
    odds = domain.score(background.vectors).astype(float)
    expected = 4 * words.score(background.texts) + np.log2(1 / (1 + np.exp(-odds)))
    assert scorer.score(background) == pytest.approx(expected, abs=1e-4)
    assert scorer.remark() == domain.remark()
    effects = {e.part: e.effect for e in words.explain("kinase fell")}
    assert {e.part: e.effect / 4 for e in scorer.explain("kinase fell")} == pytest.approx(effects)


def test_the_domain_comes_first_and_in_it_the_targets_words(fitted):
    _, background, scorer = fitted
    scores = scorer.score(background)
    own, cousin, elsewhere = scores[:60], scores[60:120], scores[120:180]
    assert own.min() > cousin.max()
    assert own.min() > elsewhere.max()
    assert np.median(elsewhere) > np.median(scores[180:])


def test_surely_of_the_rest_is_far_below_and_finite(fitted):
    _, background, scorer = fitted
    texts = text_array(["", "market", "kinase"])
    scores = scorer.score(Paired(texts, np.eye(3, WIDTH, k=5, dtype=np.float32) * 1e6))
    assert np.isfinite(scores).all()
    assert scores[0] < scores[1] < scores[2] < scorer.score(background)[:60].min()
