"""The counted memory of a step, against what torch keeps of the same step on real tensors."""

from dataclasses import replace
from functools import partial

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

from shapes import CAUSAL, MASKED, NO_SDPA  # noqa: E402

from corpusfit.core.errors import ModelError  # noqa: E402
from corpusfit.embed.hardware import Hardware  # noqa: E402
from corpusfit.training import memory as counting  # noqa: E402
from corpusfit.training.adapters import add_adapter, trainable_parameters  # noqa: E402
from corpusfit.training.memory import (  # noqa: E402
    Pass,
    outline,
    require_memory,
    states,
    step_memory,
)
from corpusfit.training.packing import Packing  # noqa: E402
from corpusfit.training.plan import AdapterPlan, AdaptPlan  # noqa: E402

pytestmark = pytest.mark.slow

CPU = Hardware("cpu", "fp32", 0)
ROWS, LENGTH = 3, 24


def opening(name):
    """Makes a model of an architecture."""
    kind = "AutoModelForMaskedLM" if name in MASKED else "AutoModelForCausalLM"
    auto = getattr(transformers, kind)
    attention = "eager" if name in NO_SDPA else "sdpa"
    config = {**MASKED, **CAUSAL}[name]()
    return partial(auto.from_config, config, attn_implementation=attention)


def kept_by_torch(model, inputs):
    """Bytes that autograd keeps of a forward pass besides the weights, and the logits."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(**inputs).logits
    return sum(storage.nbytes() for storage in kept.values()), logits


@pytest.mark.parametrize("kind", ["", "lora"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "opt"])
def test_parts_are_the_bytes_of_real_tensors(name, kind):
    plan = AdapterPlan(kind)
    model = opening(name)().train()
    if kind:
        add_adapter(model, plan, 0)
    chunk = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    inputs = Packing(0, "boolean", name in CAUSAL, 0).inputs(chunk, chunk, torch.float32)

    activations, logits = kept_by_torch(model, inputs)
    counted = step_memory(
        outline(opening(name), plan), Pass(ROWS, LENGTH, 1.0, name in CAUSAL, CPU)
    )

    trained = sum(p.numel() for p in trainable_parameters(model).values())
    assert counted.weights == 4 * sum(p.numel() for p in model.parameters())
    assert counted.gradients == 4 * trained
    assert counted.optimizer == 8 * trained
    head = model.get_output_embeddings().weight
    if name in CAUSAL:  # a piece of the logits, and the head's own gradient
        assert counted.logits == 4 * logits.numel() + 4 * head.numel() * head.requires_grad
    else:
        assert counted.logits == 8 * logits.numel()
    assert counted.activations == pytest.approx(activations, rel=0.02)
    assert counted.total == sum(counting.asdict(counted).values())


def test_gaps_are_a_share_of_what_the_forward_pass_frees(monkeypatch):
    """An adapter's layers free more; a GPU has none, nor has another allocator than glibc's."""

    def gaps(kind, device):
        work = Pass(ROWS, LENGTH, 1.0, True, Hardware(device, "fp32", 0))
        return step_memory(outline(opening("llama"), AdapterPlan(kind)), work).gaps

    monkeypatch.setattr(counting, "glibc", lambda: True)
    assert 0 < gaps("", "cpu") < gaps("lora", "cpu")
    assert gaps("lora", "cuda") == 0
    monkeypatch.setattr(counting, "glibc", lambda: None)
    assert gaps("lora", "cpu") == 0


@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_every_architecture_is_counted(name):
    bf16 = Hardware("cuda", "bf16", 0)
    work = Pass(ROWS, LENGTH, 0.15, name in CAUSAL, bf16)

    counted = step_memory(outline(opening(name), AdapterPlan("lora")), work)

    assert counted is not None
    assert counted.activations > 0


def test_divided_weights_are_put_together_by_layers():
    model = outline(opening("llama"), AdapterPlan(""))
    work = Pass(ROWS, LENGTH, 1.0, True, CPU)
    alone, divided = (step_memory(model, replace(work, processes=n)) for n in (1, 2))
    inside = sum(4 * p.numel() for p in model.model.layers[0].parameters())
    outside = alone.weights - 2 * inside
    assert divided.weights == alone.weights // 2 + outside + 2 * inside
    assert divided.gradients == alone.gradients // 2 + outside + inside
    assert divided.optimizer == alone.optimizer // 2
    assert divided.logits == alone.logits


def test_layers_that_are_recomputed_keep_their_inputs():
    config = transformers.LlamaConfig(
        vocab_size=60, hidden_size=32, intermediate_size=48, num_attention_heads=2,
        num_hidden_layers=8,
    )  # fmt: skip
    build = partial(transformers.AutoModelForCausalLM.from_config, config)

    def activations(recomputes):
        work = Pass(ROWS, LENGTH, 1.0, True, CPU, recomputes)
        return step_memory(outline(build, AdapterPlan()), work).activations

    whole, recomputed = activations(False), activations(True)
    inputs = 8 * 4 * ROWS * LENGTH * 32
    assert inputs < recomputed < inputs + whole / 3


def test_a_model_that_cannot_fit_is_refused_before_its_weights_are_read(monkeypatch):
    plan = AdaptPlan().with_value("model.name", "large").with_value("objective.name", "causal")
    config = CAUSAL["llama"]()
    require_memory(plan, CPU, config)
    whole = states(outline(opening("llama"), AdapterPlan())).total
    monkeypatch.setattr(counting, "memory", lambda device: whole - 1)

    with pytest.raises(ModelError, match=r"`model.name`: training large .*`adapter=lora`"):
        require_memory(plan, CPU, config)

    require_memory(plan.with_value("adapter.kind", "lora"), CPU, config)
