"""What the methods that score a corpus as a whole, `NAMES` of the importing module, keep to."""

import dataclasses
import random
import zlib

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.types import Paired, read_as, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.checks import check_method

WIDTH = 24
TOPICS = (
    "protein kinase binds the receptor and inhibits cell growth in mice",
    "the market fell as investors sold shares before the quarterly results",
)


def pytest_generate_tests(metafunc):
    names = metafunc.module.NAMES
    encoding = [name for name in names if registry.build(name, {}).encodes]
    for argument, named in (("name", names), ("encoding", encoding)):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, named)


def prose(seed, n, side):
    chance, words = random.Random(seed), TOPICS[side].split()
    begins = [(chance.randrange(len(words) - 5), chance.randint(1, 9)) for _ in range(n)]
    return [" ".join(words[first : first + length]) for first, length in begins]


def embed(texts):
    """An embedding of each text: the sum of its words' own, so that like texts are near."""
    rows = [sum((vector(word) for word in text.split()), np.zeros(WIDTH)) for text in texts]
    return np.array(rows, np.float32).reshape(len(texts), WIDTH)


def vector(word):
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(WIDTH)


class Shards:
    """A corpus in shards, in the form a method reads, that counts how often it is read."""

    def __init__(self, parts, form, embed):
        self.parts, self.form, self.embed = parts, form, embed
        self.reads = 0

    def __iter__(self):
        self.reads += 1
        for number, texts in self.parts:
            yield number, read_as(Paired(text_array(texts), self.embed(texts)), self.form)


def scored(name, parts, seed=7, embed=embed, **settings):
    method = registry.build(name, settings)
    corpus = Shards(parts, method.reads, embed)
    samples = (prose(1, 40, 0), prose(2, 40, 1) + prose(3, 9, 0))
    target, background = (
        read_as(Paired(text_array(texts), embed(texts)), method.fits_on) for texts in samples
    )
    found = list(method.score_corpus(corpus, target, background, seed=seed))
    assert corpus.reads >= 1
    return found


PARTS = [(0, prose(4, 30, 0)), (1, []), (2, ["", "?!", "one", *prose(5, 40, 1)])]


def test_every_unit_of_every_shard_has_a_finite_score(name):
    found = scored(name, PARTS)
    assert [shard for shard, _ in found] == [0, 1, 2]
    for (_, scores), (_, texts) in zip(found, PARTS, strict=True):
        assert scores.dtype == np.float32
        assert scores.shape == (len(texts),)
        assert np.isfinite(scores).all()


def test_it_keeps_the_contract(name):
    check_method(name)


@pytest.mark.parametrize("parts", [[], [(0, [])], [(0, ["", "?!"])], [(3, ["kinase"])]])
def test_tiny_corpora(name, parts):
    assert [len(s) for _, s in scored(name, parts)] == [len(texts) for _, texts in parts]


@pytest.mark.parametrize(
    "embed",
    [
        lambda texts: np.zeros((len(texts), WIDTH), np.float32),
        lambda texts: np.ones((len(texts), WIDTH), np.float32),
        lambda texts: np.eye(WIDTH, dtype=np.float32)[np.arange(len(texts)) % 3],
        lambda texts: np.array([[len(t), -1] for t in texts], np.float32).reshape(-1, 2) * 1e4,
        lambda texts: embed(texts)[:, :1],
    ],
    ids=["zeros", "all equal", "axes", "large", "one dimension"],
)
def test_odd_embeddings_give_finite_scores(encoding, embed):
    found = scored(encoding, PARTS, embed=embed)
    assert [len(scores) for _, scores in found] == [len(texts) for _, texts in PARTS]
    assert all(np.isfinite(scores).all() for _, scores in found)


def test_it_says_what_memory_it_needs_and_can_be_had_without_settings(name):
    fields = dataclasses.fields(registry.load(name))
    assert all(field.default is not dataclasses.MISSING for field in fields)
    method = registry.build(name, {})
    assert 0 < method.memory_mb(1.0, 1_000) < method.memory_mb(2.0, 2_000)


def test_settings_are_checked(name):
    for field in dataclasses.fields(registry.load(name)):
        if isinstance(field.default, int) and not isinstance(field.default, bool):
            with pytest.raises(UsageError, match=rf"method\.{field.name}\b.*-1"):
                registry.build(name, {field.name: -1})


def test_it_cannot_be_had_as_a_method_for_single_units(name):
    with pytest.raises(UsageError, match=rf"^`method\.name` must .*'{name}'"):
        registry.unit_method(name, {})
