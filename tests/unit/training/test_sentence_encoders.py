"""Sentence encoders: the loss of TSDAE, deleted words, poolings, models with decoders."""

import dataclasses
import json
import shutil
from collections import Counter

import numpy as np
import pytest

from adapting import (
    BERT_MARKS,
    Stopped,
    Stopping,
    sentence_encoder_of,
    training_of,
    weights_of,
)
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.embed.folders import Pooling, read_pooling, write_pooling
from corpusfit.kernels.chance import place_keys
from corpusfit.training.batches import Feed
from corpusfit.training.objectives import objective
from corpusfit.training.plan import AdaptPlan, ModelPlan, ObjectivePlan
from corpusfit.training.trainer import TrainingListener, TrainingLoop

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from shapes import CAUSAL, MASKED  # noqa: E402

from corpusfit.training.models import MODEL, open_model  # noqa: E402
from corpusfit.training.stepping import train  # noqa: E402


def first_batch(work):
    loop = TrainingLoop(work, TrainingListener())
    return loop, loop.batch(Feed(work.passes), 0)


def kept(delete, ids, n):
    """How often each set of places of a text stays, over n keys."""
    aim = objective(ObjectivePlan("tsdae", delete=delete), BERT_MARKS)
    keys = place_keys(0, 0, n)
    return Counter(
        tuple(np.flatnonzero(aim.surviving(np.array(ids), int(k))).tolist()) for k in keys
    )


@pytest.mark.slow
def test_words_are_deleted_with_the_asked_probability():
    """Two words of one and two tokens: 7 begins a word, 8 too, 9 (divisible by 3) goes on."""
    found, n = kept(0.6, [7, 8, 9], 5_000), 5_000
    expected = {(0, 1, 2): 0.4 * 0.4, (0,): 0.4 * 0.6 + 0.6**2 / 2, (1, 2): 0.6 * 0.4 + 0.6**2 / 2}
    assert set(found) == set(expected)
    for places, share in expected.items():  # within four standard deviations
        assert abs(found[places] / n - share) < 4 * (share * (1 - share) / n) ** 0.5
    assert kept(0.9, [7], 50) == {(0,): 50}
    assert kept(0.9, [9, 12], 50) == {(0, 1): 50}  # a text that begins inside a word


def test_without_marks_of_words_each_token_is_one():
    aim = objective(ObjectivePlan("tsdae"), dataclasses.replace(BERT_MARKS, begins=None))
    found = [aim.surviving(np.array([7, 9, 12]), int(k)).tolist() for k in place_keys(0, 0, 200)]
    assert {tuple(places) for places in found} == {
        *((a, b, c) for a in (True, False) for b in (True, False) for c in (True, False))
    } - {(False,) * 3}


@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_tsdaes_loss_is_that_of_transformers_decoder_text_by_text(tmp_path, mode):
    """Each text alone, without padding: its pooled vector, then the decoder's own cross-entropy."""
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=64, initializer_range=0.2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = sentence_encoder_of(config, mode)
    weights = np.linspace(0.1, 2, 60)
    work = training_of(tmp_path, "tsdae", model=model, weights=weights, micro_rows=3, batch=6)
    assert work.network.predictor.hooked
    loop, batch = first_batch(work)
    assert len(batch.micros) == 2
    keys = place_keys(work.seed, 0, 6)
    expected, tokens = 0.0, 0
    for row, key in zip(batch.rows, keys, strict=True):
        ids = work.chunk_tokens.ids(int(row[0]))
        left = ids[work.objective.surviving(ids, int(key))]
        noisy, whole = (torch.tensor([[2, *map(int, some), 3]]) for some in (left, ids))
        states = model.encoder(noisy).last_hidden_state
        vector = states[:, :1] if mode == "cls" else states.mean(1, keepdim=True)
        logits = model.decoder(whole[:, :-1], encoder_hidden_states=vector).logits
        loss = torch.nn.functional.cross_entropy(logits[0], whole[0, 1:], reduction="sum")
        expected = expected + loss * float(work.chunk_tokens.scale[int(row[0])])
        tokens += whole.shape[1] - 1
    expected = expected / tokens
    expected.backward()
    wanted = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    assert float(loop.gradient(batch)) == pytest.approx(float(expected.detach()), rel=1e-5)
    for name, parameter in model.named_parameters():
        if name in wanted:
            assert torch.allclose(parameter.grad, wanted[name], atol=1e-5), name


def test_encoder_and_decoder_have_the_same_weights_after_training(tmp_path):
    work = training_of(tmp_path, "tsdae", max_steps=2)
    before = weights_of(work)
    train(work, TrainingListener())
    model = work.network.predictor.model
    decoder = dict(model.decoder.base_model.named_parameters())
    changed = 0
    for name, weight in model.encoder.named_parameters():
        assert weight is decoder[name]
        changed += not torch.equal(weight, before[f"encoder.{name}"])
    assert changed > 20
    assert any("crossattention" in name for name in decoder)


def test_heldout_losses_have_fixed_noise(tmp_path):
    """Measured twice with other random states."""
    work = training_of(tmp_path, "tsdae", dropout=0.2)
    torch.manual_seed(1)
    first = work.heldout.losses(work.objective, work.network)
    torch.manual_seed(2)
    assert work.heldout.losses(work.objective, work.network) == first
    assert not work.network.predictor.model.training
    assert 0.01 < first["task"] < 20


@pytest.mark.slow
def test_training_lowers_the_heldout_loss_and_resumes_exactly(tmp_path):
    words = {"dropout": 0.1, "max_steps": 24, "batch": 8, "checkpoint_minutes": 1e-9}
    whole = training_of(tmp_path / "whole", "tsdae", **words)
    history = train(whole, TrainingListener())
    measured = [record["heldout"]["task"] for record in history if "heldout" in record]
    assert measured[-1] < measured[0]
    stopped = training_of(tmp_path / "stopped", "tsdae", **words)
    with pytest.raises(Stopped):
        train(stopped, Stopping(after=9))
    assert stopped.checkpoints.newest(print).step == 8
    again = training_of(tmp_path / "stopped", "tsdae", **words)
    train(again, TrainingListener())
    expected, found = weights_of(whole), weights_of(again)
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


def opening(folder, name, **model):
    plan = ModelPlan(str(folder), **model)
    return open_model(plan, name, attention="eager", seed=0, on_warn=pytest.fail).model


def changed(folder, out, **config):
    """A copy of a model folder with other values in its config.json."""
    shutil.copytree(folder, out)
    path = out / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | config), "utf-8")
    return out


def test_what_the_decoder_does_not_share_is_new_and_by_the_seed(tiny_lm, tiny_encoder):
    """With a masked-LM head in the files the decoder has it; cross-attention is always new."""
    files = load_file(tiny_lm / "model.safetensors")
    one, other = (opening(tiny_lm, "tsdae") for _ in range(2))
    state, same = one.state_dict(), other.state_dict()
    assert all(torch.equal(state[name], same[name]) for name in state)
    head = "cls.predictions.transform.dense.weight"
    assert torch.equal(state[f"decoder.{head}"], files[head])
    for name, weight in one.encoder.state_dict().items():
        assert torch.equal(weight, files[f"bert.{name}"])
    new = [name for name in state if "crossattention" in name]
    assert len(new) == 2 * 10  # four maps and a norm in each of two layers, with biases
    assert opening(tiny_encoder, "tsdae").decodes()


def test_a_pooler_is_not_trained(tiny_encoder, tmp_path):
    model = opening(tiny_encoder, "tsdae")
    assert "encoder.pooler.dense.weight" in model.state_dict()
    assert not any("pooler" in n for n, p in model.named_parameters() if p.requires_grad)
    without = tmp_path / "without"
    shutil.copytree(tiny_encoder, without)
    weights = load_file(without / "model.safetensors")
    kept = {name: w for name, w in weights.items() if "pooler" not in name}
    save_file(kept, without / "model.safetensors", {"format": "pt"})
    assert opening(without, "tsdae").encoder.pooler is None


DECODERS = {"bert", "roberta", "xlm-roberta", "camembert", "electra", "big_bird"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["bert", "distilbert", "llama"]
    + [pytest.param(n, marks=pytest.mark.long) for n in MASKED if n not in ("bert", "distilbert")],
)
def test_architectures_without_a_decoder_are_refused(name, tiny_encoder, tmp_path):
    """Cross-attention that is not there, or that the configuration does not turn on."""
    torch.manual_seed(0)
    config = {**MASKED, **CAUSAL}[name]()
    config.vocab_size = json.loads((tiny_encoder / "config.json").read_text("utf-8"))["vocab_size"]
    folder = tmp_path / name
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    for file in tiny_encoder.glob("tokenizer*"):
        shutil.copy(file, folder)
    if name in DECODERS:
        assert opening(folder, "tsdae").decodes()
        return
    with pytest.raises(ModelError, match="decoder") as error:
        opening(folder, "tsdae")
    assert "objective.name=mlm" in str(error.value)


LAYOUT = [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def layout(folder, pooling, *more):
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling), "utf-8")
    modules = [*LAYOUT, *({"path": "x", "type": f"a.b.{kind}"} for kind in more)]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    return folder


def test_the_pooling_is_that_of_the_folder(tmp_path):
    """In the form of sentence-transformers 6 and in the older one."""
    assert read_pooling(tmp_path, "", MODEL) == Pooling("mean", False, 0)
    new = layout(tmp_path / "new", {"pooling_mode": "cls", "embedding_dimension": 32}, "Normalize")
    (new / "sentence_bert_config.json").write_text('{"max_seq_length": 48}', "utf-8")
    assert read_pooling(new, "", MODEL) == Pooling("cls", True, 48)
    assert read_pooling(new, "mean", MODEL) == Pooling("mean", True, 48)
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    old = layout(tmp_path / "old", {"word_embedding_dimension": 32, **flags})
    assert read_pooling(old, "", MODEL) == Pooling("cls", False, 0)
    write_pooling(tmp_path / "written", Pooling("cls", True, 48), 32)
    assert read_pooling(tmp_path / "written", "", MODEL) == Pooling("cls", True, 48)


def test_prompts_are_kept(tmp_path):
    """sentence-transformers puts the prompt of a query before it; without one it says nothing."""
    stated = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    file = layout(tmp_path, {"pooling_mode": "cls"}) / "config_sentence_transformers.json"
    file.write_text(json.dumps({**stated, "__version__": {"pytorch": "1"}}), "utf-8")
    write_pooling(tmp_path / "written", read_pooling(tmp_path, "", MODEL), 32)
    assert json.loads((tmp_path / "written" / file.name).read_text("utf-8")) == stated


def test_other_poolings_and_modules_are_refused(tmp_path):
    largest = layout(tmp_path / "max", {"pooling_mode_max_tokens": True})
    with pytest.raises(ModelError, match="max"):
        read_pooling(largest, "", MODEL)
    assert read_pooling(largest, "mean", MODEL).mode == "mean"
    with pytest.raises(ModelError, match="max"):
        read_pooling(layout(tmp_path / "two", {"pooling_mode": ["mean", "max"]}), "", MODEL)
    with pytest.raises(ModelError, match="Dense"):
        read_pooling(layout(tmp_path / "dense", {"pooling_mode": "mean"}, "Dense"), "mean", MODEL)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["model.name=", "model.init=tiny"], "model.init"),
        (["adapter.kind=lora"], "adapter.kind"),
        (["objective.name=mlm", "model.pooling=cls"], "model.pooling"),
        (["objective.whole_word=true"], "objective.whole_word"),
    ],
)
def test_settings_that_do_not_suit_are_refused(settings, named):
    plan = AdaptPlan().with_overrides(["model.name=m", "objective.name=tsdae"])
    assert plan.check() == plan
    with pytest.raises(UsageError, match=named):
        plan.with_overrides(settings).check()


def test_the_deleted_share_of_a_long_text_is_the_asked_one():
    words = [7] * 200
    found = kept(0.3, words, 200)
    assert sum(len(places) * times for places, times in found.items()) / (200 * 200) == (
        pytest.approx(0.7, abs=0.01)
    )
