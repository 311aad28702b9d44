"""`corpusfit.Scorer`: the scores of `select`, and what scikit-learn asks of an estimator."""

import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sklearn
from journeys import WORDS, prose
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

import corpusfit
from corpusfit.core.errors import (
    CorpusfitError,
    EmptyInputError,
    ModelError,
    UsageError,
)
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import text_array
from corpusfit.embed import load
from corpusfit.scoring import registry, table

TARGET = prose("task", 40)
BACKGROUND = [text for topic in WORDS for text in prose(topic, 60, seed=1)]
LONG = " ".join(prose("task", 60, seed=2))
TEXTS = [*TARGET[:20], *BACKGROUND]
LABELS = np.array([1] * 20 + [0] * len(BACKGROUND))


@pytest.fixture
def scorer():
    """A Scorer on words."""
    return corpusfit.Scorer("moore_lewis", order=3)


@pytest.fixture(scope="module")
def fitted():
    """The same, fitted; no test changes it."""
    return corpusfit.Scorer("moore_lewis", order=3).fit(TARGET, BACKGROUND)


def of_files(jsonl, tmp_path, inline, corpus, **options):
    """`corpusfit.select` on files of the same texts."""
    return corpusfit.select(
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
        ("blend", {}),
    ],
)
def test_scores_are_those_of_score(method, settings, jsonl, tmp_path, inline, tiny_static):
    """Of a text of one unit also those of `Selection.scorer()`; a long text has several."""
    corpus, embedder = [*BACKGROUND, LONG], str(tiny_static)
    values = [f"method.{name}={value}" for name, value in settings.items()]
    values.append("cut.gamma=1000")  # a text is one segment, as for a scorer
    options = {"method": method, "embedder": embedder, "seed": 5}
    run = of_files(jsonl, tmp_path, inline, corpus, settings=values, **options)
    scorer = corpusfit.Scorer(**options, **settings).fit(TARGET, corpus)
    assert (next(run.scores())["units"].to_numpy()[-1]) > 1
    np.testing.assert_array_equal(scorer.score_samples(corpus), stored(run))
    opened = corpusfit.Scorer.load(run)
    by_words = {} if run.manifest["encoder"] else {"embedder": "auto"}
    assert opened.get_params() == scorer.get_params() | by_words
    np.testing.assert_array_equal(opened.score_samples(corpus), stored(run))
    short = [text for text in TARGET if len(text.split()) < 30]  # one unit
    assert len(short) > 5
    few, own = text_array(short), run.scorer()
    if method in ("knn", "isolation_forest"):
        with pytest.raises(TypeError, match=r"not texts.*Scorer\.load"):
            own.score(TARGET)
        few = load(EmbedPlan(embedder)).encode(few).astype(np.float16).astype(np.float32)
    if method != "blend":
        np.testing.assert_array_equal(scorer.score_samples(short), own.score(few))


@pytest.mark.slow
def test_worker_processes_change_nothing(tiny_static):
    scorer = corpusfit.Scorer("domain_classifier", embedder=str(tiny_static))
    here = scorer.fit(TARGET, BACKGROUND).score_samples(TEXTS)
    scorer.set_params(machine=corpusfit.Machine(workers=1))
    np.testing.assert_array_equal(scorer.fit(TARGET, BACKGROUND).score_samples(TEXTS), here)


def test_a_method_in_rounds_scores_a_text_as_a_whole(jsonl, tmp_path, inline):
    run = of_files(jsonl, tmp_path, inline, BACKGROUND)
    scorer = corpusfit.Scorer().fit(TARGET, BACKGROUND)
    texts = [*TARGET, LONG]
    np.testing.assert_array_equal(scorer.score_samples(texts), run.scorer().score(texts))


def test_every_sequence_has_the_same_scores(fitted):
    pandas = pytest.importorskip("pandas")
    strings = pa.array(["left out", *TEXTS])[1:]
    scores = fitted.score_samples(TEXTS)
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
        np.testing.assert_array_equal(fitted.score_samples(given), scores)
        other = clone(fitted).fit(pa.array(TARGET), given)
        assert other.score_samples(TEXTS).shape == scores.shape
    assert (
        fitted.score_samples([]).shape
        == fitted.score_samples(pa.chunked_array([], pa.string())).shape
        == (0,)
    )


def test_polars_columns_have_the_same_scores(fitted):
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(
        fitted.score_samples(polars.Series(TEXTS)), fitted.score_samples(TEXTS)
    )


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
        fitted.score_samples(given)
    with pytest.raises(TypeError, match="target"):
        clone(fitted).fit(given, BACKGROUND)


def test_a_frame_is_refused(fitted):
    frame = pytest.importorskip("pandas").DataFrame({"text": TEXTS})
    with pytest.raises(TypeError):
        fitted.score_samples(frame)


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


def test_labels_of_other_classes_are_refused(scorer):
    with pytest.raises(UsageError, match=r"labels such as 5'.*labels == 5"):
        scorer.fit(TARGET, [5, 6] * (len(TARGET) // 2))


@pytest.mark.parametrize("background", [None, [1, 0], ["bio", "food"] * (len(TARGET) // 2)])
def test_a_background_that_fits_no_target_is_refused(scorer, background):
    with pytest.raises(UsageError, match="background"):
        scorer.fit(TARGET, background)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"method": "moore_lewis", "ordre": 3}, "ordre.*|.*order"),
        ({"method": "knn", "k": "x"}, r"`method\.k`"),
        ({"method": "nix"}, "nix"),
        ({"method": "oracle"}, "oracle"),
        ({"method": "auto"}, "corpusfit rank"),
        ({"k": 3}, "cynical"),
        ({"seed": "x"}, "`seed"),
    ],
)
def test_a_wrong_parameter_is_named(parameters, named):
    with pytest.raises(UsageError, match=named):
        corpusfit.Scorer(**parameters)
    with pytest.raises(UsageError, match=named):
        corpusfit.Scorer().set_params(**parameters)


def test_a_scorer_that_is_not_fitted_says_so(scorer, tmp_path):
    for use in (scorer.score_samples, scorer.transform, scorer.save):
        with pytest.raises(UsageError, match="fit"):
            use(str(tmp_path / "x") if use == scorer.save else TARGET)


def test_parameters_are_the_settings_of_the_method_too(scorer):
    known = registry.build("moore_lewis", {"order": 3})
    own = {"method": "moore_lewis", "embedder": "auto", "seed": 0, "machine": None}
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
    own = corpusfit.Scorer("blend", embedder="x", weights="1,2,3")
    assert own.get_params() == corpusfit.Scorer(**own.get_params()).get_params()
    assert own.get_params()["embedder"] == "x"
    assert repr(own) == "Scorer(method='blend', embedder='x', weights='1,2,3')"


def test_a_clone_has_the_parameters_and_no_fit(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    check_is_fitted(fitted)
    with pytest.raises(ValueError, match="fitted"):
        check_is_fitted(copy)
    np.testing.assert_array_equal(
        copy.fit(TARGET, BACKGROUND).score_samples(TEXTS), fitted.score_samples(TEXTS)
    )


def test_one_number_is_the_mean_or_the_precision_of_labels(fitted):
    scores = fitted.score_samples(TEXTS)
    mean = fitted.score(TEXTS)
    assert isinstance(mean, float)
    assert mean == pytest.approx(scores.mean(), rel=1e-6)
    assert fitted.score(TEXTS, LABELS) == average_precision_score(LABELS, scores)
    for texts, labels in ([], None), (TEXTS, LABELS[1:]), (TEXTS, TEXTS):
        with pytest.raises(CorpusfitError, match="text"):
            fitted.score(texts, labels)


@pytest.mark.parametrize(
    "check",
    [
        "estimator_cloneable",
        "estimator_repr",
        "estimator_tags_renamed",
        "get_params_invariance",
        "mixin_order",
        "parameters_default_constructible",
        "valid_tag_types",
    ],
)
def test_checks_of_scikit_learn(scorer, check):
    """Those that fit nothing. A wrong parameter is refused at once."""
    getattr(estimator_checks, f"check_{check}")("Scorer", scorer)


@pytest.mark.parametrize(
    "check",
    [
        "estimators_fit_returns_self",
        "estimators_overwrite_params",
        "estimators_pickle",
        "estimators_unfitted",
        "fit_check_is_fitted",
        "fit_idempotent",
        "get_feature_names_out_error",
        "no_attributes_set_in_init",
        "pipeline_consistency",
        "set_output_transform",
        "transformer_get_feature_names_out",
        "transformer_preserve_dtypes",
        "transformers_unfitted",
    ],
)
def test_checks_of_scikit_learn_on_texts(scorer, check, monkeypatch):
    """They fit numbers that they draw, in place of which they get texts and labels of both kinds.

    Left out: what needs numbers, several features or a threshold. Their errors for wrong
    parameters and empty data are ours, and the argument for labels may be texts.
    """
    texts = np.array([text for pair in zip(BACKGROUND, TARGET, strict=False) for text in pair])
    for name, drawn in (
        ("X", lambda estimator, numbers, **_: np.resize(texts, len(numbers))),
        ("y", lambda estimator, numbers: np.arange(len(numbers)) % 2),
    ):
        monkeypatch.setattr(estimator_checks, f"_enforce_estimator_tags_{name}", drawn)
    getattr(estimator_checks, f"check_{check}")("Scorer", scorer)


def test_a_fit_sets_what_was_fitted_alone(scorer):
    before = dict(vars(scorer))
    scorer.fit(TARGET, BACKGROUND)
    after = vars(scorer)
    assert set(after) - set(before) == {"fitted_"}
    assert all(after[name] is value for name, value in before.items())
    assert not [name for name in dir(scorer) if name in ("n_features_in_", "feature_names_in_")]


def test_it_is_a_transformer_that_predicts_nothing(scorer):
    tags = get_tags(scorer)
    assert (tags.estimator_type, hasattr(scorer, "predict")) == (None, False)
    assert tags.transformer_tags
    assert (tags.input_tags.string, tags.input_tags.two_d_array) == (True, False)
    assert tags.target_tags.required


def test_a_notebook_shows_it(scorer):
    shown = scorer._repr_html_()
    assert "moore_lewis" in shown
    assert "Not fitted" in shown
    assert "Not fitted" not in scorer.fit(TARGET, BACKGROUND)._repr_html_()


def test_a_refused_parameter_changes_nothing(scorer):
    before = scorer.get_params()
    with pytest.raises(UsageError):
        scorer.set_params(seed=3, order="x")
    assert scorer.get_params() == before


@pytest.mark.parametrize(
    "scoring",
    [
        None,
        pytest.param(
            "average_precision",
            marks=pytest.mark.skipif(
                sklearn.__version__ < "1.9", reason="its scorers ask for a classifier"
            ),
        ),
        "function",
    ],
)
def test_a_grid_is_searched_over_labeled_texts(scorer, scoring):
    """Each fold's figure is the average precision of a Scorer that is fitted by hand."""

    def precision(fitted, texts, labels):
        return average_precision_score(labels, fitted.score_samples(texts))

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
    np.testing.assert_array_equal(
        search.best_estimator_.score_samples(TEXTS), best.score_samples(TEXTS)
    )


def test_a_pipeline_uses_the_score_as_a_feature(fitted):
    texts = [*TARGET, *BACKGROUND]
    labels = [1] * len(TARGET) + [-1] * len(BACKGROUND)
    alone = make_pipeline(clone(fitted), LogisticRegression()).fit(texts, labels)
    np.testing.assert_array_equal(alone[0].score_samples(texts), fitted.score_samples(texts))
    assert alone.score(texts, labels) > 0.9
    union = FeatureUnion([("fit", clone(fitted)), ("words", TfidfVectorizer())])
    both = make_pipeline(union, LogisticRegression()).fit(texts, labels)
    features = both[0].transform(texts)
    np.testing.assert_array_equal(features[:, [0]].toarray(), fitted.score_samples(texts)[:, None])
    assert both[0].get_feature_names_out()[0] == "fit__score"
    assert both.score(texts, labels) > 0.9


def test_frames_come_out_where_they_are_asked_for(scorer):
    """Also of a clone, of steps, and by scikit-learn's own setting."""
    pandas = pytest.importorskip("pandas")
    texts = pandas.Series(TEXTS, range(5, 5 + len(TEXTS)))
    array = scorer.fit_transform(TEXTS, LABELS)
    frame = clone(scorer.set_output(transform="pandas")).fit_transform(texts, LABELS)
    assert (list(frame.columns), list(frame.index)) == (["score"], list(texts.index))
    np.testing.assert_array_equal(frame, array)
    both = ColumnTransformer([("like", clone(scorer), "text")], remainder="passthrough")
    both.set_output(transform="pandas")
    whole = both.fit_transform(pandas.DataFrame({"text": texts, "n": 1}), LABELS)
    assert list(whole.columns) == ["like__score", "remainder__n"]
    assert isinstance(scorer.set_output(transform="default").transform(TEXTS), np.ndarray)
    with sklearn.config_context(transform_output="pandas"):
        fresh = corpusfit.Scorer("dsir")
        assert list(fresh.fit_transform(TEXTS, LABELS).columns) == ["score"]
    polars = pytest.importorskip("polars")
    found = scorer.set_output(transform="polars").transform(TEXTS)
    np.testing.assert_array_equal(found.get_column("score"), array[:, 0])
    assert isinstance(found, polars.DataFrame)
    with pytest.raises(UsageError, match="'frame'"):
        scorer.set_output(transform="frame")


def test_a_pipeline_passes_the_background_on(fitted):
    last = make_pipeline(clone(fitted)).fit(TARGET, BACKGROUND)
    np.testing.assert_array_equal(last.score_samples(TEXTS), fitted.score_samples(TEXTS))
    assert last.score(TEXTS, LABELS) == fitted.score(TEXTS, LABELS)
    assert "moore_lewis" in last._repr_html_()


def saved(scorer, folder):
    """The folder of a saved Scorer."""
    scorer.save(folder)
    return folder


@pytest.mark.parametrize("method", ["moore_lewis", "isolation_forest"])
def test_a_saved_scorer_has_the_same_scores(method, tiny_static, tmp_path):
    scorer = corpusfit.Scorer(method, embedder=str(tiny_static), seed=3)
    folder = saved(scorer.fit(TARGET, BACKGROUND), tmp_path / "scorer")
    again = corpusfit.Scorer.load(folder)
    assert again.get_params() == scorer.get_params()
    assert again.score_samples(TEXTS).tobytes() == scorer.score_samples(TEXTS).tobytes()
    assert {file.name for file in folder.iterdir()} == {"scorer.json", "scorer.safetensors"}
    twice = saved(clone(scorer).fit(TARGET, BACKGROUND), tmp_path / "twice")
    for file in folder.iterdir():
        assert (twice / file.name).read_bytes() == file.read_bytes()


def test_a_scorer_of_the_hub(fitted, hub, tmp_path):
    fitted.save_pretrained(tmp_path / "scorer")
    files = {file.name: file.read_bytes() for file in (tmp_path / "scorer").iterdir()}
    hub["someone/scorer"] = {"kind": "model", "private": False, "files": files}
    for name in ("someone/scorer", tmp_path / "scorer"):
        score = corpusfit.Scorer.from_pretrained(name).score_samples
        np.testing.assert_array_equal(score(TEXTS), fitted.score_samples(TEXTS))
    with pytest.raises(UsageError, match=r"Scorer must be .*someone/nothing"):
        corpusfit.Scorer.from_pretrained("someone/nothing")


@pytest.mark.parametrize("more", [-1, 1])
def test_a_scorer_of_another_version_is_refused(fitted, tmp_path, more):
    folder = saved(fitted, tmp_path / "scorer")
    about = json.loads((folder / "scorer.json").read_bytes())
    (folder / "scorer.json").write_text(json.dumps(about | {"format": about["format"] + more}))
    with pytest.raises(ModelError, match="another version"):
        corpusfit.Scorer.load(folder)


def test_numbers_of_numpy_are_settings_too(scorer, tmp_path):
    grid = clone(scorer).set_params(order=np.int64(2), seed=np.int64(0))
    plain = clone(scorer).set_params(order=2)
    for one in (grid, plain):
        one.fit(TARGET, BACKGROUND)
    np.testing.assert_array_equal(grid.score_samples(TEXTS), plain.score_samples(TEXTS))
    grid.save(tmp_path / "scorer")
    assert corpusfit.Scorer.load(tmp_path / "scorer").get_params()["order"] == 2


def test_a_scorer_that_scored_is_pickled(tiny_static):
    one = corpusfit.Scorer("domain_cosine", embedder=str(tiny_static)).fit(TARGET, BACKGROUND)
    scores = one.score_samples(TEXTS)
    again = pickle.loads(pickle.dumps(one.score_samples))  # as workers get it
    np.testing.assert_array_equal(again(TEXTS), scores)


def test_the_seed_decides(tiny_static):
    scorer = corpusfit.Scorer("isolation_forest", embedder=str(tiny_static))
    first = scorer.fit(TARGET, BACKGROUND).score_samples(TEXTS)
    assert (
        clone(scorer).set_params(seed=1).fit(TARGET, BACKGROUND).score_samples(TEXTS) != first
    ).any()


def test_a_folder_without_a_scorer_is_named(tmp_path):
    with pytest.raises(ModelError, match="empty"):
        corpusfit.Scorer.load(tmp_path / "empty")


def test_a_saved_scorer_of_other_words_is_refused(tmp_path):
    """Of a version that divides some scripts otherwise; a method on embeddings reads no words."""
    folder = saved(corpusfit.Scorer("dsir").fit(TARGET, BACKGROUND), tmp_path / "scorer")
    about = json.loads((folder / "scorer.json").read_bytes())
    (folder / "scorer.json").write_text(json.dumps(about | {"tokens": 1}))
    with pytest.raises(ModelError, match=r"other words.*Fit it again"):
        corpusfit.Scorer.load(folder)


def test_a_saved_scorer_names_an_embedder_that_changed(tiny_static, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_static, model)
    scorer = corpusfit.Scorer("knn", embedder=str(model)).fit(TARGET, BACKGROUND)
    folder = saved(scorer, tmp_path / "scorer")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "normalize": False}))
    with pytest.raises(ModelError, match="embedder"):
        corpusfit.Scorer.load(folder).score_samples(TARGET)


def test_the_examples_of_its_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/scikit-learn.md").read_text("utf-8")
    page = page.partition("\n## Scores in other pipelines\n")[0]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    others = [text for topic in ("market", "kitchen") for text in prose(topic, 40, seed=1)]
    texts, labels = [*TARGET[:20], *others], np.array([1] * 20 + [0] * len(others))
    known = {"target": TARGET[20:], "background": others, "texts": texts, "labels": labels}
    for block in blocks:
        exec(block, known)
    assert len(blocks) == 3
    assert {text for _, text in known["best"]} <= set(TARGET)
    np.testing.assert_array_equal(known["again"].score_samples(texts), known["scores"])
    assert known["search"].best_score_ > 0.9
    assert (known["classifier"].predict(texts) == labels).mean() > 0.9


def test_a_long_text_of_another_topic_does_not_come_first():
    """Early rounds of `cynical` take few words, beside which a long text costs nothing per word."""
    chance = np.random.default_rng(0)

    def prose(topic, n, words=30):
        vocabulary = [f"{topic}{i}" for i in range(200)] + ["the", "of", "and", "is"]
        return [" ".join(chance.choice(vocabulary, words)) for _ in range(n)]

    scorer = corpusfit.Scorer("cynical").fit(prose("task", 50), prose("task", 50) + prose("x", 300))
    lengths = (30, 300, 3_000, 30_000)
    others = [prose("x", 1, words)[0] for words in lengths]
    scores = scorer.score_samples([*prose("task", 20), *others])
    assert scores[:20].min() > scores[20:].max()
