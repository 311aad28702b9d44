"""Pfeiffer adapters against mDAPT's formula in torch."""

import json
import re
import shutil

import pytest
import torch
import transformers
from test_evaluate import task

import corpusfit
from adapted_models import IDS, adapted, bases, build, disturb, save, states
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.training import estimate_adaptation
from corpusfit.training.adapter import adapter_of, add_adapter, open_adapted, trainable_parameters
from corpusfit.training.plan import AdapterPlan, AdaptPlan
from corpusfit_papers.adapters.pfeiffer import Pfeiffer

pytestmark = pytest.mark.slow
__all__ = ["bases", "task"]  # fixtures

PFEIFFER = AdapterPlan(kind="pfeiffer")

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


@pytest.mark.parametrize(("name", "more"), [*NO_PLACE.items(), ("Mamba", {})])
def test_a_model_without_a_place_is_refused_and_lora_is_the_cure(name, more):
    with pytest.raises(
        ModelError, match=r"^`adapter` must be lora .*'pfeiffer'.* Use `adapter=lora`\."
    ):
        add_adapter(build(name, more), PFEIFFER, seed=3)


def test_the_seed_decides_the_new_weights_and_torchs_random_state_stays():
    new = []
    for seed in (3, 3, 4):
        model = build("Bert", {})
        was = torch.random.get_rng_state()
        add_adapter(model, PFEIFFER, seed)
        assert torch.equal(torch.random.get_rng_state(), was)
        new.append(trainable_parameters(model))
    assert all(torch.equal(new[0][n], new[1][n]) for n in new[0])
    assert not all(torch.equal(new[0][n], new[2][n]) for n in new[0])


@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_what_is_saved_opens_again_under_the_same_head_and_without(bases, tmp_path, name):
    kind = "AutoModelForMaskedLM" if name == "Bert" else "AutoModelForCausalLM"
    auto = getattr(transformers, kind)
    model = adapted(bases[name], PFEIFFER, auto)
    before, weights = states(model), trainable_parameters(model)
    save(model, PFEIFFER, bases[name], tmp_path / "out")
    again = open_adapted(tmp_path / "out", auto)
    headless = open_adapted(tmp_path / "out", transformers.AutoModel)
    assert torch.equal(states(again), before)
    assert torch.equal(states(headless), states(model.base_model))
    inside = [n for n, p in again.base_model.named_parameters() if p.requires_grad]
    assert len(inside) == len(weights)


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


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.shard", True),
        ("adapter.save", "merged"),
        ("then_task.on", True),
        ("model.new_head", True),
    ],
)
def test_what_needs_the_models_own_weights_is_refused(setting, value):
    plan = AdaptPlan().with_value("model.name", "m").with_value("adapter.kind", "pfeiffer")
    with pytest.raises(UsageError, match=re.escape(setting)):
        plan.with_value(setting, value).check()


@pytest.fixture
def given(tiny_lm, jsonl, inline):
    """Arguments of an adaptation."""
    text = ["The kinase binds the receptor at the membrane of the cell."] * 60
    return {
        "model": str(tiny_lm),
        "data": jsonl("data.jsonl", text),
        "adapter": "pfeiffer",
        "max_steps": 2,
        "batch": 2,
        "length": 32,
        "machine": inline,
        "settings": ["train.device=cpu", "train.precision=fp32"],
    }


def test_a_model_without_a_place_is_refused_before_its_texts_are_read(given, tiny_gpt2, tmp_path):
    shutil.copytree(tiny_gpt2, tmp_path / "experts")
    tokens = json.loads((tmp_path / "experts/config.json").read_text())["vocab_size"]
    more = {**NO_PLACE["Mixtral"], "vocab_size": tokens}
    build("Mixtral", more).save_pretrained(tmp_path / "experts")
    words = {**given, "model": str(tmp_path / "experts"), "objective": "causal"}
    with pytest.raises(ModelError, match="pfeiffer"):
        estimate_adaptation(**words)


def test_against_an_adapters_folder_the_base_trains_such_an_adapter(
    given, tiny_lm, task, tmp_path, inline
):
    folder = corpusfit.adapt(**given, out=tmp_path / "adapter").path
    words = {
        "task": task,
        "seeds": 1,
        "machine": inline,
        "settings": ["task.kind=classification", "finetune.epochs=2", "finetune.device=cpu"],
    }
    run = corpusfit.evaluate(model=folder, base=tiny_lm, out=tmp_path / "both", **words)
    ours, base = (outcome for role in ("model", "base") for outcome in run.outcomes(role))
    assert ours.tune == base.tune
    assert base.tune["adapter"]
    assert run.manifest["models"]["base"]["adapter"] == "pfeiffer"
    alone = corpusfit.evaluate(model=tiny_lm, adapter="pfeiffer", out=tmp_path / "alone", **words)
    assert alone.outcomes()[0].predicted == base.predicted
