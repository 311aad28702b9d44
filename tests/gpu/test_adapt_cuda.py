"""Training on a CUDA device: packed rows are padded ones, and a training goes on where it was."""

import dataclasses
import json

import pytest

import corpusfit
from listening import StoppingTraining

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate", reason="the extra train is not installed")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

WORDS = [*"abcdefghi"] * 9
TEXTS = [" ".join(WORDS[i : i + n]) for n in range(3, 40) for i in range(4)]


@pytest.fixture
def adapt(tiny_lm, jsonl, tmp_path, inline):
    data = jsonl("data.jsonl", TEXTS)

    def adapt(out, machine=inline, **words):
        settings = ["train.device=cuda", "train.checkpoint_minutes=1e-9", *words.pop("more", [])]
        given = {"max_steps": 30, "batch": 16, "length": 64, "learning_rate": 5e-3, **words}
        return corpusfit.adapt(
            model=str(tiny_lm),
            data=data,
            out=tmp_path / out,
            settings=settings,
            machine=machine,
            **given,
        )

    return adapt


@pytest.mark.parametrize("name", ["mlm", "causal"])
@pytest.mark.parametrize(
    ("bf16", "most", "flash"), [(False, 1e-4, False), (True, 3e-2, False), (True, 3e-2, True)]
)
def test_gradients_through_packed_rows_are_those_of_padded_ones(name, bf16, most, flash):
    """The same chunks, packed in one row and padded in a row each, in float32 and bf16, with masks
    and by a kernel that takes lengths; `most` is the length of the difference in lengths of the
    gradient."""
    from adapting import BERT_MARKS, VOCABULARY, model_of
    from corpusfit.embed.hardware import Hardware
    from corpusfit.embed.prediction import Predictor
    from corpusfit.training.batches import MicroBatch
    from corpusfit.training.contract import Network
    from corpusfit.training.objectives.mlm import MaskedLM
    from corpusfit.training.packing import find_packing
    from corpusfit.training.plan import ObjectivePlan

    kernels = Hardware("cuda", "bf16", 0).varlen if flash else []
    if flash and not kernels:
        pytest.skip("flash-attn is not installed")
    model = model_of(name, attention="sdpa").cuda()
    predictor = Predictor(model)
    packing = find_packing(predictor, BERT_MARKS, 60, causal=name == "causal", kernels=kernels)
    assert packing is not None
    assert (packing.form == "flat") == flash
    sizes = (31, 9, 17)
    ids = torch.randint(5, VOCABULARY, (sum(sizes),), generator=torch.Generator().manual_seed(0))
    at = [[3, 20, 30], [0, 4], [7]]
    starts = [0, sizes[0], sizes[0] + sizes[1]]
    labels = torch.tensor([6, 9, 11, 20, 21, 39])
    rows, chunk = torch.zeros(3, 31, dtype=torch.long), torch.full((3, 31), -1)
    packed_chunk = torch.full((1, 60), -1)
    for i, (size, begin) in enumerate(zip(sizes, starts, strict=True)):
        rows[i, :size], chunk[i, :size] = ids[begin : begin + size], 0
        packed_chunk[0, begin : begin + size] = i
    row = torch.nn.functional.pad(ids, (0, 3))[None]
    scale, none = torch.ones(6), torch.empty(0, dtype=torch.long)
    packed = [begin + p for begin, some in zip(starts, at, strict=True) for p in some]
    padded = [31 * i + p for i, some in enumerate(at) for p in some]
    aim = MaskedLM(BERT_MARKS, ObjectivePlan())
    found = []
    for how, places, inputs, chunks in (
        (packing, packed, row, packed_chunk),
        (None, padded, rows, chunk),
    ):
        if how is None:
            model.set_attn_implementation("sdpa")
        network = Network(predictor, model, how, "bf16" if bf16 else "fp32")
        kind = torch.zeros_like(inputs)
        micro = MicroBatch(
            inputs, chunks, kind, torch.tensor(places), labels, scale, none, scale[:0]
        )
        with network.scope():
            loss, _ = aim.losses(network, micro.to(model.device))
        loss.backward()
        grads = [p.grad.double().flatten() for p in model.parameters() if p.grad is not None]
        model.zero_grad(set_to_none=True)
        found.append(torch.cat(grads))
    assert float((found[0] - found[1]).norm() / found[1].norm()) < most


@pytest.mark.parametrize(
    ("objective", "precision"), [("mlm", "auto"), ("mlm+nsp", "auto"), ("mlm", "fp16")]
)
def test_a_training_learns_and_goes_on_to_the_same_loss(adapt, inline, objective, precision):
    """Sums on a GPU may be added in another order, so that losses agree but for rounding."""
    words = {"objective": objective, "more": [f"train.precision={precision}"]}
    whole = adapt("whole", **words)
    found = whole.manifest
    assert (found["device"], found["packed"]) == ("cuda", objective == "mlm")
    assert found["losses"]["after"]["data"] < found["losses"]["before"]["data"] - 0.5
    machine = dataclasses.replace(inline, progress=StoppingTraining(17))
    with pytest.raises(InterruptedError):
        adapt("stopped", machine=machine, **words)
    again = adapt("stopped", **words)
    assert [r["step"] for r in again.history()] == [r["step"] for r in whole.history()]
    after = again.manifest["losses"]["after"]["data"]
    assert after == pytest.approx(found["losses"]["after"]["data"], abs=0.02)
    assert json.loads((again.path / "config.json").read_text("utf-8"))["hidden_size"] == 32


@pytest.mark.parametrize("precision", ["fp32", "fp16", "auto"])
def test_a_step_does_not_wait_for_the_gpu_and_multiplies_tf32(adapt, precision):
    """torch raises an error where a step waits: from its beginning to before it is recorded."""
    from transformers import TrainerCallback

    fast = []

    class Steps(TrainerCallback):
        def on_step_begin(self, args, state, control, **facts):
            fast.append(torch.get_float32_matmul_precision())
            torch.cuda.set_sync_debug_mode("error")

        def on_step_end(self, args, state, control, **facts):
            torch.cuda.set_sync_debug_mode("default")

    try:
        adapt("out", more=[f"train.precision={precision}"], callbacks=[Steps()])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert fast == ["high"] * 30
