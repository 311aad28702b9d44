"""LoRA against the paper's formula in torch, and against peft; adapters are saved and opened."""

import json
import re
import warnings

import pytest
import torch
import transformers

from adapted_models import IDS, MORE, adapted, bases, build, disturb, save, states
from corpusfit.core import registry
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.gone import moved
from corpusfit.training.adapter import add_adapter, open_adapted, trainable_parameters
from corpusfit.training.adapters.lora import linear_layers
from corpusfit.training.plan import AdapterPlan

pytestmark = pytest.mark.slow
__all__ = ["bases"]  # a fixture

LORA = AdapterPlan(kind="lora", rank=4, alpha=12)

# dense layers below layers of experts, which peft adapts in their place
EXPERTS = {
    "routed_scaling_factor": 1.0,
    "n_routed_experts": 4,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "num_experts_per_tok": 2,
}
LATENT = {
    **EXPERTS,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
}
OF_EXPERTS = {
    "DeepseekV2": {**LATENT, "n_shared_experts": 1},
    "DeepseekV3": LATENT,
    "Glm4Moe": {**EXPERTS, "num_key_value_heads": 2, "n_group": 1, "topk_group": 1},
    "Ernie4_5_Moe": {
        "num_key_value_heads": 2,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 16,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": 1,
    },
    "Afmoe": {
        "num_key_value_heads": 2,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "num_dense_layers": 1,
        "layer_types": ["full_attention", "full_attention"],
        "head_dim": 8,
    },
}


def test_a_model_that_no_adapter_suits_is_refused():
    with pytest.raises(ModelError, match=r"^`adapter` must be .*'lora'"):
        add_adapter(build("Mamba", {}), LORA, seed=3)


@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_training_leaves_the_model_itself_as_it_was(bases, name):
    auto = (
        transformers.AutoModelForMaskedLM if name == "Bert" else transformers.AutoModelForCausalLM
    )
    model = auto.from_pretrained(bases[name])
    own = {n: p.clone() for n, p in model.state_dict().items()}
    add_adapter(model, LORA, seed=3)
    begun = {n: p.detach().clone() for n, p in trainable_parameters(model).items()}
    optimizer = torch.optim.AdamW(trainable_parameters(model).values(), lr=0.01)
    first = last = None
    for _ in range(5):
        loss = model(input_ids=IDS, labels=IDS).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first, last = first or loss.item(), loss.item()
    with_gradient = {n for n, p in model.named_parameters() if p.grad is not None}
    assert with_gradient == set(begun)
    assert last < first
    pruned = {n.replace(".base_layer.", "."): t for n, t in model.state_dict().items()}
    for key, tensor in own.items():
        assert torch.equal(pruned[key], tensor), key
    for key, parameter in trainable_parameters(model).items():
        assert not torch.equal(parameter, begun[key]), key


def test_the_seed_decides_the_new_weights_and_torchs_random_state_stays():
    new = []
    for seed in (3, 3, 4):
        model = build("Bert", {})
        was = torch.random.get_rng_state()
        add_adapter(model, LORA, seed)
        assert torch.equal(torch.random.get_rng_state(), was)
        new.append(trainable_parameters(model))
    assert all(torch.equal(new[0][n], new[1][n]) for n in new[0])
    assert not all(torch.equal(new[0][n], new[2][n]) for n in new[0])


@pytest.mark.parametrize("where", ["apart", "merged"])
@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_what_is_saved_opens_again_under_the_same_head_and_without(bases, tmp_path, name, where):
    kind = "AutoModelForMaskedLM" if name == "Bert" else "AutoModelForCausalLM"
    auto = getattr(transformers, kind)
    plan = AdapterPlan(**{**vars(LORA), "save": where})
    model = adapted(bases[name], plan, auto)
    before, weights = states(model), trainable_parameters(model)
    save(model, plan, bases[name], tmp_path / "out")
    assert torch.equal(states(model), before)
    again = open_adapted(tmp_path / "out", auto)
    headless = open_adapted(tmp_path / "out", transformers.AutoModel)
    exact = where == "apart"
    for opened, expected in ((again, before), (headless, states(model.base_model))):
        furthest = (states(opened) - expected).abs().max() / expected.abs().max()
        assert furthest == 0 if exact else furthest < 1e-5
    assert (before - states(open_adapted(bases[name], auto))).abs().max() > 0.1
    if exact:
        assert set(trainable_parameters(again)) >= set(weights)
        inside = [n for n, p in again.base_model.named_parameters() if p.requires_grad]
        assert len(inside) == len(weights)


def test_merged_lora_is_a_model_like_any_other(bases, tmp_path):
    plan = AdapterPlan(**{**vars(LORA), "save": "merged"})
    model = adapted(bases["GPT2"], plan, transformers.AutoModelForCausalLM)
    save(model, plan, bases["GPT2"], tmp_path)
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert (states(plain) - states(model)).abs().max() < 1e-5 * states(model).abs().max()
    assert set(plain.state_dict()) == set(build("GPT2", MORE["GPT2"]).state_dict())
    assert not list(tmp_path.glob("adapter*"))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft reads it
@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_peft_loads_lora(bases, tmp_path, name):
    from peft import AutoPeftModelForCausalLM, AutoPeftModelForFeatureExtraction, PeftModel

    causal = name == "GPT2"
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    model = adapted(bases[name], LORA, auto)
    save(model, LORA, bases[name], tmp_path)
    expected = states(model if causal else model.base_model)
    base = (auto if causal else transformers.AutoModel).from_pretrained(bases[name]).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # about missing or unexpected weights
        loaded = PeftModel.from_pretrained(base, tmp_path)
    torch.testing.assert_close(states(loaded.eval()), expected)
    found = AutoPeftModelForCausalLM if causal else AutoPeftModelForFeatureExtraction
    torch.testing.assert_close(states(found.from_pretrained(tmp_path).eval()), expected)


def test_lora_goes_beside_every_linear_layer_of_the_base_and_no_other():
    model = build("Bert", {})
    add_adapter(model, LORA, seed=3)
    parts = ("self.query", "self.key", "self.value", "output.dense")
    inner = [f"attention.{p}" for p in parts] + ["intermediate.dense", "output.dense"]
    names = {f"bert.encoder.layer.{i}.{n}" for i in (0, 1) for n in inner}
    pairs = {f"{n}.lora_{side}.default.weight" for n in names for side in "AB"}
    assert set(trainable_parameters(model)) == pairs
    assert {f"bert.{n}" for n in linear_layers(model.base_model)} == names


def test_lora_is_the_papers_formula():
    model = build("Bert", {}, head=False)
    add_adapter(model, LORA, seed=3)
    disturb(model)
    layer = model.encoder.layer[0].intermediate.dense
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(5))
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    whole = layer.base_layer.weight + 12 / 4 * b @ a
    torch.testing.assert_close(layer(x), x @ whole.T + layer.base_layer.bias)


@pytest.mark.parametrize("name", ["Longformer", "RoCBert", *OF_EXPERTS])
def test_what_peft_adapts_trains_and_is_saved(tmp_path, name):
    """Longformer and RoCBert change a layer's output in place; the others have experts."""
    base = tmp_path / "base"
    build(name, {**MORE, **OF_EXPERTS}.get(name, {})).save_pretrained(base)
    kind = "AutoModelForCausalLM" if name in OF_EXPERTS else "AutoModelForMaskedLM"
    auto = getattr(transformers, kind)
    model = adapted(base, LORA, auto)
    with torch.autocast("cpu", torch.bfloat16):
        model(input_ids=IDS, labels=IDS).loss.backward()
    new = trainable_parameters(model)
    used = {n for n in new if "_global" not in n}  # Longformer's, for other inputs
    assert {n for n, p in new.items() if p.grad is not None} == used
    experts = [n for n in new if ".experts." in n]
    assert bool(experts) == (name in OF_EXPERTS)
    expected = states(model)
    assert (expected - states(auto.from_pretrained(base))).abs().max() > 0.1
    for where in ("apart", "merged"):
        plan = AdapterPlan(**{**vars(LORA), "save": where})
        save(model, plan, base, tmp_path / where)
        opened = states(open_adapted(tmp_path / where, auto))
        assert (opened - expected).abs().max() <= 1e-5 * expected.abs().max(), where


def test_an_adapter_is_refused_when_its_base_model_has_changed(tmp_path):
    base = tmp_path / "base"
    build("Bert", {}).save_pretrained(base)
    out = save(adapted(base, LORA, transformers.AutoModelForMaskedLM), LORA, base, tmp_path / "out")
    assert json.loads((out / "adapter.json").read_text())["base"]["name"] == str(base.resolve())
    build("Bert", {}, seed=8).save_pretrained(base)
    with pytest.raises(ModelError, match=re.escape(str(base))):
        open_adapted(out, transformers.AutoModel)
    (base / "config.json").unlink()
    with pytest.raises(ModelError, match=rf"adapter in {re.escape(str(out))}.*config\.json"):
        open_adapted(out, transformers.AutoModel)
    base.rename(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=rf"adapter in {re.escape(str(out))}"):
        open_adapted(out, transformers.AutoModel)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("adapter.json", b"{"),
        ("adapter.json", b"[]"),
        ("adapter.json", b'{"kind": "lora"}'),
        ("adapter_model.safetensors", b"x"),
        ("adapter_model.safetensors", None),
    ],
)
def test_a_broken_adapter_is_an_error(bases, tmp_path, name, data):
    model = adapted(bases["Bert"], LORA, transformers.AutoModelForMaskedLM)
    save(model, LORA, bases["Bert"], tmp_path)
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / name))):
        open_adapted(tmp_path, transformers.AutoModel)


def test_weights_of_another_size_are_an_error(bases, tmp_path):
    model = adapted(bases["Bert"], LORA, transformers.AutoModelForMaskedLM)
    save(model, LORA, bases["Bert"], tmp_path)
    note = json.loads((tmp_path / "adapter.json").read_text())
    (tmp_path / "adapter.json").write_text(json.dumps({**note, "rank": 8}))
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / "adapter_model.safetensors"))):
        open_adapted(tmp_path, transformers.AutoModel)


def test_another_head_trains_beside_an_opened_adapter(bases, tmp_path):
    model = adapted(bases["Bert"], LORA, transformers.AutoModelForMaskedLM)
    save(model, LORA, bases["Bert"], tmp_path)
    classifier = open_adapted(tmp_path, transformers.AutoModelForSequenceClassification)
    body = classifier.bert(input_ids=IDS)[0]
    torch.testing.assert_close(body, states(model.base_model), rtol=0, atol=0)
    assert {"classifier.weight", "classifier.bias"} < set(trainable_parameters(classifier))
    assert not classifier.bert.embeddings.word_embeddings.weight.requires_grad


def test_an_adapter_of_a_package_that_is_missing_is_refused_with_its_package(
    bases, tmp_path, monkeypatch
):
    model = adapted(bases["Bert"], LORA, transformers.AutoModelForMaskedLM)
    save(model, LORA, bases["Bert"], tmp_path)
    note = json.loads((tmp_path / "adapter.json").read_text())
    (tmp_path / "adapter.json").write_text(json.dumps({**note, "kind": "pfeiffer"}))
    monkeypatch.setattr(registry, "_entries", lambda group: {})
    with pytest.raises(ModelError, match=re.escape(moved("adapter.kind=pfeiffer"))):
        open_adapted(tmp_path, transformers.AutoModel)
    with pytest.raises(UsageError, match=re.escape(moved("adapter.kind=pfeiffer"))):
        AdapterPlan(kind="pfeiffer").check()
