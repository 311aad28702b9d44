"""BETR: ranks against brute force in numpy, the classifier against scikit-learn."""

import random

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.types import Paired, buffers, take_units, text_array
from corpusfit.kernels.characters import table
from corpusfit.kernels.hashed import count
from corpusfit.scoring import registry
from corpusfit_papers.methods.betr import best_ranks, hashed, shares

WORDS = [f"w{i}" for i in range(60)]


def paired(seed, n, topic):
    """Texts with vectors that say which of their words is the most frequent one."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    kinds = [topic if topic is not None else chance.randrange(6) for _ in range(n)]
    texts = [
        " ".join(chance.choices(WORDS[10 * k : 10 * k + 10] * 4 + WORDS, k=chance.randint(5, 40)))
        for k in kinds
    ]
    vectors = np.eye(6)[kinds] + 0.3 * rng.standard_normal((n, 6))
    return Paired(text_array(texts), vectors.astype(np.float32)), np.array(kinds)


TARGET, _ = paired(1, 30, 2)
BACKGROUND, KINDS = paired(2, 400, None)


def fitted(**settings):
    return registry.build("betr", settings).fit(TARGET, BACKGROUND, seed=0)


def rows(texts, buckets=512):
    columns, values, ends = shares(*hashed(texts, buckets))
    found = np.zeros((len(texts), buckets))
    found[np.repeat(np.arange(len(texts)), np.diff(ends)), columns] = values
    return found


@pytest.mark.parametrize("count", [1, 40, 399, 400])
def test_best_ranks_are_those_of_brute_force(count):
    near, far = (p.vectors.astype(np.float64) for p in (TARGET, BACKGROUND))
    near, far = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (near, far))
    cosines = near @ far.T
    rank, highest = best_ranks(TARGET.vectors, BACKGROUND.vectors, count)
    want = (cosines[:, None, :] > cosines[:, :, None]).sum(axis=2).min(axis=0)
    known = rank < len(rank)
    assert known.sum() >= count
    assert (rank[known] == want[known]).all()
    assert (want[~known] >= rank[known].max()).all()
    np.testing.assert_allclose(highest, cosines.max(axis=0), atol=1e-6)


def test_shares_are_the_counts_of_each_text():
    texts = text_array(["", "a b a b", "...", "a", *BACKGROUND.texts.to_pylist()[:20]])
    found = rows(texts, 64)
    for i in range(len(texts)):
        one = texts.slice(i, 1)
        counts = count(*buffers(one), table(), False, 2, np.ones(1), 64)
        np.testing.assert_allclose(found[i], counts / max(1, counts.sum()), atol=1e-6)


def test_the_classifier_is_scikit_learns():
    from sklearn.linear_model import LogisticRegression

    scorer = fitted(buckets=512, c=100.0, share=0.15)
    rank, cosine = best_ranks(TARGET.vectors, BACKGROUND.vectors, 60)
    positive = np.isin(np.arange(400), np.lexsort((-cosine, rank))[:60])
    peer = LogisticRegression(C=100.0, class_weight="balanced", tol=1e-8, max_iter=10_000)
    peer.fit(rows(BACKGROUND.texts), positive)
    want = peer.decision_function(rows(TARGET.texts))
    np.testing.assert_allclose(scorer.score(TARGET.texts), want, atol=1e-3)
    assert scorer.positives == 60
    assert scorer.depth == rank[positive].max() + 1


def test_it_finds_the_target_s_topic_by_words_alone():
    new, kinds = paired(3, 300, None)
    best = np.argsort(-fitted().score(new.texts))[: (kinds == 2).sum()]
    assert (kinds[best] == 2).mean() > 0.7  # 0.2 by chance


def test_effects_and_the_bias_add_up_to_the_score():
    scorer = fitted()
    for text in TARGET.texts.to_pylist()[:10]:
        total = sum(e.effect for e in scorer.explain(text)) + scorer.bias
        assert scorer.score(text_array([text]))[0] == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_tiny_background_gives_finite_scores(n):
    few = take_units(BACKGROUND, np.arange(n))
    scorer = registry.build("betr", {}).fit(TARGET, few, seed=0)
    assert np.isfinite(scorer.score(text_array(["", "w1 w2", "..."]))).all()


def test_settings_are_checked():
    for wrong in ({"share": 0.0}, {"share": 0.6}, {"buckets": 0}, {"c": 0.0}):
        with pytest.raises(UsageError, match=rf"^`method\.{next(iter(wrong))}` must "):
            registry.build("betr", wrong)
