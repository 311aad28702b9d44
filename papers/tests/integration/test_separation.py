"""papers/tables/separation.py: its figures, shares, targets and fine-tuned encoders."""

import json
from pathlib import Path

import numpy as np
import pytest
from journeys import prose, write_rows
from sklearn.metrics import f1_score

import corpusfit_papers
from corpusfit.core.errors import UsageError

TOPICS = ("task", "market", "kitchen")
SETTING = """
name = "small"
model = "{model}"
corpus = ["pile"]
seeds = 2
fractions = [0.25]
selectors = {selectors}
[select.cut]
pieces = 40
[evaluate.finetune]
epochs = 1
learning_rate = 1e-3
batch = 8
[[tasks]]
name = "science"
path = "science"
[[tasks]]
name = "cooking"
oracle = ["kitchen*"]
[separation]
documents = 30
{separation}
"""


@pytest.fixture
def separation(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "tables")
    import separation

    return separation


@pytest.fixture
def run(tmp_path, inline, tiny_encoder, separation):
    """Measure on a pile of three topics, and a task that tells two of them apart."""
    for topic in TOPICS:
        write_rows(tmp_path / f"pile/{topic}.jsonl", prose(topic, 60, seed=1))
    rows = [{"text": t, "label": of} for of in TOPICS[:2] for t in prose(of, 20, seed=0, most=12)]
    for split in ("train", "dev", "test"):
        write_rows(tmp_path / f"science/{split}.jsonl", rows if split == "train" else rows[16:24])

    def run(more='[separation.targets]\nscience = ["science"]', selectors='["dsir"]'):
        path = tmp_path / "setting.toml"
        words = {"model": tiny_encoder, "selectors": selectors, "separation": more}
        path.write_text(SETTING.format(**words), "utf-8")
        out = separation.run(path, tmp_path / "out", inline)
        table = json.loads((out / "table.json").read_text("utf-8"))
        cells = {(m["cell"]["task"], m["cell"]["selector"]): m for m in table["measurements"]}
        return (out / "table.md").read_text("utf-8"), {k: m["measured"] for k, m in cells.items()}

    return run


@pytest.mark.slow
def test_figures_shares_and_a_target_of_what_the_corpus_leaves(run, tmp_path):
    """Half, a quarter and a quarter; the best quarter is of the target's topics."""
    page, cells = run('corpora.union = { "task*" = 0.5, "market*" = 0.25, "kitchen*" = 0.25 }')
    one, _ = cells["science", "dsir"]
    assert one["texts"] == {"train": 36, "test": 4, "fit": 20, "vote": 20}
    assert one["scored"].keys() == {"task*", "market*", "kitchen*"}
    assert sum(one["kept"]["0.25"].values()) == round(0.25 * sum(one["scored"].values()))
    assert "kitchen*" not in one["kept"]["0.25"]
    assert cells["cooking", "dsir"][0]["auroc"] > 0.5
    assert "Sources of the best 25 %" in page
    with pytest.raises(UsageError, match=r"separation.*separation\.py"):
        corpusfit_papers.run(tmp_path / "setting.toml", out=tmp_path / "run")


@pytest.mark.slow
def test_a_fine_tuned_encoder_is_a_row_of_its_own(run):
    more = 'finetuned = [false, true]\n[separation.targets]\nscience = ["science"]'
    page, cells = run(more, '["isolation_forest"]')
    plain, tuned = (cells[row, "isolation_forest"][0] for row in ("science", "science, fine-tuned"))
    assert plain["texts"] == tuned["texts"]
    assert "accuracy" not in plain
    assert 0 <= tuned["accuracy"] <= 1
    assert plain["histogram"] != tuned["histogram"]
    assert "Scores of isolation" in page


def test_a_split_shares_no_text_between_its_parts(separation):
    split = separation.Split.draw(40, 90, seed=3, held_out=0.1)
    assert sorted([*split.train, *split.test]) == [*range(40)]
    assert len(split.test) == len(split.outliers) == 4
    parts = (split.fit, split.threshold, split.vote)
    assert sorted(np.concatenate(parts)) == [*range(90)]


def test_best_threshold_is_the_best_of_all(separation):
    chance = np.random.default_rng(3)
    inliers, outliers = chance.normal(1, 1, 40).astype("f4"), chance.normal(0, 1, 40).astype("f4")
    scores = np.concatenate([inliers, outliers])
    truth = np.arange(80) < 40
    best = max(f1_score(truth, scores >= t) for t in scores)
    found = separation.best_threshold(inliers, outliers)
    assert f1_score(truth, scores >= found) == pytest.approx(best)


def test_the_best_threshold_accepts_equal_scores_together(separation):
    inliers, outliers = np.float32([5] * 6 + [0] * 4), np.zeros(10, np.float32)
    assert separation.best_threshold(inliers, outliers) == 5  # F1 of 0.75, and 0.667 at 0
