"""What other packages check their parts by finds what is right with ours, and what is broken."""

import json

import numpy as np
import pytest
from journeys import prose, write_rows

from corpusfit.contracts import check_objective, check_task_type
from corpusfit.evaluation.tasks.classification import Classification
from corpusfit.training.objectives.causal import Causal

pytest.importorskip("accelerate", reason="the extra train is not installed")


@pytest.fixture
def data(tmp_path):
    write_rows(tmp_path / "data.jsonl", prose("task", 60))
    return str(tmp_path / "data.jsonl")


@pytest.fixture
def task(tmp_path):
    for split in ("train", "dev", "test"):
        rows = [
            {"text": text, "label": topic}
            for topic in ("task", "market")
            for text in prose(topic, 12)
        ]
        file = tmp_path / f"task/{split}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "task"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"),
    [("mlm", "tiny_lm"), ("mlm+nsp", "tiny_lm"), ("causal", "tiny_gpt"), ("tsdae", "tiny_encoder")],
)
def test_our_objectives_keep_to_the_contract(name, model, data, tmp_path, request):
    check_objective(name, str(request.getfixturevalue(model)), data, tmp_path / "runs")


@pytest.mark.slow
def test_a_loss_that_no_seed_decides_is_found(data, tmp_path, tiny_gpt, monkeypatch):
    losses = Causal.losses

    def unsteady(self, network, micro):
        total, pairs = losses(self, network, micro)
        return total * (0.5 + np.random.default_rng().random()), pairs

    monkeypatch.setattr(Causal, "losses", unsteady)
    with pytest.raises(AssertionError, match="seed"):
        check_objective("causal", str(tiny_gpt), data, tmp_path / "runs")


def test_our_kinds_keep_to_the_contract(task):
    check_task_type("classification", task)


def test_a_score_of_one_sample_alone_is_found(task, monkeypatch):
    monkeypatch.setattr(Classification, "score", lambda self, name, summed: summed.sum())
    with pytest.raises(AssertionError, match="samples"):
        check_task_type("classification", task)
