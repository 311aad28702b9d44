"""`run` of a recipe with `[separation]`: its figures, what a digest covers, and that it goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from journeys import prose, stamps, write_rows
from sklearn.metrics import f1_score, roc_auc_score

import corpusfit
from corpusfit import experiments
from corpusfit.core.errors import UsageError
from corpusfit.core.types import text_array
from corpusfit.scoring import registry
from corpusfit.scoring.rank import Split, best_threshold, trial

TOPICS = ("task", "market", "kitchen")
RECIPE = """
name = "small"
model = "{model}"
corpus = ["pile"]
seeds = {seeds}
fractions = [0.25]
selectors = {selectors}
{more}
[select.cut]
pieces = 40
[separation]
documents = 30
{separation}
[[tasks]]
name = "science"
path = "science"
{tasks}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A pile of three topics, and a task that tells two of them apart."""
    folder = tmp_path_factory.mktemp("separation")

    for topic in TOPICS:
        write_rows(folder / f"pile/{topic}.jsonl", prose(topic, 60, seed=1))
    for split, n in (("train", 20), ("dev", 4), ("test", 4)):
        rows = [
            {"text": text, "label": topic}
            for topic in TOPICS[:2]
            for text in prose(topic, n, seed=split, most=12)
        ]
        write_rows(folder / f"science/{split}.jsonl", rows)
    return folder


@pytest.fixture
def run(data, tmp_path, inline, tiny_encoder):
    """Run a recipe in this process; returns the result and its cells by row and selector."""

    def run(separation="", selectors='["dsir"]', more="", tasks="", seeds=2, **words):
        words = {"out": tmp_path / "out", **words}
        recipe = data / "recipe.toml"
        given = {"separation": separation, "selectors": selectors, "more": more, "tasks": tasks}
        recipe.write_text(RECIPE.format(model=tiny_encoder, seeds=seeds, **given), "utf-8")
        found = corpusfit.run(recipe, machine=inline, **words)
        table = json.loads((found.path / "table.json").read_text("utf-8"))
        cells = {(m["cell"]["task"], m["cell"]["selector"]): m for m in table["measurements"]}
        return found, {key: m["measured"] for key, m in cells.items()}

    return run


def test_figures_are_those_of_a_trial(run, data, tmp_path):
    """Of the same units: at most 30 of each source, and all of the task's different texts."""
    _, cells = run(seeds=1)
    (one,) = cells["science", "dsir"]
    folder = tmp_path / "out" / ".corpusfit" / "separation"
    (target,), (corpus,) = (list(folder.glob(f"*/{name}-*.json")) for name in ("target", "corpus"))
    texts, units = (json.loads(path.read_bytes())["texts"] for path in (target, corpus))
    lines = (data / "science" / "train.jsonl").read_text("utf-8").splitlines()
    assert set(texts) == {json.loads(line)["text"] for line in lines}
    assert len(units) == 90
    parts = text_array(texts), text_array(units)
    found = trial("dsir", registry.unit_method("dsir", {}), *parts, seed=0)
    assert (one["f1"], one["auroc"], one["ap"]) == (found.f1, found.auroc, found.ap)
    assert one["texts"] == {"train": 36, "test": 4, "fit": 30, "vote": 30}


def test_a_split_gives_the_same_figures_as_scikit_learn():
    target = text_array(prose("task", 40))
    corpus = text_array([t for topic in TOPICS for t in prose(topic, 30, seed=2)])
    method = registry.unit_method("dsir", {})
    found = trial("dsir", method, target, corpus, seed=3)
    split = Split.drawn(len(target), len(corpus), seed=3)
    parts = split.fit, split.threshold, split.vote
    assert len(np.unique(np.concatenate([split.fit, split.vote]))) == sum(map(len, parts[::2]))
    scorer = method.fit(target.take(split.train), corpus.take(split.fit), seed=3)
    inliers, votes = (scorer.score(t) for t in (target.take(split.test), corpus.take(split.vote)))
    scores = np.concatenate([inliers, votes[split.outliers]])
    truth = np.arange(len(scores)) < len(inliers)
    threshold = best_threshold(
        scorer.score(target.take(split.train)), scorer.score(corpus.take(split.threshold))
    )
    assert found.f1 == f1_score(truth, scores >= threshold)
    assert found.auroc == roc_auc_score(truth, scores)


def test_a_corpus_has_its_shares(run):
    """Half, a quarter and a quarter; the best quarter is of the target's topics."""
    shares = '[separation.corpora.union]\n"task*" = 0.5\n"market*" = 0.25\n"kitchen*" = 0.25'
    found, cells = run(shares, seeds=1)
    (one,) = cells["science", "dsir"]
    assert one["scored"].keys() == {"task*", "market*", "kitchen*"}
    assert sum(one["kept"]["0.25"].values()) == round(0.25 * sum(one["scored"].values()))
    assert "kitchen*" not in one["kept"]["0.25"]
    kept = next(t for t in found.tables if t.title.startswith("Sources"))
    assert [row[0] for row in kept.rows] == [
        f"science: {name}" for name in ("kitchen*", "market*", "task*")
    ]


def test_a_target_without_a_path_is_drawn_from_what_the_corpus_leaves(run):
    more = '[separation.targets]\ncooking = ["cooking"]'
    tasks = '[[tasks]]\nname = "cooking"\noracle = ["kitchen*"]'
    _, cells = run(more, tasks=tasks, seeds=1)
    (one,) = cells["cooking", "dsir"]
    assert one["texts"]["train"] + one["texts"]["test"] >= 30
    assert one["auroc"] > 0.5


def test_a_fine_tuned_encoder_is_a_row_of_its_own(run):
    more = "[evaluate.finetune]\nepochs = 1\nrate = 1e-3\nbatch = 8"
    found, cells = run("finetuned = [false, true]", '["isolation_forest"]', more, seeds=1)
    assert not found.judged.failed
    plain, tuned = (cells[row, "isolation_forest"][0] for row in ("science", "science, fine-tuned"))
    assert plain["texts"] == tuned["texts"]
    assert "accuracy" not in plain
    assert 0 <= tuned["accuracy"] <= 1
    assert plain["histogram"] != tuned["histogram"]


def test_finished_cells_are_not_repeated(run, tmp_path):
    cells = tmp_path / "cells"
    run(cells=cells)
    before = stamps(tmp_path / "out" / "scores", "*.json")
    missing = sorted((tmp_path / "out" / "scores").iterdir())[0]
    content = missing.read_bytes()
    missing.unlink()
    table = (tmp_path / "out" / "table.md").read_bytes()
    run()
    after = stamps(tmp_path / "out" / "scores", "*.json")
    assert missing.read_bytes() == content
    assert (tmp_path / "out" / "table.md").read_bytes() == table
    assert [name for name in before if before[name] != after[name]] == [missing.name]
    run(cells=cells, out=tmp_path / "again")
    assert (tmp_path / "again" / "table.md").read_bytes() == table
    assert {p.name: p.read_bytes() for p in (cells / "scores").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again" / "scores").iterdir()
    }


def test_a_dry_run_counts_the_measurements(run, data, inline, tmp_path):
    run()
    found = experiments.missing(data / "recipe.toml", out=tmp_path / "out", machine=inline)
    assert found.steps == {"measurements": (2, 0)}
    path = data / "more.toml"
    path.write_text((data / "recipe.toml").read_text("utf-8").replace("seeds = 2", "seeds = 3"))
    found = experiments.missing(path, out=tmp_path / "out", machine=inline)
    assert found.steps == {"measurements": (3, 1)}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"selectors": '["base"]'}, "base"),
        ({"selectors": '["auto"]'}, "auto"),
        ({"selectors": '["cynical"]'}, "cynical"),
        ({"separation": "held_out = 1.0"}, "held_out"),
        ({"separation": '[separation.corpora]\na = ["nothing*"]'}, "nothing*"),
        ({"separation": '[separation.corpora]\na = ["task*", "t*"]'}, "twice"),
        ({"separation": '[separation.corpora.a]\n"task*" = 1.0\n"market*" = 0.0'}, "share"),
        ({"separation": '[separation.targets]\na = ["unknown"]'}, "unknown"),
        ({"separation": "seeds = 3"}, "separation.seeds"),
        ({"tasks": '[[tasks]]\nname = "b"'}, "oracle"),
    ],
)
def test_what_cannot_be_measured_is_refused(run, words, named):
    with pytest.raises(UsageError, match=named.replace("*", r"\*")):
        run(**words)
