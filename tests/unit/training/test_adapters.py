"""Adapters against the papers' formulas in torch, and against peft."""

import json
import re
import warnings

import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.training.adapter import (
    Base,
    adapter_of,
    add_adapter,
    open_adapted,
    save_adapter,
    trainable_parameters,
)
from corpusfit.training.adapters.lora import linear_layers
from corpusfit.training.adapters.pfeiffer import Pfeiffer
from corpusfit.training.models import fingerprint
from corpusfit.training.plan import AdapterPlan

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

PFEIFFER = AdapterPlan(kind="pfeiffer")
LORA = AdapterPlan(kind="lora", rank=4, alpha=12)
KINDS = pytest.mark.parametrize("plan", [PFEIFFER, LORA], ids=lambda plan: plan.kind)
SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
AFTER_NORM = {
    "Bert": {},
    "Roberta": {"pad_token_id": 1},
    "XLMRoberta": {"pad_token_id": 1},
    "Camembert": {"pad_token_id": 1},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "Electra": {"embedding_size": 16},
    "MPNet": {"pad_token_id": 1},
    "Albert": {"embedding_size": 16},
    "DebertaV2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "norm_rel_ebd": "layer_norm",
    },
    "Longformer": {"attention_window": [4, 4], "pad_token_id": 1},
    "Gemma2": {"head_dim": 8, "num_key_value_heads": 2},
}
BEFORE_NORM = {
    "GPT2": {"n_inner": 48, "n_embd": 32, "n_layer": 2, "n_head": 4},
    "Llama": {},
    "ModernBert": {"cls_token_id": 1, "sep_token_id": 2},
    "GPTNeoX": {},
    "Qwen3": {"head_dim": 16, "num_key_value_heads": 2},
}
NO_PLACE = {
    "Mixtral": {"num_key_value_heads": 2, "num_local_experts": 4},
    "XLNet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
}
NO_ADAPTER = {
    "DeepseekV3": {
        "n_routed_experts": 4,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
    },
    "Mamba": {},
}
CAUSAL = {"GPT2", "Llama", "GPTNeoX", "Qwen3", "Gemma2"} | set(NO_PLACE) | set(NO_ADAPTER)


def build(name, more, head=True, seed=0):
    """A random model, with weights large enough for a wrong sum to show."""
    torch.manual_seed(seed)
    settings = {**SMALL, "initializer_range": 0.3, **more}
    if name == "XLNet":
        del settings["max_position_embeddings"]
    config = getattr(transformers, f"{name}Config")(**settings)
    kind = "AutoModelForCausalLM" if name in CAUSAL else "AutoModelForMaskedLM"
    auto = getattr(transformers, kind if head else "AutoModel")
    return auto.from_config(config).eval()


def disturb(model, seed=1):
    """Set all trainable weights to random numbers, as if trained."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in trainable_parameters(model).values():
            p.normal_(0, 0.1, generator=generator)


IDS = torch.tensor([[5, 17, 33, 80, 9, 44], [7, 7, 51, 20, 98, 3]])


def states(model):
    with torch.no_grad():
        return model(input_ids=IDS)[0]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Folders with a BERT and a GPT-2, each with its head."""
    found = {}
    for name in ("Bert", "GPT2"):
        folder = tmp_path_factory.mktemp(name)
        build(name, {**AFTER_NORM, **BEFORE_NORM}[name]).save_pretrained(folder)
        found[name] = folder
    return found


class FakeTokenizer:
    """A tokenizer that can only be saved."""

    def save_pretrained(self, folder):
        (folder / "tokenizer_config.json").write_text("{}")


def adapted(folder, plan, auto):
    """The model in a folder with a random adapter."""
    model = auto.from_pretrained(folder).eval()
    add_adapter(model, plan, seed=3)
    disturb(model)
    return model


def save(model, plan, base, out):
    save_adapter(model, FakeTokenizer(), plan, Base(str(base), fingerprint(base)), out)
    return out


def test_a_bottleneck_is_mdapts_formula():
    model = build("Bert", {}, head=False)
    add_adapter(model, PFEIFFER, seed=3)
    disturb(model)
    layer = model.encoder.layer[1]
    seen = {}
    layer.attention.register_forward_hook(lambda _m, _a, out: seen.update(residual=out[0]))
    layer.output.dense.register_forward_hook(lambda _m, _a, out: seen.update(r=out))
    layer.register_forward_hook(lambda _m, _a, out: seen.update(out=out))
    states(model)
    weights = {n: p for n, p in adapter_of(PFEIFFER).weights(model).items() if ".1." in n}
    d, d0, u, u0 = (
        weights[f"encoder.layer.1.output.LayerNorm.pfeiffer.{n}"]
        for n in ("down.weight", "down.bias", "up.weight", "up.bias")
    )
    assert len(weights) == 4
    assert d.shape == (16, 32)

    def norm(s):
        own = layer.output.LayerNorm
        spread = s.var(-1, unbiased=False, keepdim=True) + own.eps
        return (s - s.mean(-1, keepdim=True)) / spread.sqrt() * own.weight + own.bias

    r, residual = seen["r"], seen["residual"]
    h = norm(r + residual)
    adapter = (h @ d.T + d0).clamp(min=0) @ u.T + u0 + r
    out = seen["out"] if torch.is_tensor(seen["out"]) else seen["out"][0]
    torch.testing.assert_close(out, norm(adapter + residual))
    assert (h - norm(adapter + residual)).abs().max() > 0.1


def test_a_bottleneck_without_a_norm_after_it_reads_what_the_block_gives():
    model = build("GPT2", BEFORE_NORM["GPT2"], head=False)
    model.requires_grad_(False)
    Pfeiffer(reduction=4).insert(model, seed=3)
    disturb(model)
    seen = {}
    block = model.h[0].mlp
    block.c_proj.register_forward_pre_hook(lambda _m, args: seen.update(read=args[0]))
    block.register_forward_hook(lambda _m, _a, out: seen.update(out=out))
    states(model)
    r = seen["read"] @ block.c_proj.weight + block.c_proj.bias
    own = block.c_proj.pfeiffer
    assert own.down.weight.shape == (8, 32)
    adapter = (r @ own.down.weight.T + own.down.bias).clamp(min=0) @ own.up.weight.T + own.up.bias
    torch.testing.assert_close(seen["out"], r + adapter)


@pytest.mark.parametrize(("name", "more"), [*AFTER_NORM.items(), *BEFORE_NORM.items()])
def test_every_layer_of_an_architecture_gets_an_adapter_that_begins_as_nothing(name, more):
    model = build(name, more).requires_grad_(False)  # torch's choice of kernel depends on it
    before = states(model)
    keys = set(model.state_dict())
    add_adapter(model, PFEIFFER, seed=3)
    assert torch.equal(states(model), before)
    new = set(model.state_dict()) - keys
    assert keys <= set(model.state_dict())
    assert new == set(trainable_parameters(model))
    assert len(new) == 4 * (1 if name == "Albert" else 2)  # its one layer is used twice
    assert ("norm" in min(new).lower()) == (name in AFTER_NORM)
    disturb(model)
    assert (states(model) - before).abs().max() > 1e-3


@pytest.mark.parametrize(("name", "more"), NO_PLACE.items())
def test_a_model_that_pfeiffer_does_not_suit_is_refused_and_lora_is_the_cure(name, more):
    model = build(name, more)
    with pytest.raises(
        ModelError, match=r"^`adapter` must be lora .*'pfeiffer'.* Use `adapter=lora`\."
    ):
        add_adapter(model, PFEIFFER, seed=3)
    add_adapter(model, LORA, seed=3)
    assert trainable_parameters(model)


@pytest.mark.parametrize(("name", "more"), NO_ADAPTER.items())
@KINDS
def test_a_model_that_no_adapter_suits_is_refused(name, more, plan):
    with pytest.raises(ModelError, match=rf"^`adapter` must be .*'{plan.kind}'"):
        add_adapter(build(name, more), plan, seed=3)


@KINDS
@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_training_leaves_the_model_itself_as_it_was(bases, name, plan):
    auto = (
        transformers.AutoModelForMaskedLM if name == "Bert" else transformers.AutoModelForCausalLM
    )
    model = auto.from_pretrained(bases[name])
    own = {n: p.clone() for n, p in model.state_dict().items()}
    add_adapter(model, plan, seed=3)
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


@KINDS
def test_the_seed_decides_the_new_weights_and_torchs_random_state_stays(plan):
    new = []
    for seed in (3, 3, 4):
        model = build("Bert", {})
        was = torch.random.get_rng_state()
        add_adapter(model, plan, seed)
        assert torch.equal(torch.random.get_rng_state(), was)
        new.append(trainable_parameters(model))
    assert all(torch.equal(new[0][n], new[1][n]) for n in new[0])
    assert not all(torch.equal(new[0][n], new[2][n]) for n in new[0])


@KINDS
@pytest.mark.parametrize("where", ["apart", "merged"])
@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_what_is_saved_opens_again_under_the_same_head_and_without(
    bases, tmp_path, name, where, plan
):
    kind = "AutoModelForMaskedLM" if name == "Bert" else "AutoModelForCausalLM"
    auto = getattr(transformers, kind)
    plan = AdapterPlan(**{**vars(plan), "save": where})
    model = adapted(bases[name], plan, auto)
    before, weights = states(model), trainable_parameters(model)
    save(model, plan, bases[name], tmp_path / "out")
    assert torch.equal(states(model), before)
    again = open_adapted(tmp_path / "out", auto)
    headless = open_adapted(tmp_path / "out", transformers.AutoModel)
    exact = (plan.kind, where) != ("lora", "merged")
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
    assert set(plain.state_dict()) == set(build("GPT2", BEFORE_NORM["GPT2"]).state_dict())
    assert not list(tmp_path.glob("adapter*"))


def test_merged_bottlenecks_lie_beside_the_models_own_weights(bases, tmp_path):
    plan = AdapterPlan(kind="pfeiffer", save="merged")
    model = adapted(bases["Bert"], plan, transformers.AutoModelForMaskedLM)
    save(model, plan, bases["Bert"], tmp_path)
    plain, own = (
        transformers.AutoModel.from_pretrained(folder).state_dict()
        for folder in (tmp_path, bases["Bert"])
    )
    assert {n for n in own if "pooler" not in n} == {n for n in plain if "pooler" not in n}
    assert all(torch.equal(plain[n], own[n]) for n in own if "pooler" not in n)


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


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("name", ["Bert", "Llama", "Longformer", "RoCBert"])
def test_lora_as_one_operation_equals_peft(name, bf16):
    """Outputs and gradients of peft's own layers, in fp32, and in bf16 about as near to these.

    Longformer and RoCBert change a layer's output in place.
    """
    model = build(name, AFTER_NORM.get(name, {}))
    add_adapter(model, LORA, seed=0)
    disturb(model)
    ours_in = [m for m in model.modules() if "forward" in vars(m)]
    assert len(ours_in) == len(linear_layers(model.base_model))

    def outcome(bf16):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(input_ids=IDS).logits
        model.zero_grad()
        logits.float().square().mean().backward()
        gradients = (p.grad for p in trainable_parameters(model).values() if p.grad is not None)
        return [logits.float().detach(), *gradients]

    ours = outcome(bf16)
    for module in ours_in:
        del module.forward  # now peft's
    exact, theirs = outcome(False), outcome(bf16)
    if bf16:
        away, theirs_away = (
            torch.cat([(x - y).flatten() for x, y in zip(found, exact, strict=True)]).norm()
            for found in (ours, theirs)
        )
        assert away < 1.5 * theirs_away
    else:
        assert all((x - y).norm() < 1e-5 * y.norm() for x, y in zip(ours, exact, strict=True))


@KINDS
def test_an_adapter_is_refused_when_its_base_model_has_changed(tmp_path, plan):
    base = tmp_path / "base"
    build("Bert", {}).save_pretrained(base)
    out = save(adapted(base, plan, transformers.AutoModelForMaskedLM), plan, base, tmp_path / "out")
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
        ("adapter.json", b'{"kind": "pfeiffer"}'),
        ("adapter.safetensors", b"x"),
        ("adapter.safetensors", None),
    ],
)
def test_a_broken_adapter_is_an_error(bases, tmp_path, name, data):
    model = adapted(bases["Bert"], PFEIFFER, transformers.AutoModelForMaskedLM)
    save(model, PFEIFFER, bases["Bert"], tmp_path)
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / name))):
        open_adapted(tmp_path, transformers.AutoModel)


def test_weights_of_another_size_are_an_error(bases, tmp_path):
    model = adapted(bases["Bert"], PFEIFFER, transformers.AutoModelForMaskedLM)
    save(model, PFEIFFER, bases["Bert"], tmp_path)
    note = json.loads((tmp_path / "adapter.json").read_text())
    (tmp_path / "adapter.json").write_text(json.dumps({**note, "reduction": 8}))
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / "adapter.safetensors"))):
        open_adapted(tmp_path, transformers.AutoModel)


def test_another_head_trains_beside_an_opened_adapter(bases, tmp_path):
    model = adapted(bases["Bert"], PFEIFFER, transformers.AutoModelForMaskedLM)
    save(model, PFEIFFER, bases["Bert"], tmp_path)
    classifier = open_adapted(tmp_path, transformers.AutoModelForSequenceClassification)
    body = classifier.bert(input_ids=IDS)[0]
    torch.testing.assert_close(body, states(model.base_model), rtol=0, atol=0)
    assert {"classifier.weight", "classifier.bias"} < set(trainable_parameters(classifier))
    assert not classifier.bert.embeddings.word_embeddings.weight.requires_grad
