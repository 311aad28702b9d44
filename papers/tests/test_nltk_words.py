"""`method.words = nltk`: methods by words score as they do texts of NLTK's tokens."""

import string

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.types import text_array
from corpusfit.scoring import registry
from corpusfit_papers.words import in_words, tokens_in

TARGET = [
    "I can't say it isn't good.",
    'He said "No." to U.S. films (really).',
    "The film cost $3.50, and so what?",
    "Élan vital… 3,000 films, can't say.",
]
NEW = [*TARGET[1:], "I can't say no.", "i CAN'T say no.", "", "?!", "none of it"]


def test_another_name_is_refused():
    with pytest.raises(UsageError, match=r"^`method\.words"):
        registry.build("perplexity", {"words": "moses"})


def test_without_the_library_its_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"corpusfit-papers\[nltk\]"):
        registry.build("perplexity", {"words": "nltk"})


def test_settings_of_our_own_tokens_are_refused_beside_it():
    for name, own in (("perplexity", {"signs": True}), ("cross_entropy", {"arpa_general": "a"})):
        with pytest.raises(UsageError, match=next(iter(own))):
            registry.build(name, {"words": "nltk", **own})


@pytest.fixture(scope="module")
def tokens():
    """NLTK's own tokens of a text."""
    nltk = pytest.importorskip("nltk", reason="the extra nltk is not installed")
    return lambda text: nltk.word_tokenize(text, preserve_line=True)


def spelt(texts, tokens):
    """Texts whose tokens, of any characters, are words of lower-case letters."""
    seen: dict[str, str] = {}
    letters = [a + b + c for a in string.ascii_lowercase for b in "aeiou" for c in "xyz"]
    for text in (*TARGET, *NEW):
        for token in tokens(text):
            seen.setdefault(token, letters[len(seen)])
    return text_array([" ".join(seen[token] for token in tokens(text)) for text in texts])


def test_tokens_are_those_of_nltk(tokens):
    for text in NEW:
        assert tokens_in(text, "nltk") == tokens(text)
    assert in_words(text_array(NEW), "own") == text_array(NEW)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("perplexity", {"order": 2}),
        ("cross_entropy", {"order": 2}),
        ("ngram_coverage", {"order": 2, "per_token": False}),
        ("ngram_coverage", {"order": 1, "adaptive": False}),
    ],
)
def test_scores_are_those_of_texts_of_its_tokens(name, settings, tokens):
    found, want = (
        registry.build(name, {**settings, **more})
        .fit(read(TARGET), read(TARGET[1:]), seed=0)
        .score(read(NEW))
        for more, read in (
            ({"words": "nltk"}, text_array),
            ({}, lambda texts: spelt(texts, tokens)),
        )
    )
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", ["perplexity", "ngram_coverage"])
def test_explanations_are_in_its_tokens(name, tokens):
    method = registry.build(name, {"order": 2, "words": "nltk"})
    scorer = method.fit(text_array(TARGET), text_array(TARGET), seed=0)
    effects = scorer.explain("I can't say it isn't good.")
    assert "ca n't" in {effect.part for effect in effects}
    (score,) = scorer.score(text_array(["I can't say it isn't good."]))
    assert sum(effect.effect for effect in effects) == pytest.approx(float(score), rel=1e-5)
