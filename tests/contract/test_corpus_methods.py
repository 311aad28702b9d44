"""Every method that scores a corpus as a whole meets the contract of `score/contract.py`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import random
import re

import numpy as np
import pytest

from corpusfit.errors import UsageError
from corpusfit.score import registry
from corpusfit.score.contract import CorpusMethod
from corpusfit.types import text_array

NAMES = [n for n in registry.names() if issubclass(registry.load(n), CorpusMethod)]
TOPICS = (
    "protein kinase binds the receptor and inhibits cell growth in mice",
    "the market fell as investors sold shares before the quarterly results",
)


def prose(seed, n, side):
    chance, words = random.Random(seed), TOPICS[side].split()
    begins = [(chance.randrange(len(words) - 5), chance.randint(1, 9)) for _ in range(n)]
    return [" ".join(words[first : first + length]) for first, length in begins]


class Shards:
    """A corpus in shards that counts how often it is read."""

    def __init__(self, parts):
        self.parts = parts
        self.reads = 0

    def __iter__(self):
        self.reads += 1
        yield from ((number, text_array(texts)) for number, texts in self.parts)


def scored(name, parts, seed=7, **settings):
    corpus = Shards(parts)
    method = registry.of_corpus(name, settings)
    target, background = text_array(prose(1, 40, 0)), text_array(prose(2, 40, 1) + prose(3, 9, 0))
    found = list(method.score_corpus(corpus, target, background, seed=seed))
    assert corpus.reads >= 1
    return found


PARTS = [(0, prose(4, 30, 0)), (1, []), (2, ["", "?!", "one", *prose(5, 40, 1)])]


@pytest.mark.parametrize("name", NAMES)
def test_every_unit_of_every_shard_has_a_finite_score(name):
    found = scored(name, PARTS)
    assert [shard for shard, _ in found] == [0, 1, 2]
    for (_, scores), (_, texts) in zip(found, PARTS, strict=True):
        assert scores.dtype == np.float32
        assert scores.shape == (len(texts),)
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", NAMES)
def test_how_the_corpus_is_cut_into_shards_does_not_matter(name):
    texts = [t for _, part in PARTS for t in part]
    whole = scored(name, [(0, texts)])[0][1]
    parts = np.concatenate([s for _, s in scored(name, PARTS)])
    assert (whole == parts).all()
    assert (np.concatenate([s for _, s in scored(name, PARTS)]) == parts).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parts", [[], [(0, [])], [(0, ["", "?!"])], [(3, ["kinase"])]])
def test_tiny_corpora(name, parts):
    assert [len(s) for _, s in scored(name, parts)] == [len(texts) for _, texts in parts]


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is_and_what_memory_it_needs(name):
    cls = registry.load(name)
    doc = importlib.import_module(cls.__module__).__doc__
    assert re.search(r"\((19|20)\d\d[a-z]?\)|section \d", doc)
    assert doc.startswith(f"`{name}")
    assert cls.score_corpus.__doc__
    method = registry.of_corpus(name, {})
    assert 0 < method.memory_mb(1.0, 1_000) < method.memory_mb(2.0, 1_000)
    for field in dataclasses.fields(cls):
        assert field.default is not dataclasses.MISSING
        assert f"{field.name}:" in inspect.getdoc(cls)


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_checked(name):
    for field in dataclasses.fields(registry.load(name)):
        if isinstance(field.default, int) and not isinstance(field.default, bool):
            with pytest.raises(UsageError, match=f"method.{field.name} must be"):
                registry.build(name, {field.name: -1})


@pytest.mark.parametrize("name", NAMES)
def test_it_cannot_be_had_as_a_method_for_single_units(name):
    with pytest.raises(UsageError, match=f"scores each unit by itself here; got '{name}'"):
        registry.fitting(name, {})


def test_a_method_for_single_units_cannot_be_had_as_one_for_corpora():
    with pytest.raises(UsageError, match="scores the corpus as a whole here; got 'random'"):
        registry.of_corpus("random", {})
