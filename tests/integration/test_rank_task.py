"""`rank --task`: the score of word vectors, on a task that only a selection teaches."""

import json
import random

import pandas as pd
import pytest
from journeys import write_rows

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.ranking import ranking

KINDS = {kind: [f"{kind}{i}" for i in range(250)] for kind in ("fruit", "car")}
OTHER = [f"other{i}" for i in range(1_500)]


def texts(kind, n, length, seed):
    """n texts of words of a kind."""
    chance = random.Random(f"{kind}{seed}")
    return [" ".join(chance.choices(KINDS.get(kind, OTHER), k=length)) for _ in range(n)]


def examples(n, seed, labels=("fruit", "car"), length=3):
    """n rows of each class; short ones, so that few of the words are in train."""
    by_label = zip(KINDS, labels, strict=True)
    return [
        {"text": text, "label": label}
        for k, label in by_label
        for text in texts(k, n, length, seed)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of which a twentieth is of the task; other text has none of its words."""
    rows = [*texts("fruit", 120, 25, 0), *texts("car", 120, 25, 0), *texts("other", 4_600, 25, 0)]
    return write_rows(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", rows)


@pytest.fixture
def folder(tmp_path):
    """Writes a task; returns its folder."""

    def write(train, test, name="task"):
        write_rows(tmp_path / name / "train.jsonl", train)
        write_rows(tmp_path / name / "test.jsonl", test)
        return tmp_path / name

    return write


@pytest.fixture
def asked(corpus):
    """The arguments of most rankings."""
    return {"corpus": corpus, "methods": ["moore_lewis"], "fraction": 0.05}


@pytest.mark.slow
def test_a_selection_that_helps_the_task_is_shown_to(cli, corpus, folder):
    task = folder(examples(150, 1), examples(100, 2))
    command = ("rank", "--task", task, "--corpus", corpus, "--fraction", 0.05)

    done = cli(*command, "--metric", "accuracy", "--json")
    again = cli(*command, "--metric", "accuracy", "--json")
    said = cli(*command, "--method", "dsir", "--metric", "accuracy")

    found = json.loads(done.out)
    by_method = {each["method"]: each for each in found["ranking"]}
    assert {*by_method} == {"cynical", "moore_lewis", "dsir", "random"}
    assert (found["metric"], found["test_texts"]) == ("accuracy", 200)
    assert found["words"] == 3_025  # a twentieth of a half's
    for each in by_method.values():
        mean, low, high = each["score_than_random"]
        assert mean == pytest.approx(each["score"] - by_method["random"]["score"])
        assert (low > 0) == (each["method"] != "random")
        assert low <= mean <= high
    assert by_method["dsir"]["score"] > 0.75
    kept = [[each["score"], each["score_than_random"]] for each in found["ranking"]]
    assert kept == [[e["score"], e["score_than_random"]] for e in json.loads(again.out)["ranking"]]
    assert "Warning: Word vectors are learned from only 3,025" in done.err  # fewer than 5,000
    assert "fit.background" in done.err
    assert f"{100 * by_method['dsir']['score']:.1f} accuracy on 200 test texts" in said.out
    assert "points above random text" in said.out


def test_a_ranking_without_a_task_has_no_score(asked, inline):
    found = corpusfit.rank(texts("fruit", 30, 8, 1), machine=inline, **asked)

    assert (found.metric, found.words, found.test_texts) == ("", 0, 0)
    assert {each.score for each in found} == {None}
    assert not any("word vectors" in sentence for sentence in found.findings())


@pytest.mark.parametrize(
    ("train", "test", "labels"),
    [(2, 50, ("fruit", "car")), (30, 6, ("fruit", "car")), (30, 20, (3, 7))],
    ids=["two rows of a class", "a test set of twelve", "numbers"],
)
def test_small_tasks_and_numbers_as_labels(asked, inline, folder, train, test, labels):
    task = folder(examples(train, 1, labels), examples(test, 2, labels))

    found = corpusfit.rank(task=task, machine=inline, **asked)

    best = found[0]
    assert found.test_texts == 2 * test
    assert best.method == "moore_lewis"
    assert best.score_than_random[0] > 0
    assert list(pd.DataFrame(found.methods)["score"]) == [each.score for each in found]


def test_test_words_that_no_selection_has(asked, inline, folder):
    unknown = [{"text": f"xx{i} yy{i}", "label": label} for i in range(9) for label in KINDS]

    found = corpusfit.rank(
        task=folder(examples(30, 1), unknown), machine=inline, metric="accuracy", **asked
    )

    assert [each.score for each in found] == [0.5, 0.5]
    assert "no difference from random text is shown" in found.findings()[-1]


@pytest.mark.parametrize("first", [0x4E10, 0x0E01], ids=["Chinese", "Thai"])
def test_a_language_without_spaces(inline, folder, tmp_path, first):
    """Each character is a word."""
    letters = {kind: [chr(first + 20 * i + j) for j in range(20)] for i, kind in enumerate(KINDS)}

    def rows(n, seed):
        chance = random.Random(seed)
        return [
            {"text": "".join(chance.choices(letters[kind], k=9)), "label": kind}
            for _ in range(n)
            for kind in KINDS
        ]

    corpus = write_rows(tmp_path / "corpus.jsonl", rows(300, 0))
    task = folder(rows(20, 1), rows(20, 2))

    found = corpusfit.rank(
        task=task, corpus=corpus, machine=inline, methods=["moore_lewis"], fraction=0.5
    )

    assert found.words > 1_000
    assert found[0].score > 0.9


@pytest.mark.parametrize("copies", [0, 5])
def test_no_test_text_is_fitted_on_or_learned_from(asked, inline, tmp_path, monkeypatch, copies):
    """Of a task without a test split, the one that is drawn; also where it is in the corpus."""
    seen = {}

    def rank_methods(run, plan, names, target, background, *, named, task):
        seen.update(target=target.read_texts(), corpus=background.read_texts(), task=task.task)
        raise StopIteration

    monkeypatch.setattr(ranking, "rank_methods", rank_methods)
    rows = examples(50, 1, length=9)
    task = write_rows(tmp_path / "alone.jsonl", rows)
    lines = asked["corpus"].read_text().splitlines()
    held = [json.dumps({"text": f"see: {row['text']} (end)"}) for row in rows]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join([*lines, *held * copies]) + "\n")

    for target in (None, task):
        with pytest.raises(StopIteration):
            corpusfit.rank(target, **{**asked, "corpus": corpus}, task=task, machine=inline)

        test = {*seen["task"].test.texts()}
        assert len(test) == 20
        assert not test & {*seen["target"]}
        assert {*seen["task"].train.texts()} <= {*seen["target"]}
        inside = [text for text in seen["corpus"] if text.startswith("see: ")]
        assert len(inside) == copies * 80
        assert not any(text in other for text in test for other in inside)


def test_other_kinds_of_tasks_are_refused(asked, inline, tmp_path):
    tagged = tmp_path / "tagged"
    tagged.mkdir()
    for split in ("train", "dev", "test"):
        (tagged / f"{split}.txt").write_text("Ann B-PER\nsings O\n\nBob B-PER\nruns O\n\n" * 3)

    with pytest.raises(UsageError, match=r"`task` .*tagging"):
        corpusfit.rank(task=tagged, machine=inline, **asked)


def test_what_is_missing_is_named(cli, corpus, folder):
    task = folder(examples(9, 1), examples(9, 2))

    failed = [
        cli("rank", *arguments)
        for arguments in (
            ("--corpus", corpus),
            ("--task", task),
            ("--target", task, "--corpus", corpus, "--metric", "accuracy"),
        )
    ]

    assert {done.code for done in failed} == {2}
    assert "`target` (--target)" in failed[0].err
    assert "`task` (--task)" in failed[0].err
    assert "`corpus` (--corpus)" in failed[1].err
    assert "task.metric" in failed[2].err


def test_a_text_field_that_a_task_lacks_is_named_with_its_option(cli, corpus, folder):
    rows = [{"words": row["text"], "label": row["label"]} for row in examples(9, 1)]
    task = folder(rows, rows)
    failed = cli("rank", "--task", task, "--corpus", corpus)
    assert "(--target-field)" in failed.err
    assert "task.text_field" not in failed.err
    assert "words" in failed.err


@pytest.mark.parametrize(
    ("given", "units"),
    [({}, 50_000), ({"settings": ["fit.background=10000"]}, 10_000)],
)
def test_the_sample_is_larger_with_a_task_unless_it_was_set(
    asked, inline, folder, monkeypatch, given, units
):
    plans = []
    monkeypatch.setattr(ranking, "rank", lambda plan, *_, **__: plans.append(plan))
    task = folder(examples(9, 1), examples(9, 2))

    corpusfit.rank(task=task, machine=inline, **asked, **given)
    corpusfit.rank(task, machine=inline, **asked)
    corpusfit.rank(task=task, machine=inline, **asked, plan=corpusfit.Plan(seed=7))

    assert [plan.fit.background for plan in plans] == [units, 10_000, 50_000]
    assert plans[2].seed == 7
