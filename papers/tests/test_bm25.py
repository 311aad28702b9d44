"""BM25 against its closed form in plain Python; the best rank against exact ranks."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.types import text_array
from corpusfit.kernels.tokens import reference
from corpusfit.scoring import registry

WORDS = [f"w{i}" for i in range(200)] + ["Ärger", "日本", "don't", "x_1", "THE"]


def texts(seed, n, longest=30):
    """Texts whose words are as unevenly frequent as in prose."""
    chance = random.Random(seed)
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    return [
        " ".join(chance.choices(WORDS, weights, k=chance.randint(1, longest))) for _ in range(n)
    ]


TARGET, BACKGROUND = texts(1, 40), texts(2, 1000)
NEW = [*texts(3, 80, 60), "never seen", "w3 never seen", "w3", "w0 w0 w0"]


def fitted(target=TARGET, background=BACKGROUND, seed=0, **settings):
    method = registry.build("bm25", settings)
    return method.fit(text_array(target), text_array(background), seed=seed)


def lucene(queries, background, documents, k1, b):
    """Lucene's formula, written from Kamphuis et al. (2020), table 1, term by term."""
    bags = [Counter(reference(d)) for d in background]
    mean = sum(sum(bag.values()) for bag in bags) / len(bags)
    out = np.zeros((len(documents), len(queries)))
    for i, document in enumerate(documents):
        tf = Counter(reference(document))
        norm = 1 - b + b * sum(tf.values()) / mean
        for j, query in enumerate(queries):
            for word in reference(query):  # a word that occurs twice in the query counts twice
                df = sum(word in bag for bag in bags)
                idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
                out[i, j] += idf * tf[word] / (tf[word] + k1 * norm) if tf[word] else 0.0
    return out


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 1.0), (1.2, 0.0)])
def test_scores_are_lucenes(k1, b):
    background = BACKGROUND[:150]
    scorer = fitted(background=background, k1=k1, b=b, calibrated=False)
    want = lucene(TARGET, background, NEW, k1, b)
    np.testing.assert_allclose(scorer.matches(text_array(NEW)), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scorer.score(text_array(NEW)), want.max(axis=1), rtol=1e-5)


def test_the_estimated_rank_is_near_the_exact_one():
    """Of texts like the background, against ranks counted in 20,000 of them for each query."""
    scorer, corpus = fitted(), text_array(texts(4, 20_000))
    matches = scorer.matches(corpus)
    exact = np.full(len(corpus), len(corpus))
    for column in matches.T:
        exact = np.minimum(exact, np.searchsorted(np.sort(-column), -column))
    got = scorer.score(corpus)
    best = np.argsort(-got, kind="stable")[:500]
    found = np.isin(best, np.argsort(exact, kind="stable")[:500]).mean()
    plain = np.isin(np.argsort(-matches.max(axis=1))[:500], np.argsort(exact)[:500]).mean()
    assert found > max(0.6, 1.3 * plain)
    share = np.exp(-got[best].astype(float))
    assert 0.3 < np.median(share / ((exact[best] + 1) / len(corpus))) < 3.0


def test_a_short_query_gets_its_share():
    """Plain BM25 sums favor long queries; ranks do not."""
    long, short = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12", "w150"
    corpus = text_array([*BACKGROUND[:300], "w150 w150 w0"])
    calibrated, plain = (fitted([long, short], calibrated=c).score(corpus) for c in (True, False))
    assert calibrated.argmax() == 300
    assert (plain > plain[300]).sum() > 10


def test_texts_without_a_shared_word_score_lowest():
    scores = fitted().score(text_array(["", "...", "never seen", *NEW[:40]]))
    assert len(set(scores[:3].tolist())) == 1
    assert scores[0] <= scores[3:].min()


def test_effects_and_a_constant_add_up_to_the_score():
    for calibrated in (False, True):
        scorer = fitted(calibrated=calibrated)
        for text in NEW[:20]:
            total = sum(e.effect for e in scorer.explain(text))
            values = (scorer.matches(text_array([text]))[0] - scorer.shift) * scorer.scale
            constant = -(scorer.shift * scorer.scale)[values.argmax()]
            assert scorer.score(text_array([text]))[0] == pytest.approx(total + constant, abs=1e-4)
    assert fitted().explain("never seen") == []


def test_queries_are_a_sample_by_the_seed():
    few = [fitted(queries=7, seed=s).score(text_array(NEW)) for s in (3, 3, 4)]
    assert (few[0] == few[1]).all()
    assert (few[0] != few[2]).any()
    assert fitted(queries=7, seed=3).shift.shape == (7,)
    assert fitted(["", "w1", "..."]).shift.shape == (1,)


@pytest.mark.parametrize("background", [["w1 w2"], ["nothing shared"] * 30, ["w1"] * 30, [""]])
def test_odd_backgrounds_give_finite_scores(background):
    assert np.isfinite(fitted(background=background).score(text_array([*NEW, ""]))).all()


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match=r"^`target` must "):
        fitted(["...", ""])
    for wrong in ({"k1": -0.1}, {"b": 1.1}, {"queries": 0}):
        with pytest.raises(UsageError, match=rf"^`method\.{next(iter(wrong))}` must "):
            registry.build("bm25", wrong)
