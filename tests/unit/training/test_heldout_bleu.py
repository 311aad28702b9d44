"""BLEU during a training: its value, the weights that it keeps, and when it stops."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from adapting import Stopped, Stopping, chains, spelled, translation_of, weights_of
from corpusfit.core.errors import UsageError
from corpusfit.training.plan import AdaptPlan, ModelPlan, ObjectivePlan, TrainPlan
from corpusfit.training.schedule import minimized, out_of_patience
from corpusfit.training.trainer import HeldoutBleu, TrainerCallback, train

torch = pytest.importorskip("torch")
sacrebleu = pytest.importorskip("sacrebleu")

LEARNS = {
    "max_steps": 60,
    "learning_rate": 1e-2,
    "batch": 4,
    "evaluations": 6,
    "bleu": True,
    "keep": "best",
}


def copies():
    return [(text, text) for text in chains(300, most=8)]


@pytest.mark.slow
def test_it_is_sacrebleu_of_what_transformers_generates(tmp_path):
    """Beam 5, on a model that has learned something."""
    work = translation_of(
        tmp_path, pairs=copies(), **{**LEARNS, "keep": "last", "max_steps": 160, "evaluations": 2}
    )
    history = train(work, TrainerCallback())
    model = work.network.predictor.model.eval()
    found = []
    for row in work.bleu.sources:
        ids = torch.tensor([row])
        words = {"num_beams": 5, "max_new_tokens": 12, "attention_mask": torch.ones_like(ids)}
        found += model.generate(ids, **words)[:, 1:].tolist()
    expected = sacrebleu.corpus_bleu(spelled(found), [work.bleu.references]).score
    assert history[-1]["bleu"] == pytest.approx(expected, abs=1e-4)
    assert expected > 10
    assert all("bleu" in record for record in history if "heldout" in record)


@pytest.mark.slow
def test_the_best_weights_are_those_of_the_highest_bleu(tmp_path):
    work = translation_of(tmp_path / "a", pairs=copies(), **LEARNS)
    history = train(work, TrainerCallback())
    assert work.bleu.measure(work.network) == pytest.approx(
        max(r["bleu"] for r in history if "bleu" in r), abs=1e-4
    )
    with pytest.raises(Stopped):
        train(translation_of(tmp_path / "b", pairs=copies(), **LEARNS), Stopping(31))
    again = translation_of(tmp_path / "b", pairs=copies(), **LEARNS)
    assert train(again, TrainerCallback()) == history
    final = weights_of(again)
    assert all(torch.equal(w, final[n]) for n, w in weights_of(work).items())


@pytest.mark.parametrize(
    ("language", "text", "tokenizer"),
    [("zh_CN", "狗在公园里睡觉。", "zh"), ("translation", "狗在公园里睡觉。", "zh"),
     ("jpn_Jpan", "犬が眠る。", "char"), ("de", "Der Hund schläft.", "13a")],
)  # fmt: skip
def test_the_tokenizer_is_that_of_an_evaluation(language, text, tokenizer):
    none = np.zeros(0, np.int64)
    chunks = SimpleNamespace(text=none, begin=none, length=none)
    found = HeldoutBleu.of(None, chunks, lambda ids: [text], 12, language)
    assert found.tokenizer == tokenizer


def test_patience_goes_by_bleu():
    scores = [(3.0, 0.0), (2.0, 9.0), (1.0, 8.0), (0.5, 9.0)]  # loss falls, BLEU does not rise
    history = [{"step": n, "heldout": {"task": a}, "bleu": b} for n, (a, b) in enumerate(scores)]
    assert min(history, key=minimized)["step"] == 1
    assert out_of_patience(history, 2)
    assert not out_of_patience(history, 3)
    assert not out_of_patience([{k: r[k] for k in ("step", "heldout")} for r in history], 1)


def test_only_translation_is_measured_by_bleu():
    plan = AdaptPlan(model=ModelPlan(init="tiny"), train=TrainPlan(best_by="bleu"))
    with pytest.raises(UsageError, match=r"^`train\.best_by` must be left out"):
        plan.check()
    dataclasses.replace(plan, objective=ObjectivePlan("translation")).check()
