"""Fine-tuning on a CUDA device: it learns, and packed texts have the logits that each has alone."""

import random

import pytest

from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Task

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate", reason="the extra train is not installed")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

WORDS = (["kinase", "receptor", "aspirin"], ["market", "shares", "investors"])


def examples(n, seed):
    """n texts of one of two topics."""
    chance = random.Random(seed)
    labels = [chance.randrange(2) for _ in range(n)]
    texts = [" ".join(chance.choices(WORDS[i], k=chance.randint(1, 9))) for i in labels]
    return Examples([[t] for t in texts], [[i] for i in labels])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_topics_are_learned_on_the_device(tiny_lm, precision):
    task = Task(
        "t", "classification", ("a", "b"), 2, examples(96, 1), examples(24, 2), examples(48, 3)
    )
    plan = EvaluatePlan().with_overrides(
        [
            f"model.name={tiny_lm}",
            *("finetune.device=cuda", f"finetune.precision={precision}"),
            *("finetune.learning_rate=3e-3", "finetune.epochs=12"),
        ]
    )
    assert finetune(task, plan, 0).scores["test"]["accuracy"] > 0.9
