"""Every scoring method that the registry lists meets the contract of `scoring/contract.py`."""

import dataclasses
import itertools
import unicodedata
import zlib
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from corpusfit.core import artifacts
from corpusfit.core.errors import CorpusfitError, InputError, UnknownMethodError, UsageError
from corpusfit.core.types import Paired, Reads, WithNumbers, read_as, take_units, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Family, Method
from corpusfit.scoring.names import names as method_names

WIDTH = 24
ALONE = {n for n in method_names() if issubclass(registry.load(n), Method)}
NAMES = sorted({*ALONE, "pyod:ECOD", "pyod:KNN", "field:edu"} - {"pyod", "field", "fasttext"})
EMBEDDING = [n for n in NAMES if registry.load(n).reads == "embedding"]


def seeded(*parts):
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def blob(rng, n, side):
    """Embeddings of one of two topics: unit noise around centers 2.5 apart in every dimension."""
    center = np.zeros(WIDTH)
    center[side::2] = 2.5
    return (center + rng.standard_normal((n, WIDTH))).astype(np.float32)


TOPICS = (
    "protein kinase binds the receptor and inhibits cell growth in mice",
    "the market fell as investors sold shares before the quarterly results",
)


def prose(rng, n, side):
    words = TOPICS[side].split()
    return pa.array(
        [" ".join(rng.choice(words, rng.integers(8, 20))) + "." for _ in range(n)],
        pa.large_string(),
    )


def draw(form, rng, n, side):
    """n units of a topic as texts, embeddings or both."""
    if form == "both":
        return Paired(prose(rng, n, side), blob(rng, n, side))
    if form == "numbers":
        return WithNumbers(prose(rng, n, side), {"edu": rng.standard_normal(n)})
    return (blob if form == "embedding" else prose)(rng, n, side)


def join(*parts):
    if isinstance(parts[0], Paired):
        texts, vectors = ([getattr(p, name) for p in parts] for name in ("texts", "vectors"))
        return Paired(join(*texts), join(*vectors))
    if isinstance(parts[0], WithNumbers):
        numbers = {name: join(*(p.numbers[name] for p in parts)) for name in parts[0].numbers}
        return WithNumbers(join(*(p.units for p in parts)), numbers)
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


SETTINGS = {
    "domain_finetune": {"epochs": 1, "learning_rate": 1e-3, "batch": 16},
    "conditional_loss": {"max_steps": 20, "learning_rate": 1e-3},
    "model": {"label": "LABEL_1"},
}
"""Where the defaults would take minutes, or suit no tiny model."""


@pytest.fixture(scope="module", autouse=True)
def small_models(tiny_encoder, tiny_lm, tiny_classifier):
    """What a method with a model of its own gets here."""
    SETTINGS["domain_finetune"]["embedder"] = str(tiny_encoder)
    SETTINGS["conditional_loss"]["model"] = str(tiny_lm)
    SETTINGS["model"]["model"] = str(tiny_classifier)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corpusfit.scoring.methods.conditional_loss.READ", 400)
        yield


def form_of(method, vectors):
    """Embeddings as the method is fitted on them: with texts beside them if it wants those."""
    if method.fits_on == "embedding":
        return vectors
    return Paired(prose(seeded("beside"), len(vectors), 0), vectors)


def fitted(name, n=60, seed=7, target=None):
    rng = seeded("fit")
    method = registry.build(name, SETTINGS.get(name, {}))
    target = draw(method.fits_on, rng, n, 0) if target is None else target
    background = join(draw(method.fits_on, rng, 90, 1), draw(method.fits_on, rng, 10, 0))
    return method.fit(target, background, seed=seed)


def same(name, scores, others):
    """The same bits; of a network, which multiplies in bf16 where it can, to 5 % of the spread."""
    if registry.load(name).exact:
        return (scores == others).all()
    return np.abs(scores - others).max() < 0.05 * others.std()


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    """A method's name, its fitted scorer, and a batch half of whose rows are like the target."""
    name = request.param
    rng = seeded("score")
    reads = registry.load(name).reads
    return name, fitted(name), join(draw(reads, rng, 30, 0), draw(reads, rng, 31, 1))


def test_scores_are_finite_float32_one_a_row(case):
    _, scorer, batch = case
    scores = scorer.score(batch)
    assert scores.dtype == np.float32
    assert scores.shape == (61,)
    assert np.isfinite(scores).all()


def test_held_out_target_texts_score_higher_than_far_ones(case):
    name, scorer, batch = case
    scores = scorer.score(batch)
    if registry.load(name).family in ("baseline", "external"):
        pytest.skip("it knows nothing of the target")
    near, far = scores[:30], scores[30:]
    assert np.mean(near[:, None] > far[None, :]) > 0.9


def test_a_row_scores_the_same_in_any_batch(case):
    name, scorer, batch = case
    whole = scorer.score(batch)
    order = seeded("order").permutation(61)
    assert same(name, scorer.score(take_units(batch, order)), whole[order])
    for size in (1, 2, 7, 32):
        parts = [take_units(batch, np.arange(61)[i : i + size]) for i in range(0, 61, size)]
        assert same(name, np.concatenate([scorer.score(p) for p in parts]), whole)
    repeated = np.arange(5 * 61) % 61
    assert same(name, scorer.score(take_units(batch, repeated)), whole[repeated])


@pytest.mark.parametrize("name", [n for n in NAMES if registry.load(n).reads == "text"])
def test_texts_come_in_any_form(name):
    """A list, columns of pandas and NumPy, and Arrow's strings, also a slice, have the same scores.

    Anything else is refused: its bytes would be read as texts.
    """
    pandas = pytest.importorskip("pandas")
    scorer, texts = fitted(name), prose(seeded("forms"), 20, 0)[3:]
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


def test_an_empty_batch_has_no_scores(case):
    _, scorer, batch = case
    assert scorer.score(take_units(batch, np.arange(0))).shape == (0,)


def test_a_scorer_is_arrays_numbers_and_names(case):
    _, scorer, _ = case
    for field in dataclasses.fields(scorer):
        assert isinstance(
            getattr(scorer, field.name), np.ndarray | bool | int | float | str | tuple
        )


def test_a_stored_scorer_gives_the_same_bits(case, tmp_path):
    name, scorer, batch = case
    artifacts.store(tmp_path / "scorer", name, scorer)
    restored = artifacts.restore(tmp_path / "scorer", registry.scorer_class)
    assert type(restored) is type(scorer)
    assert (restored.score(batch) == scorer.score(batch)).all()


def test_the_same_seed_gives_the_same_bits(case):
    name, scorer, batch = case
    assert (fitted(name).score(batch) == scorer.score(batch)).all()


def test_fitting_leaves_its_input_alone(case):
    name, _, _ = case
    method = registry.build(name, SETTINGS.get(name, {}))
    if method.fits_on in ("text", "numbers"):
        pytest.skip("Arrow arrays cannot be changed")
    target = draw(method.fits_on, seeded("alone"), 30, 0)
    read_as(target, "embedding").flags.writeable = False
    scorer = fitted(name, target=target)
    assert np.isfinite(scorer.score(read_as(target, method.reads))).all()


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_a_tiny_target_is_enough(case, n):
    name, _, batch = case
    assert np.isfinite(fitted(name, n).score(batch)).all()


def _odd_targets():
    rng = seeded("odd")
    row = rng.standard_normal((1, WIDTH)).astype(np.float32)
    some = blob(rng, 30, 0)
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
@pytest.mark.parametrize("name", EMBEDDING)
def test_odd_targets_still_give_finite_repeatable_scores(name, odd):
    target = ODD[odd]
    scorer = fitted(name, target=form_of(registry.load(name)(), target))
    batch = np.concatenate([target[-5:], np.zeros((2, WIDTH), np.float32), blob(seeded(0), 5, 1)])
    scores = scorer.score(batch)
    assert np.isfinite(scores).all()
    assert (scorer.score(batch[::-1]) == scores[::-1]).all()


@pytest.mark.parametrize("name", EMBEDDING)
def test_wide_rows_score_the_same_bits_in_any_batch(name):
    """Sizes at which BLAS does give a row other bits in another place of the batch."""
    rng = seeded("wide")
    rows = 24 if registry.load(name).needs == "pyod" else 530
    target, background = rng.standard_normal((2, 150, 384)).astype(np.float32)
    batch = rng.standard_normal((rows, 384)).astype(np.float32)
    method = registry.build(name, {})
    scorer = method.fit(form_of(method, target), form_of(method, background), seed=0)
    whole = scorer.score(batch)
    order = rng.permutation(rows)
    assert (scorer.score(batch[order]) == whole[order]).all()
    assert (np.concatenate([scorer.score(batch[i : i + 1]) for i in range(24)]) == whole[:24]).all()


@pytest.mark.parametrize("name", EMBEDDING)
def test_another_embedders_vectors_are_refused(name):
    with pytest.raises(InputError, match="24"):
        fitted(name).score(np.zeros((3, WIDTH + 1), np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_a_method_says_what_it_reads_and_can_be_had_without_settings(name):
    cls = registry.load(name)
    assert cls.reads in get_args(Reads)
    assert cls.family in get_args(Family)
    assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(cls))


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_checked(name):
    with pytest.raises(UsageError, match="no_such"):
        registry.build(name, {"no_such": 1})
    for field in dataclasses.fields(registry.load(name)):
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            with pytest.raises(UsageError, match=rf"method\.{field.name}\b.*-1"):
                registry.build(name, {field.name: type(field.default)(-1)})


ON_WORDS = [n for n in NAMES if registry.load(n).family == "lexical"] + ["cross_entropy"]
ON_WORDS.remove("conditional_loss")


@pytest.mark.parametrize("name", ON_WORDS)
def test_a_word_is_one_word_whether_its_marks_are_characters_or_not(name):
    """As texts of one corpus may have either form, NFC and NFD."""
    rng = seeded("forms")
    law = ["tòa", "án", "luật", "sư", "bị", "cáo"]
    medicine = ["bệnh", "nhân", "thuốc", "điều", "trị"]

    def sentences(words, n, form):
        rows = [" ".join(rng.choice(words, 9)) for _ in range(n)]
        return [unicodedata.normalize(form, row) for row in rows]

    target, background = sentences(law, 40, "NFC"), sentences(law + medicine, 60, "NFC")
    texts = [*sentences(law, 5, "NFC"), *sentences(medicine, 5, "NFC")]
    scores = []
    for forms in itertools.product(("NFC", "NFD"), repeat=3):
        given = zip((target, background, texts), forms, strict=True)
        one, other, batch = (
            text_array([unicodedata.normalize(form, text) for text in of]) for of, form in given
        )
        fitted_on = registry.build(name, {}).fit(one, other, seed=3)
        scores.append(fitted_on.score(batch))
        named = {effect.part for effect in fitted_on.explain(batch.to_pylist()[0]) or ()}
        assert named == {unicodedata.normalize("NFC", n) for n in named}
    assert all((own == scores[0]).all() for own in scores)


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownMethodError, match="isolation_forest"):
        registry.load("isolationforest")
    assert issubclass(UnknownMethodError, CorpusfitError)
