"""Fine-tuning on a CUDA device learns what it learns on a CPU, and what it leaves runs on both."""

import numpy as np
import pytest

from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load
from corpusfit_papers.finetune import Tuning, finetune, open_tuned, write_folder

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

TOPICS = (
    "the kinase inhibitor binds the receptor with high affinity",
    "investors sold shares before the quarterly results of the market",
)


def prose(side, n, seed=0):
    rng = np.random.default_rng([seed, side])
    words = TOPICS[side].split()
    return [" ".join(rng.choice(words, rng.integers(4, 12))) for _ in range(n)]


def test_two_topics_are_told_apart_and_the_result_travels(tiny_encoder, tmp_path):
    tuning = Tuning(epochs=8, learning_rate=3e-3, batch=16, seed=0)
    state = torch.cuda.get_rng_state()
    tuned = finetune(tiny_encoder, prose(0, 60), prose(1, 60), 1.0, tuning)
    assert (torch.cuda.get_rng_state() == state).all()
    encoder = open_tuned(tuned)
    assert encoder.model.device.type == "cuda"
    texts = prose(0, 100, seed=1) + prose(1, 100, seed=1)
    logits = encoder.encode(texts) @ tuned.head[:-1] + tuned.head[-1]
    assert np.mean((logits > 0) == (np.arange(200) < 100)) > 0.95
    write_folder(tuned, tmp_path / "tuned")
    plan = EmbedPlan(
        embedder=str(tmp_path / "tuned"), device="cpu", precision="fp32", unit_length=False
    )
    here = load(plan).encode(texts) @ tuned.head[:-1] + tuned.head[-1]
    assert np.corrcoef(here, logits)[0, 1] > 0.999
