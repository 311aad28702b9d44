"""Every kind of task that the registry lists meets the contract of `evaluation/contract.py`."""

import dataclasses
import json
import random
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import corpusfit
from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.options import settings_of
from corpusfit.evaluation import tasks as registry
from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.metrics import BINARY
from corpusfit.evaluation.plan import (
    EvaluatePlan,
    FinetunePlan,
    TaskPlan,
    metric_of,
)
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.significance import compare, interval, p_items, stack_tallies
from corpusfit.evaluation.task import Examples, Outcome, load_task, store_task, task_digest
from corpusfit.labeled.splits import FORMS

torch = pytest.importorskip("torch", reason="the extra train is not installed")
pytest.importorskip("accelerate", reason="the extra train is not installed")
from scipy import stats  # noqa: E402
from sklearn import metrics as sklearn  # noqa: E402

SETTINGS = ["finetune.device=cpu", "finetune.precision=fp32", "finetune.batch=8"]
TOPICS = (
    ["kinase", "inhibitor", "receptor", "affinity", "aspirin"],
    ["investors", "shares", "quarterly", "results", "market"],
)


def label_of(kind, words):
    """What the words of a text decide: the first topic's share of them, in the form of the kind."""
    first = sum(word in TOPICS[0] for word in words)
    return {
        "multilabel": ["bio"] * (first > 2) + ["money"] * (first < 5),
        "regression": 40 + first / 2,
    }.get(kind, "bio" if first > 3 else "money")


def write_task(kind, folder):
    """A task of a kind that words decide; rows, or CoNLL columns of a kind that reads no rows."""
    chance = random.Random(1)
    folder.mkdir()
    for split, n in (("train", 64), ("dev", 16), ("test", 32)):
        texts = [
            [chance.choice(TOPICS[chance.random() < i % 7 / 6]) for _ in range(6)] for i in range(n)
        ]
        if "rows" in registry.load(kind).forms:
            rows = [{"text": " ".join(w), "label": label_of(kind, w)} for w in texts]
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        else:
            lines = ["\n".join(f"{w} {'B-X' if w in TOPICS[0] else 'O'}" for w in t) for t in texts]
            (folder / f"{split}.conll").write_text("\n\n".join(lines) + "\n")
    return folder


LEARNED = [k for k in registry.names() if isinstance(registry.load(k), LearnedTaskType)]


@pytest.fixture(scope="module", params=LEARNED)
def case(request, tmp_path_factory):
    """A kind, its type, the folder of a task, and the task."""
    kind = request.param
    folder = write_task(kind, tmp_path_factory.mktemp(kind) / "task")
    # that of another package need not claim labels
    plan = TaskPlan() if kind in registry.TASKS.built_in() else TaskPlan(kind=kind)
    return kind, registry.load(kind), folder, read_task(str(folder), plan, seed=0)


def drawn(task, seed, right=0.6):
    """Random answers to the test examples, in the type's form."""
    rng = np.random.default_rng(seed)
    gold = np.array([x for own in task.test.labels for x in own])
    kept = rng.random(len(gold)) < right
    answers = np.where(kept, gold, rng.permutation(gold))
    return answers.reshape(len(task.test), -1) if task.kind == "multilabel" else answers


def test_a_type_says_what_it_is(case):
    kind, found, _, _ = case
    assert found.kind == kind
    assert set(found.forms) <= set(FORMS)
    assert found.default_metric in found.metrics
    open_fields = ("epochs", "learning_rate", "batch", "warmup_steps", "patience")
    assert None not in [getattr(found.finetuning, name) for name in open_fields]
    for adapter in (False, True):
        plan = found.settled(EvaluatePlan(), adapter=adapter, max_length=64)
        plan.check()
        assert plan.finetune.length == 64
        assert plan.task.metric == found.default_metric


def test_every_form_has_one_usual_kind():
    for form in FORMS:
        usual = [
            k for k in registry.names() if registry.load(k).usual and form in registry.load(k).forms
        ]
        assert len(usual) == 1, form


def test_a_task_of_a_kind_is_detected_read_and_stored(case, tmp_path):
    kind, _, folder, task = case
    assert task.kind == kind
    assert (len(task.train), len(task.dev), len(task.test)) == (64, 16, 32)
    assert task.learnable >= 1
    assert task_digest(task) == task_digest(read_task(str(folder), TaskPlan(kind=kind), seed=0))
    store_task(task, tmp_path / "task.json")
    back = load_task(tmp_path / "task.json")
    assert task_digest(back) == task_digest(task)
    assert back.test.flat.dtype == task.test.flat.dtype


def test_a_metric_of_another_kind_is_refused(case):
    kind, found, folder, _ = case
    other = (
        next(m for m in registry.metrics() if m not in found.metrics)
        if len(set(registry.metrics()) - set(found.metrics))
        else "f1"
    )
    with pytest.raises(UsageError, match=rf"^`task\.metric` must .*{found.metrics[0]}.*{other}"):
        read_task(str(folder), TaskPlan(metric=other), seed=0)
    assert metric_of(TaskPlan(), kind) == found.default_metric


@pytest.mark.parametrize("metric", BINARY)
def test_a_metric_of_two_labels_needs_two(case, metric):
    _, found, folder, task = case
    if metric not in found.metrics or len(task.labels) != 2:
        with pytest.raises(UsageError, match=rf"^`task\.metric` must .*{metric}"):
            read_task(str(folder), TaskPlan(metric=metric), seed=0)
        with pytest.raises(UsageError, match=r"^`task\.positive` must be left out"):
            read_task(str(folder), TaskPlan(positive=str(task.labels[:1])), seed=0)
        return
    for positive in ("", *task.labels):
        ours = read_task(str(folder), TaskPlan(metric=metric, positive=positive), seed=0)
        assert ours.labels[1] == (positive or task.labels[1])
        rng = np.random.default_rng(0)
        answers = rng.integers(0, 2, len(ours.test)).astype(np.int32)
        average = sklearn.precision_recall_fscore_support(
            [ours.labels[i] for i in ours.test.flat],
            [ours.labels[i] for i in answers],
            average="binary",
            pos_label=ours.labels[1],
        )
        want = dict(zip(("precision", "recall", "f1"), average, strict=False))
        name = metric.removeprefix("binary_")
        assert found.measure(ours.labels, ours.test, answers)[metric] == pytest.approx(want[name])
    with pytest.raises(UsageError, match=rf"^`task\.positive` must be {task.labels[0]} or .*maybe"):
        read_task(str(folder), TaskPlan(positive="maybe"), seed=0)


def test_perfect_answers_score_highest(case):
    _, found, _, task = case
    best = found.measure(task.labels, task.test, drawn(task, 0, right=1.1))
    other = found.measure(task.labels, task.test, drawn(task, 0, right=0.3))
    assert list(best) == list(found.metrics)
    for name in found.metrics:
        assert best[name] == pytest.approx(0.0 if name == "neg_mse" else 1.0)
        assert other[name] < best[name]


def test_scores_follow_from_sums_of_examples_in_any_order(case):
    _, found, _, task = case
    counts = found.tally(task.labels, task.test, drawn(task, 1))
    assert counts.shape[:2] == (len(task.test), 3)
    order = np.random.default_rng(0).permutation(len(counts))
    for name in found.metrics:
        score = partial(found.score, name)
        one = float(score(counts.sum(0)))
        assert float(score(counts[order].sum(0))) == pytest.approx(one, abs=1e-12)
        both = score(np.stack([counts.sum(0), counts[:9].sum(0)]))
        assert both.shape == (2,)
        assert both[0] == one


def test_significance_is_that_of_whole_examples(case):
    """The p-value against all sign flips of few examples; a model against itself shows nothing."""
    _, found, _, task = case
    score = partial(found.score, found.default_metric)
    tallies = [found.tally(task.labels, task.test, drawn(task, s)) for s in range(4)]
    ours, base = tallies[:2], tallies[2:]
    low, high = interval(ours, score, seed=0, rounds=200)
    assert low < np.mean([score(t.sum(0)) for t in ours]) < high
    assert compare(ours, ours, score, seed=0, rounds=50).p_items == 1.0
    with pytest.raises(ValueError, match="different examples"):
        compare(ours, [t[::-1] for t in base], score, seed=0, rounds=10)
    few = stack_tallies([ours[0][:9], base[0][:9]])
    a, b = few[:, :1], few[:, 1:]
    observed = abs(score(a.sum(0)) - score(b.sum(0))).item()
    flips = (np.arange(2**9)[:, None] >> np.arange(9) & 1)[:, :, None, None, None].astype(bool)
    sides = [np.where(flips, x, y).sum(1) for x, y in ((a, b), (b, a))]
    exact = np.mean(abs(score(sides[0]) - score(sides[1])) >= observed - 1e-12)
    found_p = p_items(a, b, score, np.random.default_rng(0), 4_000)
    assert found_p == pytest.approx(exact, abs=0.04)


def test_it_learns_from_end_to_end(case, tmp_path, tiny_lm, inline):
    kind, found, folder, task = case
    settings = [*SETTINGS, f"task.kind={kind}", "finetune.learning_rate=5e-3", "finetune.epochs=6"]
    run = corpusfit.evaluate(
        task=folder,
        model=str(tiny_lm),
        out=tmp_path / "out",
        seeds=1,
        settings=settings,
        machine=inline,
    )
    assert (run.manifest["task"]["kind"], run.manifest["metric"]) == (kind, found.default_metric)
    (outcome,) = run.outcomes()
    answers = np.asarray(outcome.predicted["test"])
    assert outcome.scores["test"] == found.measure(task.labels, task.test, answers)
    assert outcome.scores["test"][found.default_metric] > 0.5
    (result,) = run.manifest["results"]
    assert result["low"] <= outcome.scores["test"][found.default_metric] <= result["high"]


def test_labels_that_teach_nothing_are_refused(case, tmp_path):
    kind, _, folder, _ = case
    for path in folder.iterdir():
        text = path.read_text()
        if path.suffix == ".conll":
            text = text.replace("B-X", "O")
        else:
            same = json.dumps({"regression": 1.5, "multilabel": []}.get(kind, "a"))
            text = re.sub(r'"label": .*}', f'"label": {same}}}', text)
        (tmp_path / path.name).write_text(text)
    with pytest.raises(InputError, match=r"^`task` .*train"):
        read_task(str(tmp_path), TaskPlan(kind=kind), seed=0)


# regression


def numbers(values):
    return Examples([["a text"]] * len(values), [[float(v)] for v in values])


@pytest.mark.parametrize("spread", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_those_of_scipy_and_the_error_that_of_scikit_learn(spread, ties):
    rng = np.random.default_rng(3)
    gold = 1_000 + spread * rng.standard_normal(200)
    answers = gold + 2 * spread * rng.standard_normal(200)
    if ties:
        gold, answers = (np.round(x / spread) * spread for x in (gold, answers))
    assert registry.load("regression").unit_of("pearson") == "points"
    assert registry.load("regression").unit_of("neg_mse") != "points"
    found = registry.load("regression").measure((), numbers(gold), answers)
    assert found == {
        "pearson": pytest.approx(stats.pearsonr(gold, answers).statistic, rel=1e-9),
        "spearman": pytest.approx(stats.spearmanr(gold, answers).statistic, rel=1e-9),
        "neg_mse": pytest.approx(-sklearn.mean_squared_error(gold, answers), rel=1e-9),
    }


@pytest.mark.parametrize("answers", [[2.0, 2.0, 2.0], [1e9, 1e9, 1e9]])
def test_constant_answers_correlate_with_nothing(answers):
    found = registry.load("regression").measure((), numbers([1, 2, 4]), np.array(answers))
    assert (found["pearson"], found["spearman"]) == (0.0, 0.0)


def test_resampled_spearman_is_near_that_of_new_ranks():
    """Intervals with the ranks of the whole split against those that rank every sample anew."""
    rng = np.random.default_rng(5)
    gold = rng.standard_normal(150)
    answers = gold + rng.standard_normal(150)
    found = registry.load("regression")
    score = partial(found.score, "spearman")
    ours = interval([found.tally((), numbers(gold), answers)], score, seed=0, rounds=2_000)
    anew = []
    for _ in range(1_000):
        at = rng.integers(0, 150, 150)
        anew.append(stats.spearmanr(gold[at], answers[at]).statistic)
    assert ours == pytest.approx(np.quantile(anew, [0.025, 0.975]).tolist(), abs=0.03)


def test_numbers_of_any_unit_are_learned_alike(tmp_path, tiny_lm):
    """Standard scores are learned, so another unit gives the same answers in that unit."""
    task = read_task(str(write_task("regression", tmp_path / "task")), TaskPlan(), seed=0)
    far = dataclasses.replace(
        task,
        **{
            split: numbers_of(getattr(task, split), lambda v: 1_024 * v - 4_096)
            for split in ("train", "dev", "test")
        },
    )
    plan = EvaluatePlan().with_overrides([f"model.name={tiny_lm}", *SETTINGS, "finetune.epochs=2"])
    near, other = finetune(task, plan, 0), finetune(far, plan, 0)
    np.testing.assert_allclose(
        np.array(near.predicted["test"]) * 1_024 - 4_096, other.predicted["test"], rtol=1e-4
    )
    assert near.scores["test"]["pearson"] == pytest.approx(
        other.scores["test"]["pearson"], abs=1e-3
    )


def numbers_of(examples, change):
    return Examples(examples.pieces, [[change(v) for v in own] for own in examples.labels])


def test_numbers_are_read_from_strings_and_other_values_left_out(tmp_path):
    rows = ["text,label", "a,1.5", "b,2", "c,high", "d,nan", "e,-3e1", "f,"]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.csv").write_text("\n".join(rows) + "\n")
    task = read_task(str(tmp_path), TaskPlan(kind="regression"), seed=0)
    assert task.train.labels == [[1.5], [2.0], [-30.0]]
    assert (task.labels, task.learnable) == ((), 1)
    assert "row 2 has no label in 'label' (a number)" in task.notes[0]


# multi-label classification


@pytest.mark.parametrize("labels", [1, 2, 7])
def test_multilabel_metrics_are_those_of_scikit_learn(labels):
    found = registry.load("multilabel")
    for seed in range(6):
        rng = np.random.default_rng(seed)
        gold, answers = (rng.random((40, labels)) < 0.3 for _ in range(2))
        gold[:, -1] &= seed > 1  # a label that does not occur, or is never predicted
        answers[:, -1] &= seed > 2
        gold, answers = gold.astype(np.int32), answers.astype(np.int32)
        wanted = {"accuracy": sklearn.accuracy_score(gold, answers)}
        for average in ("micro", "macro", "weighted") if labels > 1 else ():
            for name in ("f1", "precision", "recall"):
                score = getattr(sklearn, f"{name}_score")
                wanted[f"{average}_{name}"] = score(gold, answers, average=average, zero_division=0)
        examples = Examples([["a text"]] * 40, gold.tolist())
        own = found.measure(tuple("abcdefg"[:labels]), examples, answers)
        assert {n: v for n, v in own.items() if n in wanted} == pytest.approx(
            {n: v for n, v in wanted.items() if n in own}, abs=1e-12
        )
        if labels == 1:
            one = sklearn.f1_score(gold[:, 0], answers[:, 0], zero_division=0)
            assert own["micro_f1"] == own["macro_f1"] == pytest.approx(one)


def test_lists_are_read_in_every_form(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = [["b", "a"], [], ["a", "a", 3]]
    pq.write_table(
        pa.table({"text": list("xyz"), "label": [list(map(str, v)) for v in lists]}),
        tmp_path / "train.parquet",
    )
    (tmp_path / "dev.jsonl").write_text(
        "".join(
            json.dumps({"text": "t", "label": v}) + "\n" for v in [*lists, None, [None], "[", "q"]
        )
    )
    (tmp_path / "test.csv").write_text('text,label\nt,"[""b"", ""a""]"\nt,[]\nt,a\n')
    task = read_task(str(tmp_path), TaskPlan(), seed=0)
    assert (task.kind, task.labels, task.learnable) == ("multilabel", ("3", "a", "b", "q"), 3)
    assert task.train.labels == [[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert task.dev.labels == [*task.train.labels, [0, 0, 0, 1]]
    assert task.test.labels == [[0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert any("3 of 7 rows of dev" in note for note in task.notes)
    assert any("'q'" in note for note in task.notes)


def test_labels_missing_from_train_are_never_predicted():
    found = registry.load("multilabel")
    task = dataclasses.replace(load_task_of(3), labels=("a", "b", "c"), learnable=2)
    answers = found.answers(torch.tensor([[1.0, -1.0], [2.0, 3.0]]), task)
    assert answers.tolist() == [[1, 0, 0], [1, 1, 0]]
    logits, targets = torch.randn(4, 2), torch.tensor([[0.0, 1, 0]] * 4)
    wanted = torch.nn.BCEWithLogitsLoss()(logits, targets[:, :2])
    assert found.loss(logits, targets, task) == wanted


def load_task_of(labels):
    from corpusfit.evaluation.task import Task

    one = Examples([["a text"]], [[0] * labels])
    return Task("t", "multilabel", (), labels, one, one, one)


# what was there before


def test_answers_of_earlier_versions_are_read(tmp_path):
    """Files as they were written before kinds had files of their own."""
    stored = {
        "name": "t", "kind": "tagging", "labels": ["O", "B-X"], "learnable": 2, "notes": [],
        **{s: {"pieces": [["a", "b"]], "labels": [[0, 1]]} for s in ("train", "dev", "test")},
    }  # fmt: skip
    (tmp_path / "task.json").write_text(json.dumps(stored))
    fields = dict.fromkeys(("history", "best", "tune", "truncated"))
    figures = dict.fromkeys(("seconds", "cpu_seconds", "examples_per_second"), 1.0)
    predicted = {"dev": [0, 1], "test": [0, 0]}
    (tmp_path / "o.json").write_text(
        json.dumps(
            {"size": 1, "seed": 0, "scores": {}, "predicted": predicted, **fields, **figures}
        )
    )
    task = load_task(tmp_path / "task.json")
    outcome = Outcome.read(Path(tmp_path / "o.json"))
    sums = registry.load(task.kind).sums_of(task, outcome)
    assert sums.tolist() == [[[1, 0], [2, 0], [2, 1]]]


def test_no_other_module_compares_a_kind_with_its_name():
    """A kind's name stands as a word of its own in its file alone (and in help texts)."""
    root = Path(registry.__file__).parent.parent
    word = re.compile(rf"""(==|!=|\bin\b|:)\s*\(?["'](?:{"|".join(registry.names())})["']""")
    for path in root.rglob("*.py"):
        if path.parent.name != "tasks":
            assert not word.search(path.read_text("utf-8")), path


def test_the_help_names_the_defaults_of_every_kind():
    """One value for kinds that read texts in rows, and those of tagging, from the task types."""
    for name in ("epochs", "learning_rate", "batch", "warmup_steps", "patience"):
        said = settings_of(FinetunePlan)[name].option.default
        words = dict(reversed(part.split(" for ")) for part in said.split(", "))
        for kind in LEARNED:
            found = registry.load(kind)
            group = "texts" if "rows" in found.forms else kind
            plain = getattr(found.finetuning, name)
            assert float(words[group]) == plain
            with_adapter = words.get(f"{group} with an adapter", words[group])
            assert float(with_adapter) == found.with_adapter.get(name, plain)
