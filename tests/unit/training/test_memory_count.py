"""The counted memory of a step, against what torch keeps of the same step on real tensors."""

import re
from functools import partial

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

from shapes import CAUSAL, ENDS, MASKED, NO_SDPA, SHARED  # noqa: E402

from corpusfit.core.errors import ModelError  # noqa: E402
from corpusfit.embed.hardware import Hardware  # noqa: E402
from corpusfit.training import memory as counting  # noqa: E402
from corpusfit.training.adapter import add_adapter, trainable_parameters  # noqa: E402
from corpusfit.training.memory import choose, outline, require_memory  # noqa: E402
from corpusfit.training.plan import AdaptPlan  # noqa: E402

CPU, GPU = Hardware("cpu", "fp32", 0), Hardware("cuda", "fp32", 0)  # a GPU has no gaps
ROWS, LENGTH = 3, 24


def planned(name, **settings):
    """A plan for an architecture, and what makes a model of it."""
    causal = name in CAUSAL
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    attention = "eager" if name in NO_SDPA else "sdpa"
    config = {**MASKED, **CAUSAL}[name]()
    plan = AdaptPlan().with_value("objective.name", "causal" if causal else "mlm")
    for setting, value in settings.items():
        plan = plan.with_value(setting.replace("__", "."), value)
    return plan, partial(auto.from_config, config, attn_implementation=attention)


def counted(plan, build, hardware=GPU):
    memory, _, _ = choose(plan, outline(build, plan.adapter), ROWS, LENGTH, hardware, None)
    return memory


def kept_by_torch(model):
    """Bytes that autograd keeps of a forward pass besides the weights, and logits of one token."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    ids = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return sum(storage.nbytes() for storage in kept.values()), logits.shape[-1]


@pytest.mark.parametrize("kind", ["", "lora"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_parts_are_the_bytes_of_real_tensors(name, kind):
    plan, build = planned(name, adapter__kind=kind)
    model = build().train()
    if kind:
        add_adapter(model, plan.adapter, 0)
    kept, words = kept_by_torch(model)
    parts = counted(plan, build)
    trained = sum(p.numel() for p in trainable_parameters(model).values())
    predicted = ROWS * LENGTH * (1.0 if name in CAUSAL else plan.objective.mask)
    assert parts["weights"] == 4 * sum(p.numel() for p in model.parameters())
    assert (parts["gradients"], parts["optimizer"]) == (4 * trained, 8 * trained)
    assert parts["activations"] == pytest.approx(kept + 8 * predicted * words, rel=0.05)
    assert parts["total"] == sum(parts.values()) - parts["total"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_every_architecture_is_counted(name):
    plan, build = planned(name, adapter__kind="lora")
    assert counted(plan, build, Hardware("cuda", "bf16", 0))["activations"] > 0


def test_weights_are_counted_of_a_model_that_needs_numbers():
    config = transformers.MixtralConfig(**SHARED, **ENDS, num_local_experts=4)
    plan = AdaptPlan().with_value("objective.name", "causal")
    build = partial(transformers.AutoModelForCausalLM.from_config, config)
    parts = counted(plan, build)
    assert parts["weights"] == 4 * sum(p.numel() for p in build().parameters())
    assert parts["total"] >= 4 * parts["weights"]


def test_layers_that_are_recomputed_keep_their_inputs():
    config = transformers.LlamaConfig(**{**SHARED, "num_hidden_layers": 8})
    build = partial(transformers.AutoModelForCausalLM.from_config, config)
    plan = AdaptPlan().with_value("objective.name", "causal")
    whole = counted(plan, build)["activations"]
    recomputed = counted(plan.with_value("train.checkpointing", "on"), build)["activations"]
    inputs = 8 * 4 * ROWS * LENGTH * 32
    assert inputs < recomputed < inputs + whole / 3


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        ({"train__checkpointing": "off", "train__length": 512}, "train.checkpointing=on"),
        pytest.param({"train__length": 16}, "adapter.kind=lora", marks=pytest.mark.slow),
        pytest.param(
            {"adapter__kind": "lora", "train__length": 512},
            "train.length=128",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_training_that_cannot_fit_is_refused_with_a_cure_that_fits(monkeypatch, settings, cure):
    """Before its weights are read; with less memory still, no setting is offered."""
    plan, build = planned("llama", model__name="large", **settings)
    config = build.args[0]
    require_memory(plan, CPU, config)
    setting, value = cure.split("=")
    cured = plan.with_value(setting, int(value) if value.isdigit() else value)

    def needs(plan):
        length = plan.train.length
        return choose(plan, outline(build, plan.adapter), 1, length, CPU, 1)[0]["total"]

    assert needs(cured) < needs(plan)
    monkeypatch.setattr(counting, "memory", lambda device: needs(cured))
    with pytest.raises(ModelError, match=rf"^`model.name`: training large .*`{re.escape(cure)}`"):
        require_memory(plan, CPU, config)
    require_memory(cured, CPU, config)
    monkeypatch.setattr(counting, "memory", lambda device: 1)
    with pytest.raises(ModelError, match="smaller model"):
        require_memory(plan, CPU, config)


@pytest.mark.slow
def test_no_setting_is_offered_that_does_not_go_with_the_others(monkeypatch):
    plan, build = planned("llama", model__name="large", train__length=16, model__new_head=True)
    lora = plan.with_value("adapter.kind", "lora")
    needed = choose(lora, outline(build, lora.adapter), 1, 16, CPU, 1)[0]["total"]
    monkeypatch.setattr(counting, "memory", lambda device: needed)
    with pytest.raises(ModelError, match="smaller model"):
        require_memory(plan, CPU, build.args[0])
