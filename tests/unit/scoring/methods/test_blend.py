"""`blend`: the mean of members' ranks, as scipy ranks them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core import artifacts
from corpusfit.core.errors import UsageError
from corpusfit.core.types import Paired, read_as, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.methods.blend import rank_among

WORDS = (
    "kinase receptor cell growth mice inhibits",
    "market shares investors results fell quarter",
)


def units(n, side, seed):
    rng = np.random.default_rng(seed)
    words = WORDS[side].split()
    vectors = rng.standard_normal((n, 12)) + 1.5 * np.eye(12)[side]
    texts = [" ".join(rng.choice(words, 9)) for _ in range(n)]
    return Paired(text_array(texts), vectors.astype(np.float32))


def joined(one, other):
    texts = one.texts.to_pylist() + other.texts.to_pylist()
    return Paired(text_array(texts), np.concatenate([one.vectors, other.vectors]))


TARGET = units(40, 0, 1)
CORPUS = joined(units(70, 1, 2), units(20, 0, 3))
MEMBERS = ("domain_classifier", "knn", "moore_lewis")


def fit(target=TARGET, corpus=CORPUS, seed=3, **settings):
    method = registry.build("blend", settings)
    parts = (read_as(part, method.fits_on) for part in (target, corpus))
    return method.fit(*parts, seed=seed)


def alone(name, on=CORPUS):
    method = registry.build(name, {})
    parts = (read_as(part, method.reads) for part in (TARGET, CORPUS))
    return method.fit(*parts, seed=3).score(read_as(on, method.reads))


@pytest.mark.parametrize("weights", ["", "1,2,0.5"])
def test_on_the_background_it_is_the_mean_of_scipys_ranks(weights):
    from scipy.stats import rankdata

    ranks = np.stack([(rankdata(alone(name)) - 0.5) / 90 for name in MEMBERS])
    want = np.average(ranks, axis=0, weights=[1, 2, 0.5] if weights else None)
    np.testing.assert_allclose(fit(weights=weights).score(CORPUS), want, atol=1e-6)


def test_one_member_keeps_its_order():
    new = joined(units(50, 0, 4), units(50, 1, 5))
    scores = fit(methods="domain_cosine").score(new.vectors)
    want = alone("domain_cosine", new)
    assert (np.argsort(scores, kind="stable") == np.argsort(want, kind="stable")).all()


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=12),
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=12),
)
def test_ranks_rise_with_the_score_and_stay_inside(sample, scores):
    known, count = np.unique(np.array(sample, np.float32), return_counts=True)
    ranks = (np.cumsum(count) - count / 2) / len(sample)
    x = np.unique(np.array(scores, np.float32))
    found = rank_among(x, known, ranks)
    assert ((found > 0) & (found < 1)).all()
    wide = np.diff(x) > 1e-6
    assert (np.diff(found)[wide] > 0).all()
    np.testing.assert_allclose(rank_among(known, known, ranks), ranks)


def test_beyond_the_sample_it_is_the_closed_form():
    """At one range beyond, half of what is left; far beyond, finite and at most all of it."""
    known, ranks = np.float32([1, 3]), np.array([0.25, 0.75])
    new = np.float32([-1, 1, 2, 3, 5, 3e38])
    np.testing.assert_allclose(
        rank_among(new, known, ranks), [0.125, 0.25, 0.5, 0.75, 0.875, 1.0], atol=1e-12
    )


@pytest.mark.parametrize(
    ("methods", "reads"),
    [
        ("dsir, moore_lewis", "text"),
        ("domain_cosine,knn", "embedding"),
        ("knn,dsir", "both"),
        ("blend,dsir", "both"),
    ],
)
def test_it_reads_what_its_members_read(methods, reads):
    method = registry.build("blend", {"methods": methods})
    assert (method.reads, method.fits_on) == (reads, reads)
    assert method.encodes == (reads != "text")
    assert np.isfinite(fit(methods=methods).score(read_as(CORPUS, reads))).all()


def test_a_stored_scorer_opens_its_members_again(tmp_path):
    scorer = fit()
    artifacts.store(tmp_path / "scorer", "blend", scorer)
    restored = artifacts.restore(tmp_path / "scorer", registry.scorer_class)
    assert (restored.score(CORPUS) == scorer.score(CORPUS)).all()
    assert restored.members is restored.members
    assert all(name in restored.meaning() for name in MEMBERS)
    assert "members" not in {f.name for f in dataclasses.fields(restored)}


def test_a_corpus_of_equal_texts_has_equal_ranks():
    same = Paired(text_array(["one text"] * 30), np.ones((30, 12), np.float32))
    np.testing.assert_allclose(fit(corpus=same).score(same), 0.5)


@pytest.mark.parametrize("methods", ["", "knn,", "no_such", "cynical", "auto"])
def test_members_have_to_be_methods_that_score_each_unit(methods):
    with pytest.raises(UsageError, match=r"method\.methods"):
        registry.build("blend", {"methods": methods})


@pytest.mark.parametrize("weights", ["1,2", "1,2,x", "1,-1,1", "0,0,0", "1,1,nan", "1,1,inf"])
def test_weights_are_as_many_numbers(weights):
    with pytest.raises(UsageError, match=r"method\.weights.*\b3\b"):
        registry.build("blend", {"weights": weights})
