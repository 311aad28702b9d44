"""TF-IDF against scikit-learn on the same tokens; explanations against scores."""

import random

import numpy as np
import pytest

from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.types import text_array
from corpusfit.kernels.tokens import reference
from corpusfit.scoring import registry

WORDS = [f"w{i}" for i in range(60)] + ["Ärger", "日本", "don't", "x_1", "THE"]


def texts(seed, n, longest=30):
    """Texts whose words are as unevenly frequent as in prose."""
    chance = random.Random(seed)
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    return [
        " ".join(chance.choices(WORDS, weights, k=chance.randint(1, longest))) for _ in range(n)
    ]


@pytest.fixture(scope="module")
def data():
    """Target, background, and new texts with unknown words and none."""
    new = [*texts(3, 80, 60), "", "...", "never seen", "w3 never seen", "w3", "w0 w0 w0"]
    return texts(1, 150), texts(2, 100), new


def fitted(data, **settings):
    target, background, _ = data
    return registry.build("tfidf", settings).fit(text_array(target), text_array(background), seed=0)


def peer(data, idf):
    """Unit vectors of target and new texts by scikit-learn."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    target, background, new = data
    vectorizer = TfidfVectorizer(analyzer=reference).fit([*target, *background])
    if idf == "log":
        vectorizer.idf_ = vectorizer.idf_ - 1.0
    else:
        n = len(target) + len(background)
        vectorizer.idf_ = n / ((1 + n) / np.exp(vectorizer.idf_ - 1.0) - 1.0)
    return vectorizer.transform(target).toarray(), vectorizer.transform(new).toarray()


@pytest.mark.parametrize("idf", ["log", "ratio"])
def test_centroid_is_scikit_learns(data, idf):
    target, new = peer(data, idf)
    mean = target.mean(axis=0)
    want = new @ (mean / np.linalg.norm(mean))
    got = fitted(data, idf=idf).score(text_array(data[2]))
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("idf", ["log", "ratio"])
@pytest.mark.parametrize("k", [1, 7, 500])
def test_nearest_is_scikit_learns(data, k, idf):
    target, new = peer(data, idf)
    want = np.sort(new @ target.T, axis=1)[:, -k:].mean(axis=1)
    got = fitted(data, compare="nearest", k=k, idf=idf).score(text_array(data[2]))
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("compare", ["centroid", "nearest"])
def test_an_effect_is_the_score_minus_that_without_the_word(data, compare):
    scorer = fitted(data, compare=compare, k=1)
    text = "w3 w40 w3 w7 never w59"
    score = scorer.score(text_array([text]))[0]
    effects = {e.part: e.effect for e in scorer.explain(text)}
    assert set(effects) == {"w3", "w40", "w7", "w59"}
    assert list(effects.values()) == sorted(effects.values(), reverse=True)
    if compare == "centroid":  # the nearest text may be another one without the word
        for word, effect in effects.items():
            left = " ".join(w for w in text.split() if w != word)
            without = scorer.score(text_array([left]))[0]
            assert effect == pytest.approx(score - without, abs=1e-6)
    alone = scorer.explain("w3 w3")
    assert [e.part for e in alone] == ["w3"]
    assert alone[0].effect == pytest.approx(scorer.score(text_array(["w3"]))[0], abs=1e-6)


def test_what_the_target_lacks_lowers_the_score():
    method = registry.build("tfidf", {})
    target, background = (
        text_array(["kinase binds"] * 5),
        text_array(["shares fell", "kinase fell"]),
    )
    effects = {
        e.part: e.effect for e in method.fit(target, background, seed=0).explain("Kinase shares")
    }
    assert effects["kinase"] > 0 > effects["shares"]


@pytest.mark.parametrize("compare", ["centroid", "nearest"])
def test_odd_texts_score_0_and_have_nothing_to_explain(data, compare):
    scorer = fitted(data, compare=compare)
    odd = ["", " ", "?!", "never seen"]
    assert scorer.score(text_array(odd)).tolist() == [0.0] * 4
    assert [scorer.explain(t) for t in odd] == [[]] * 4


@pytest.mark.parametrize("compare", ["centroid", "nearest"])
def test_words_that_every_text_has_say_nothing(compare):
    same = text_array(["one two"] * 3)
    scorer = registry.build("tfidf", {"compare": compare}).fit(same, same, seed=0)
    assert scorer.score(text_array(["one two", "three"])).tolist() == [0.0, 0.0]
    assert scorer.explain("one two") == []


def test_a_target_without_words_is_refused():
    with pytest.raises(InputError, match=r"^`target` must .*\b2 texts"):
        registry.build("tfidf", {}).fit(text_array(["?", "…"]), text_array(["a b"]), seed=0)


@pytest.mark.parametrize("setting", ["compare", "idf"])
def test_unknown_variants_are_refused(setting):
    with pytest.raises(UsageError, match=rf"method\.{setting}.*'best'"):
        registry.build("tfidf", {setting: "best"})
