"""`corpusfit.Scorer`: the scores of `score`, and what scikit-learn asks of an estimator."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from journeys import WORDS, prose
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils.validation import check_is_fitted

import corpusfit
from corpusfit.embed import load
from corpusfit.errors import EmptyInputError, ModelError, UsageError
from corpusfit.plan import EmbedPlan
from corpusfit.score import registry, table
from corpusfit.types import text_array

TARGET = prose("task", 40)
BACKGROUND = [text for topic in WORDS for text in prose(topic, 60, seed=1)]
LONG = " ".join(prose("task", 60, seed=2))
TEXTS = [*TARGET[:20], *BACKGROUND]
LABELS = np.array([1] * 20 + [0] * len(BACKGROUND))


@pytest.fixture
def scorer(inline):
    """A Scorer on words."""
    return corpusfit.Scorer("moore_lewis", order=3, machine=inline)


@pytest.fixture(scope="module")
def fitted(inline):
    """The same, fitted; no test changes it."""
    return corpusfit.Scorer("moore_lewis", order=3, machine=inline).fit(TARGET, BACKGROUND)


def of_files(jsonl, tmp_path, inline, corpus, **options):
    """`corpusfit.score` on files of the same texts."""
    return corpusfit.score(
        target=jsonl("target.jsonl", TARGET),
        corpus=jsonl("corpus.jsonl", corpus),
        out=tmp_path / "out",
        machine=inline,
        **options,
    )


def stored(run):
    """The scores of a run's segments, in order."""
    return np.concatenate(
        [table.read_columns(path, "score")[0] for _, path in table.parts(run.path / "scores")]
    )


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("moore_lewis", {"order": 3}),
        ("dsir", {}),
        ("knn", {"k": 3}),
        ("isolation_forest", {"trees": 20}),
        ("domain_moore_lewis", {}),
    ],
)
def test_scores_are_those_of_score(method, settings, jsonl, tmp_path, inline, tiny_static):
    """Of a text of one unit also those of `Selection.scorer()`; a long text has several."""
    corpus, embedder = [*BACKGROUND, LONG], str(tiny_static)
    values = [f"method.{name}={value}" for name, value in settings.items()]
    options = {"method": method, "embedder": embedder, "seed": 5}
    run = of_files(jsonl, tmp_path, inline, corpus, settings=values, **options)
    scorer = corpusfit.Scorer(**options, **settings, machine=inline).fit(TARGET, corpus)
    assert (next(run.scores())["units"].to_numpy()[-1]) > 1
    np.testing.assert_array_equal(scorer.score(corpus), stored(run))
    few, own = text_array(TARGET), run.scorer()
    if method in ("knn", "isolation_forest"):
        few = load(EmbedPlan(embedder), tmp_path).encode(few).astype(np.float16).astype(np.float32)
    if method != "domain_moore_lewis":
        np.testing.assert_array_equal(scorer.score(TARGET), own.score(few))


@pytest.mark.slow
def test_auto_chooses_as_score_does(jsonl, tmp_path, inline, tiny_static):
    options = {"method": "auto", "embedder": str(tiny_static)}
    run = of_files(jsonl, tmp_path, inline, BACKGROUND, **options)
    scorer = corpusfit.Scorer(**options, machine=inline).fit(TARGET, BACKGROUND)
    assert scorer.method_ == run.manifest["method"]["name"]
    assert scorer.reason_ == run.manifest["reason"] != ""
    np.testing.assert_array_equal(scorer.score(BACKGROUND), stored(run))
    again = corpusfit.Scorer.load(saved(scorer, tmp_path / "scorer"), machine=inline)
    assert (again.method, again.method_, again.reason_) == ("auto", scorer.method_, scorer.reason_)


def test_a_method_in_rounds_scores_a_text_as_a_whole(jsonl, tmp_path, inline):
    run = of_files(jsonl, tmp_path, inline, BACKGROUND, method="cynical")
    scorer = corpusfit.Scorer("cynical", machine=inline).fit(TARGET, BACKGROUND)
    texts = [*TARGET, LONG]
    np.testing.assert_array_equal(scorer.score(texts), run.scorer().score(texts))


def test_every_sequence_has_the_same_scores(fitted, inline):
    pandas = pytest.importorskip("pandas")
    strings = pa.array(["left out", *TEXTS])[1:]
    scores = fitted.score(TEXTS)
    assert scores.dtype == np.float32
    for given in (
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        pandas.Series(TEXTS, range(9, 9 + len(TEXTS))),
        pandas.Series(TEXTS).astype("category"),
        strings,
        strings.cast(pa.large_string()),
        strings.cast(pa.string_view()),
        pa.chunked_array([strings[:7], strings[7:7], strings[7:]]),
    ):
        np.testing.assert_array_equal(fitted.score(given), scores)
        other = clone(fitted).fit(pa.array(TARGET), given)
        assert other.score(TEXTS).shape == scores.shape
    assert fitted.score([]).shape == fitted.score(pa.chunked_array([], pa.string())).shape == (0,)


def test_polars_columns_have_the_same_scores(fitted):
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(fitted.score(polars.Series(TEXTS)), fitted.score(TEXTS))


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        b"text",
        [1],
        ["a", None],
        {"a": 1},
        [["a"]],
        np.array([["a"]]),
        pa.array(["a", None]),
        pa.array([1]),
        iter(["a"]),
    ],
)
def test_what_are_no_strings_is_refused(fitted, given):
    with pytest.raises(TypeError):
        fitted.score(given)
    with pytest.raises(TypeError, match="target"):
        clone(fitted).fit(given, BACKGROUND)


def test_a_frame_is_refused(fitted):
    frame = pytest.importorskip("pandas").DataFrame({"text": TEXTS})
    with pytest.raises(TypeError):
        fitted.score(frame)


@pytest.mark.parametrize(
    ("target", "background", "named"),
    [
        ([], BACKGROUND, "target"),
        (["", " \n"], BACKGROUND, "target"),
        (TARGET, [], "background"),
        (TARGET, [0] * len(TARGET), "target"),
        (TARGET, [1] * len(TARGET), "background"),
    ],
)
def test_an_empty_side_is_named(scorer, target, background, named):
    with pytest.raises(EmptyInputError, match=named):
        scorer.fit(target, background)


@pytest.mark.parametrize("background", [None, [1, 0]])
def test_a_background_that_fits_no_target_is_refused(scorer, background):
    with pytest.raises(UsageError, match="background"):
        scorer.fit(TARGET, background)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"method": "moore_lewis", "ordre": 3}, "ordre.*|.*order"),
        ({"method": "knn", "k": "x"}, r"\bk="),
        ({"method": "nix"}, "moore_lewis"),
        ({"method": "textrank"}, "textrank"),
        ({"method": "oracle"}, "oracle"),
        ({"k": 3}, "auto"),
        ({"seed": "x"}, "seed="),
    ],
)
def test_a_wrong_parameter_is_named(parameters, named):
    with pytest.raises(UsageError, match=named):
        corpusfit.Scorer(**parameters)
    with pytest.raises(UsageError, match=named):
        corpusfit.Scorer().set_params(**parameters)


def test_a_scorer_that_is_not_fitted_says_so(scorer, tmp_path):
    for use in (scorer.score, scorer.transform, scorer.save):
        with pytest.raises(UsageError, match="fit"):
            use(str(tmp_path / "x") if use == scorer.save else TARGET)


def test_parameters_are_the_settings_of_the_method_too(scorer):
    known = registry.build("moore_lewis", {"order": 3})
    own = {"method": "moore_lewis", "embedder": "auto", "seed": 0, "machine": scorer.machine}
    assert scorer.get_params() == own | vars(known)
    assert scorer.set_params(order=4, seed=2).get_params() == own | vars(known) | {
        "order": 4,
        "seed": 2,
    }
    assert scorer.set_params(method="knn", k=7).get_params() == own | {
        "method": "knn",
        "k": 7,
        "seed": 2,
    }


def test_the_embedder_of_a_method_is_that_of_the_scorer():
    own = corpusfit.Scorer("domain_finetune", embedder="x", epochs=2)
    assert own.get_params() == corpusfit.Scorer(**own.get_params()).get_params()
    assert own.get_params()["embedder"] == "x"
    assert repr(own) == "Scorer(method='domain_finetune', embedder='x', epochs=2)"


def test_a_clone_has_the_parameters_and_no_fit(fitted):
    copy = clone(fitted)
    assert copy.get_params() | {"machine": fitted.machine} == fitted.get_params()
    check_is_fitted(fitted)
    with pytest.raises(ValueError, match="fitted"):
        check_is_fitted(copy)
    np.testing.assert_array_equal(copy.fit(TARGET, BACKGROUND).score(TEXTS), fitted.score(TEXTS))


@pytest.mark.parametrize("scoring", ["average_precision", "function"])
def test_a_grid_is_searched_over_labelled_texts(scorer, scoring):
    """Each fold's figure is the average precision of a Scorer that is fitted by hand."""

    def precision(fitted, texts, labels):
        return average_precision_score(labels, fitted.score(texts))

    folds = StratifiedKFold(2)
    grid = [{"order": [2, 3]}, {"method": ["dsir"], "order": [1]}]
    measure = precision if scoring == "function" else scoring
    search = GridSearchCV(scorer, grid, scoring=measure, cv=folds, error_score="raise")
    search.fit(TEXTS, LABELS)
    for number, (train, test) in enumerate(folds.split(TEXTS, LABELS)):
        known = [[TEXTS[i] for i in train if LABELS[i] == label] for label in (1, 0)]
        expected = []
        for parameters in ({"order": 2}, {"order": 3}, {"method": "dsir", "order": 1}):
            own = clone(scorer).set_params(**parameters).fit(*known)
            expected.append(precision(own, [TEXTS[i] for i in test], LABELS[test]))
        found = search.cv_results_[f"split{number}_test_score"]
        np.testing.assert_array_equal(found, expected)
    best = clone(scorer).set_params(**search.best_params_)
    best.fit([t for t, label in zip(TEXTS, LABELS, strict=True) if label], BACKGROUND)
    np.testing.assert_array_equal(search.best_estimator_.score(TEXTS), best.score(TEXTS))


def test_a_pipeline_uses_the_score_as_a_feature(fitted):
    texts = [*TARGET, *BACKGROUND]
    labels = [1] * len(TARGET) + [-1] * len(BACKGROUND)
    alone = make_pipeline(clone(fitted), LogisticRegression()).fit(texts, labels)
    np.testing.assert_array_equal(alone[0].score(texts), fitted.score(texts))
    assert alone.score(texts, labels) > 0.9
    union = FeatureUnion([("fit", clone(fitted)), ("words", TfidfVectorizer())])
    both = make_pipeline(union, LogisticRegression()).fit(texts, labels)
    features = both[0].transform(texts)
    np.testing.assert_array_equal(features[:, [0]].toarray(), fitted.score(texts)[:, None])
    assert both[0].get_feature_names_out()[0] == "fit__score"
    assert both.score(texts, labels) > 0.9


def test_a_pipeline_passes_the_background_on(fitted):
    last = make_pipeline(clone(fitted)).fit(TARGET, BACKGROUND)
    np.testing.assert_array_equal(last.score_samples(TEXTS), fitted.score(TEXTS))
    np.testing.assert_array_equal(last.score(TEXTS), fitted.score(TEXTS))
    assert "moore_lewis" in last._repr_html_()


def saved(scorer, folder):
    """The folder of a saved Scorer."""
    scorer.save(folder)
    return folder


@pytest.mark.parametrize("method", ["moore_lewis", "isolation_forest"])
def test_a_saved_scorer_has_the_same_scores(method, inline, tiny_static, tmp_path):
    scorer = corpusfit.Scorer(method, embedder=str(tiny_static), seed=3, machine=inline)
    folder = saved(scorer.fit(TARGET, BACKGROUND), tmp_path / "scorer")
    again = corpusfit.Scorer.load(folder, machine=inline)
    assert again.get_params() == scorer.get_params()
    assert again.score(TEXTS).tobytes() == scorer.score(TEXTS).tobytes()
    assert {file.name for file in folder.iterdir()} == {"scorer.json", "scorer.safetensors"}
    twice = saved(clone(scorer).fit(TARGET, BACKGROUND), tmp_path / "twice")
    for file in folder.iterdir():
        assert (twice / file.name).read_bytes() == file.read_bytes()


def test_the_seed_decides(inline, tiny_static):
    scorer = corpusfit.Scorer("isolation_forest", embedder=str(tiny_static), machine=inline)
    first = scorer.fit(TARGET, BACKGROUND).score(TEXTS)
    assert (clone(scorer).set_params(seed=1).fit(TARGET, BACKGROUND).score(TEXTS) != first).any()


def test_a_folder_without_a_scorer_is_named(tmp_path):
    with pytest.raises(ModelError, match="empty"):
        corpusfit.Scorer.load(tmp_path / "empty")


def test_a_saved_scorer_names_an_embedder_that_changed(inline, tiny_static, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_static, model)
    scorer = corpusfit.Scorer("knn", embedder=str(model), machine=inline).fit(TARGET, BACKGROUND)
    folder = saved(scorer, tmp_path / "scorer")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "normalize": False}))
    with pytest.raises(ModelError, match="embedder"):
        corpusfit.Scorer.load(folder, machine=inline).score(TARGET)
