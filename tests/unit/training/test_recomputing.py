"""Activations that are computed again: the same losses and gradients as where they are kept."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from shapes import CAUSAL, MASKED, V, model_of  # noqa: E402

from corpusfit.embed.hardware import Hardware, seed_generators  # noqa: E402
from corpusfit.embed.losses import cross_entropies  # noqa: E402
from corpusfit.embed.prediction import Predictor  # noqa: E402
from corpusfit.training import memory  # noqa: E402
from corpusfit.training.adapter import add_adapter, trainable_parameters  # noqa: E402
from corpusfit.training.memory import choose  # noqa: E402
from corpusfit.training.models import recomputable, recompute  # noqa: E402
from corpusfit.training.plan import AdapterPlan, AdaptPlan  # noqa: E402
from corpusfit.training.schedule import out_of_memory_error  # noqa: E402

IDS = torch.randint(5, V, (3, 12), generator=torch.Generator().manual_seed(0))
AT = torch.tensor([1, 4, 13, 14, 30])
GB = 10**9


def gradients(name, kind, recomputed):
    """The loss at some positions, with dropout, and the gradient of every trained weight."""
    model = model_of(name, "sdpa" if name in ("bert", "llama") else "eager")
    predictor = Predictor(model)
    if kind:
        add_adapter(model, AdapterPlan(kind), 0)
    if recomputed:
        recompute(model)
    model.train()
    seed_generators(3)
    inputs = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    logits = predictor.logits(model, inputs, AT)
    cross_entropies(logits, IDS.flatten()[AT]).sum().backward()
    return logits.detach(), {n: p.grad for n, p in trainable_parameters(model).items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "") for name in [*MASKED, *CAUSAL] if name != "albert"]
    + [("bert", "lora"), ("llama", "lora")],
)
def test_losses_and_gradients_are_the_same_bits(name, kind):
    logits, kept = gradients(name, kind, False)
    again, recomputed = gradients(name, kind, True)

    assert torch.equal(again, logits)
    assert kept.keys() == recomputed.keys()
    for weight, gradient in kept.items():
        same = gradient is recomputed[weight] is None or torch.equal(gradient, recomputed[weight])
        assert same, weight


def test_layers_that_are_shared_cannot_be_recomputed():
    assert not recomputable(model_of("albert"))
    assert recomputable(model_of("bert"))


def chosen(room, monkeypatch, **settings):
    """What is chosen for a step of 8 GB with activations kept, and 3 GB without; half by rows."""

    def counted(plan, model, length, hardware, rows, again):
        return {"total": GB + (2 if again else 7) * rows * GB // 8}

    monkeypatch.setattr(memory, "_of_step", counted)
    plan = AdaptPlan()
    for setting, value in settings.items():
        plan = plan.with_value(f"train.{setting}", value)
    return choose(plan, model_of("bert"), 8, 128, Hardware("cpu", "fp32", 0), room and room * GB)


@pytest.mark.parametrize(
    ("room", "settings", "recomputes", "rows"),
    [
        (12, {}, False, 8),
        (None, {}, False, 8),
        (8, {}, True, 8),
        (3, {}, True, 4),
        (8, {"checkpointing": "off"}, False, 4),
        (9, {"checkpointing": "on"}, True, 8),
        (3, {"micro_tokens": 1_024}, True, 8),
        (1, {}, True, 1),
    ],
)
def test_a_step_fits_the_memory(monkeypatch, room, settings, recomputes, rows):
    _, again, taken = chosen(room, monkeypatch, **settings)
    assert (again, taken) == (recomputes, rows)


def test_running_out_of_memory_names_it():
    train = AdaptPlan().with_value("train.batch", 1).with_value("train.length", 64).train
    assert "`train.checkpointing=on`" in str(out_of_memory_error(train, 1, 4, can_recompute=True))
    assert "`train.checkpointing=on`" not in str(out_of_memory_error(train, 1, 4))
