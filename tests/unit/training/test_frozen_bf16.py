"""Frozen weights in bf16: the same bits as where autocast rounds them, and nothing else saved."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from shapes import CAUSAL, MASKED, V, model_of  # noqa: E402

from corpusfit.embed.hardware import seed_generators  # noqa: E402
from corpusfit.training.adapter import add_adapter, hold_in_bf16, trainable_parameters  # noqa: E402
from corpusfit.training.models import _from_pretrained  # noqa: E402
from corpusfit.training.objectives import load  # noqa: E402
from corpusfit.training.plan import AdapterPlan  # noqa: E402

IDS = torch.randint(5, V, (3, 12), generator=torch.Generator().manual_seed(0))


def adapted(name, kind, *, exact):
    """A model with an adapter that changes its outputs; its weights are numbers of bf16 or not."""
    model = model_of(name)
    if exact:
        for p in model.parameters():
            p.data = p.data.to(torch.bfloat16).float()
    return with_adapter(model, kind)


def with_adapter(model, kind):
    add_adapter(model, AdapterPlan(kind), 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in trainable_parameters(model).values():
            p.normal_(0, 0.1, generator=generator)
    return model


def gradients(model):
    """Logits and gradients of the adapter in bf16, with dropout."""
    model.train()
    seed_generators(3)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(input_ids=IDS, attention_mask=torch.ones_like(IDS))
    out.logits.float().logsumexp(-1).sum().backward()
    return [out.logits.detach(), *(p.grad for p in trainable_parameters(model).values())]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_logits_and_gradients_are_the_same_bits(name, exact):
    whole, held = (adapted(name, "lora", exact=exact) for _ in range(2))
    hold_in_bf16(held, merged=False)

    assert all(p.dtype == torch.float32 for p in trainable_parameters(held).values())
    layers = [p for n, p in held.named_parameters() if n.endswith("base_layer.weight")]
    assert {p.dtype for p in layers} == {torch.bfloat16}
    for one, other in zip(gradients(whole), gradients(held), strict=True):
        assert one is other is None or torch.equal(one, other)  # None: of a layer that is not used


def test_weights_that_will_be_merged_lose_no_bit():
    rounded, exact = (adapted("llama", "lora", exact=exact) for exact in (False, True))
    before = [{n: p.clone() for n, p in m.named_parameters()} for m in (rounded, exact)]
    for model in (rounded, exact):
        hold_in_bf16(model, merged=True)

    assert all(p.dtype == torch.float32 for p in rounded.parameters())
    assert exact.get_output_embeddings().weight.dtype == torch.bfloat16
    for model, weights in zip((rounded, exact), before, strict=True):
        assert all(torch.equal(p.float(), weights[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize(
    "name",
    [
        *("bert", "gpt2", "llama", "gemma3"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("modernbert", "deberta-v2", "bloom")),
    ],
)
def test_a_base_as_it_is_stored_gives_the_same_bits(name, tmp_path):
    """What is not multiplied by LoRA is made float32, with the numbers that a model computes."""
    model_of(name).to(torch.bfloat16).save_pretrained(tmp_path)
    kind = load("mlm" if name in MASKED else "causal").auto
    whole, stored = (
        with_adapter(_from_pretrained(kind, tmp_path, "eager", None, dtype)[0], "lora")
        for dtype in ("float32", "auto")
    )
    layers = [p for n, p in stored.named_parameters() if n.endswith("base_layer.weight")]
    assert torch.bfloat16 in {p.dtype for p in layers} or name == "gpt2"  # has no plain matrices
    others = {id(p) for p in stored.parameters()} - {id(p) for p in layers}
    assert {p.dtype for p in stored.parameters() if id(p) in others} == {torch.float32}
    ids = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    with torch.no_grad():
        assert torch.equal(whole(**ids).logits, stored(**ids).logits)
    for model in (whole, stored):
        hold_in_bf16(model, merged=False)
    for one, other in zip(gradients(whole), gradients(stored), strict=True):
        assert one is other is None or torch.equal(one, other)


@pytest.mark.parametrize("merged", [False, True])
def test_the_mapped_file_is_let_go_only_for_less_than_it_holds(merged, tmp_path):
    """Weights of a file, 3 of 4 of them in matrices; none of them is copied where none is held."""
    from safetensors.torch import load_file, save_file

    model = model_of("llama")
    model.model.embed_tokens = torch.nn.Embedding(7, 32)
    model.lm_head = torch.nn.Linear(32, 7, bias=False)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    model.load_state_dict(load_file(tmp_path / "model.safetensors"), assign=True)
    add_adapter(model, AdapterPlan("lora"), 0)
    before = {p.untyped_storage().data_ptr() for p in model.parameters() if not p.requires_grad}
    hold_in_bf16(model, merged=merged)
    after = {p.untyped_storage().data_ptr() for p in model.parameters() if not p.requires_grad}
    assert (before == after) if merged else not before & after
