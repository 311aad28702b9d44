"""`consensus` where the answer is known: a domain, a target of another style, and bad input."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from corpusfit.core.errors import UsageError
from corpusfit.core.types import Paired, text_array
from corpusfit.scoring import registry

WIDTH = 32
STYLE = 2.5
WORDS = {"domain": "kinase binds receptor inhibits cell", "rest": "market fell shares sold bank"}


def units(chance, n, topic, style=0.0):
    """n units around a topic's center, moved along the last axis by their style, with words."""
    center = np.zeros(WIDTH)
    center[:2] = 2.0 if topic == "domain" else 0.0
    if topic == "rest":
        center[chance.integers(2, WIDTH - 1)] = 2.0
    vectors = center + 0.7 * chance.standard_normal((n, WIDTH))
    vectors[:, -1] += style
    words = WORDS[topic].split()
    texts = [f"{topic} {i} {' '.join(chance.choice(words, 6))}" for i in range(n)]
    return Paired(text_array(texts), vectors.astype(np.float32))


def joined(parts):
    texts = [t for p in parts for t in p.texts.to_pylist()]
    return Paired(text_array(texts), np.concatenate([p.vectors for p in parts]))


def corpus(chance, domain, rest=2_000):
    """A corpus whose first units are of the domain; some of the rest have the target's style."""
    parts = [units(chance, domain, "domain")]
    parts += [units(chance, rest // 20, "rest", style=STYLE * (i < 2)) for i in range(20)]
    return joined(parts)


@pytest.fixture(scope="module")
def found():
    """A styled target of 300 units in a corpus of which 5 % are of its domain."""
    chance = np.random.default_rng(0)
    background = corpus(chance, 105)
    target = units(chance, 300, "domain", style=STYLE)
    return background, registry.build("consensus", {}).fit(target, background, seed=0)


def test_a_targets_style_does_not_mislead_it(found):
    background, scorer = found
    chance = np.random.default_rng(1)
    fresh = corpus(chance, 200)
    truth = np.arange(len(fresh)) < 200
    assert average_precision_score(truth, scorer.score(fresh.vectors)) > 0.95
    target = units(np.random.default_rng(0), 300, "domain", style=STYLE)
    plain = registry.build("domain_cosine", {"centered": False})
    cosine = plain.fit(target.vectors, background.vectors, seed=0).score(fresh.vectors)
    assert average_precision_score(truth, cosine) < 0.9


def test_the_estimated_share_is_said_and_near(found):
    _, scorer = found
    assert 0.025 < scorer.share < 0.1
    assert f"{100 * scorer.share:.2g} %" in scorer.remark()
    assert "isolation_forest" in scorer.remark()


def test_scores_are_log_odds_of_being_of_the_domain(found):
    _, scorer = found
    fresh = corpus(np.random.default_rng(2), 100)
    probability = 1 / (1 + np.exp(-scorer.score(fresh.vectors).astype(float)))
    assert probability[:100].mean() > 0.8
    assert probability[100:].mean() < 0.05


def test_the_share_of_positives_can_be_given():
    chance = np.random.default_rng(3)
    background, target = corpus(chance, 105), units(chance, 50, "domain")
    scorer = registry.build("consensus", {"share": 0.01}).fit(target, background, seed=0)
    assert scorer.positives == round(0.01 * len(background))
    with pytest.raises(UsageError, match=r"method\.share.*0\.5"):
        registry.build("consensus", {"share": 0.5})


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_a_tiny_sample_of_the_corpus_is_enough(size):
    chance = np.random.default_rng(4)
    background = units(chance, size, "rest")
    scorer = registry.build("consensus", {}).fit(units(chance, 9, "domain"), background, seed=0)
    assert np.isfinite(scorer.score(background.vectors)).all()


def test_embeddings_that_are_all_equal_give_equal_finite_scores():
    same = Paired(text_array(["a b c"] * 90), np.ones((90, WIDTH), np.float32))
    scores = registry.build("consensus", {}).fit(same, same, seed=0).score(same.vectors)
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) == 1


def test_a_target_that_is_half_of_the_corpus_is_found():
    chance = np.random.default_rng(5)
    background = corpus(chance, 1_000, rest=1_000)
    scorer = registry.build("consensus", {}).fit(
        background.take(np.arange(1_000)), background, seed=0
    )
    truth = np.arange(2_000) < 1_000
    assert average_precision_score(truth, scorer.score(background.vectors)) > 0.95
    assert scorer.share > 0.2
