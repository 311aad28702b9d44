"""What the scoring methods in `NAMES` of the module that imports these tests keep to."""

import dataclasses
import itertools
import string
import unicodedata
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.types import Paired, Reads, read_as, text_array
from corpusfit.kernels.word_form import word_form
from corpusfit.scoring import registry
from corpusfit.scoring.checks import WIDTH, check_method, draw
from corpusfit.scoring.contract import Family

SETTINGS = {
    "domain_finetune": {"epochs": 1, "learning_rate": 1e-3, "batch": 16},
    "conditional_loss": {"max_steps": 20, "learning_rate": 1e-3},
}
"""Where the defaults would take minutes, or suit no tiny model."""


def pytest_generate_tests(metafunc):
    names = metafunc.module.NAMES
    reads = {name: registry.load(name).reads for name in names}
    asked = {
        "name": names,
        "on_vectors": [name for name in names if reads[name] == "embedding"],
        "on_texts": [name for name in names if reads[name] == "text"],
        "on_words": metafunc.module.ON_WORDS,
    }
    for argument, named in asked.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, named)
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", names, indirect=True, scope="module")


def form_of(method, vectors):
    """Embeddings as the method is fitted on them: with texts beside them if it wants those."""
    if method.fits_on == "embedding":
        return vectors
    return Paired(draw("text", 5, len(vectors), 0), vectors)


def fitted(name, n=60, target=None):
    method = registry.build(name, SETTINGS.get(name, {}))
    target = draw(method.fits_on, 3, n, 0) if target is None else target
    return method.fit(target, draw(method.fits_on, 4, 10, 90), seed=7)


@pytest.fixture(scope="module")
def case(request):
    """A method's name, its fitted scorer, and a batch half of whose rows are like the target."""
    name = request.param
    return name, fitted(name), draw(registry.load(name).reads, 6, 30, 31)


def test_it_keeps_the_contract(name):
    check_method(name, **SETTINGS.get(name, {}))


def test_held_out_target_texts_score_higher_than_far_ones(case):
    name, scorer, batch = case
    scores = scorer.score(batch)
    if registry.load(name).family in ("baseline", "external"):
        pytest.skip("it knows nothing of the target")
    near, far = scores[:30], scores[30:]
    assert np.mean(near[:, None] > far[None, :]) > 0.9


def test_texts_come_in_any_form(on_texts):
    """A list, columns of pandas and NumPy, and Arrow's strings, also a slice, have the same scores.

    Anything else is refused: its bytes would be read as texts.
    """
    pandas = pytest.importorskip("pandas")
    scorer, texts = fitted(on_texts), draw("text", 7, 20, 0)[3:]
    plain, strings = texts.to_pylist(), texts.cast(pa.string())
    scores = scorer.score(texts)
    for given in (
        plain,
        tuple(plain),
        np.array(plain),
        pandas.Series(plain, range(9, 9 + len(plain))),
        strings,
        strings.cast(pa.string_view()),
        pa.chunked_array([strings[:5], strings[5:]]),
    ):
        np.testing.assert_array_equal(scorer.score(given), scores)
    for wrong in (pa.array([1, 2]), pa.array(["a", None]), [1], "a text", [b"a"]):
        with pytest.raises(TypeError, match="strings"):
            scorer.score(wrong)


def test_a_scorer_is_arrays_numbers_and_names(case):
    _, scorer, _ = case
    for field in dataclasses.fields(scorer):
        assert isinstance(
            getattr(scorer, field.name), np.ndarray | bool | int | float | str | tuple
        )


def test_fitting_leaves_its_input_alone(case):
    name, _, _ = case
    method = registry.build(name, SETTINGS.get(name, {}))
    if method.fits_on in ("text", "numbers"):
        pytest.skip("Arrow arrays cannot be changed")
    target = draw(method.fits_on, 8, 30, 0)
    read_as(target, "embedding").flags.writeable = False
    scorer = fitted(name, target=target)
    assert np.isfinite(scorer.score(read_as(target, method.reads))).all()


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_a_tiny_target_is_enough(case, n):
    name, _, batch = case
    assert np.isfinite(fitted(name, n).score(batch)).all()


def _odd_targets():
    some = draw("embedding", 9, 30, 0)
    row = some[:1]
    constant = some.copy()
    constant[:, 3:] = 1.0
    half_flat = some.copy()
    half_flat[:20, 1:] = 0.0
    yield "zeros", np.zeros((12, WIDTH), np.float32)
    yield "repeats", np.repeat(row, 40, axis=0)
    yield "repeats and others", np.concatenate([np.repeat(row, 40, axis=0), some])
    yield "constant dimensions", constant
    yield "zeros among others", np.concatenate([np.zeros((25, WIDTH), np.float32), some])
    yield "mostly flat", half_flat
    yield "tiny", some * np.float32(1e-6)
    yield "large", some * np.float32(1e4)


ODD = dict(_odd_targets())


@pytest.mark.parametrize("odd", ODD)
def test_odd_targets_still_give_finite_repeatable_scores(on_vectors, odd):
    target = ODD[odd]
    scorer = fitted(on_vectors, target=form_of(registry.load(on_vectors)(), target))
    batch = np.concatenate(
        [target[-5:], np.zeros((2, WIDTH), np.float32), draw("embedding", 10, 0, 5)]
    )
    scores = scorer.score(batch)
    assert np.isfinite(scores).all()
    assert (scorer.score(batch[::-1]) == scores[::-1]).all()


def test_wide_rows_score_the_same_bits_in_any_batch(on_vectors):
    """Sizes at which BLAS does give a row other bits in another place of the batch."""
    rng = np.random.default_rng(0)
    rows = 24 if on_vectors.startswith("pyod") else 530
    target, background = rng.standard_normal((2, 150, 384)).astype(np.float32)
    batch = rng.standard_normal((rows, 384)).astype(np.float32)
    method = registry.build(on_vectors, {})
    scorer = method.fit(form_of(method, target), form_of(method, background), seed=0)
    whole = scorer.score(batch)
    order = rng.permutation(rows)
    assert (scorer.score(batch[order]) == whole[order]).all()
    assert (np.concatenate([scorer.score(batch[i : i + 1]) for i in range(24)]) == whole[:24]).all()


def test_another_embedders_vectors_are_refused(on_vectors):
    with pytest.raises(InputError, match="24"):
        fitted(on_vectors).score(np.zeros((3, WIDTH + 1), np.float32))


def test_a_method_says_what_it_reads_and_can_be_had_without_settings(name):
    cls = registry.load(name)
    assert cls.reads in get_args(Reads)
    assert cls.family in get_args(Family)
    assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(cls))


def test_settings_are_checked(name):
    with pytest.raises(UsageError, match="no_such"):
        registry.build(name, {"no_such": 1})
    for field in dataclasses.fields(registry.load(name)):
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            with pytest.raises(UsageError, match=rf"method\.{field.name}\b.*-1"):
                registry.build(name, {field.name: type(field.default)(-1)})


def as_plain(text):
    return text


def in_nfd(text):
    return unicodedata.normalize("NFD", text)


def with_soft_hyphens(text):
    return "\u00ad".join(text)


def with_wide_letters(text):
    return text.translate({ord(c): ord(c) + 0xFEE0 for c in string.ascii_letters})


@pytest.mark.parametrize("written", [in_nfd, with_soft_hyphens, with_wide_letters])
def test_a_word_is_one_word_however_its_letters_are_written(on_words, written):
    """As texts of one corpus may have any form."""
    rng = np.random.default_rng(1)
    law = ["tòa", "án", "luật", "sư", "bị", "cáo"]
    medicine = ["bệnh", "nhân", "thuốc", "điều", "trị"]

    def sentences(words, n):
        return [" ".join(rng.choice(words, 9)) for _ in range(n)]

    target, background = sentences(law, 40), sentences(law + medicine, 60)
    texts = [*sentences(law, 5), *sentences(medicine, 5)]
    scores = []
    for forms in itertools.product((as_plain, written), repeat=3):
        one, other, batch = (
            text_array([*map(form, of)])
            for of, form in zip((target, background, texts), forms, strict=True)
        )
        fitted_on = registry.build(on_words, {}).fit(one, other, seed=3)
        scores.append(fitted_on.score(batch))
        named = {effect.part for effect in fitted_on.explain(batch.to_pylist()[0]) or ()}
        assert named == {*map(word_form, named)}
    assert all((own == scores[0]).all() for own in scores)
