"""Logits at selected positions, against the loss that transformers computes from labels."""

import pytest
import torch
import transformers as tf
from shapes import CAUSAL, ENDS, MASKED, NO_SDPA, SHARED, WIDE, V, model_of
from torch.nn.functional import cross_entropy

from corpusfit.embed.prediction import Predictor, attend_at

ROWS, LENGTH = 3, 24


def batch():
    chance = torch.Generator().manual_seed(1)
    ids = torch.randint(5, V, (ROWS, LENGTH), generator=chance)
    at = torch.randperm(ROWS * LENGTH, generator=chance)[:11].sort().values
    return ids, at


def labels_at(ids, at):
    labels = torch.full_like(ids, -100)
    labels.view(-1)[at] = ids.view(-1)[at]
    return labels


def gradients(model):
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", sorted(MASKED))
def test_a_masked_loss_is_that_of_transformers(name, attention):
    if attention == "sdpa" and name in NO_SDPA:
        attention = "eager"
    model = model_of(name, attention)
    ids, at = batch()
    seen = torch.ones_like(ids)
    seen[1, 20:] = 0
    theirs = model(input_ids=ids, attention_mask=seen, labels=labels_at(ids, at)).loss
    theirs.backward()
    wanted = gradients(model)
    model.zero_grad()
    predictor = Predictor(model)
    logits = predictor.logits(model, {"input_ids": ids, "attention_mask": seen}, at)
    ours = cross_entropy(logits, ids.view(-1)[at])
    ours.backward()
    assert predictor.hooked
    assert logits.shape == (len(at), V)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert wanted
    largest = max(float(g.abs().max()) for g in wanted.values())
    for parameter, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, wanted[parameter], rtol=1e-3, atol=1e-5 * largest)


def assert_the_loss_is_that_of_transformers(model, predictor):
    """The next token's loss, and the gradient of every weight."""
    ids, _ = batch()
    theirs = model(input_ids=ids, labels=ids).loss
    theirs.backward()
    wanted = gradients(model)
    model.zero_grad()
    at = torch.arange(ROWS * LENGTH).view(ROWS, LENGTH)[:, :-1].flatten()
    each = torch.full((len(at),), 1 / len(at))
    ours = predictor.loss(model, {"input_ids": ids}, at, ids[:, 1:].flatten(), each)
    ours.backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    found = gradients(model)
    assert found.keys() == wanted.keys()
    largest = max(float(g.abs().max()) for g in wanted.values())
    for parameter, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[parameter], rtol=1e-3, atol=1e-5 * largest)


@pytest.mark.parametrize("name", sorted(CAUSAL))
def test_a_causal_loss_is_that_of_transformers(name):
    model = model_of(name)
    predictor = Predictor(model)
    assert predictor.hooked
    assert predictor.matrix is model.get_output_embeddings()
    assert_the_loss_is_that_of_transformers(model, predictor)


@pytest.mark.parametrize(
    "config",
    [
        tf.Gemma2Config(**SHARED, head_dim=16, final_logit_softcapping=0.5, **ENDS),
        tf.CohereConfig(**SHARED, logit_scale=0.3, **ENDS),
    ],
)
def test_logits_that_are_more_than_a_product_are_computed_by_the_model(config):
    """Capped, and scaled."""
    torch.manual_seed(0)
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    predictor = Predictor(model)
    assert predictor.hooked
    assert predictor.matrix is None
    assert_the_loss_is_that_of_transformers(model, predictor)


def test_a_head_with_an_adapter_is_computed_by_the_model():
    peft = pytest.importorskip("peft")
    model = model_of("llama")
    predictor = Predictor(model)
    settings = peft.LoraConfig(target_modules=["lm_head"], init_lora_weights=False)
    peft.inject_adapter_in_model(settings, model)
    assert predictor.matrix is not None
    assert_the_loss_is_that_of_transformers(model, predictor)


@pytest.mark.parametrize("kind", [tf.BertConfig, tf.MegatronBertConfig])
def test_both_outputs_of_a_next_sentence_model(kind):
    torch.manual_seed(0)
    model = tf.AutoModelForPreTraining.from_config(kind(**WIDE)).eval()
    ids, at = batch()
    types = (torch.arange(LENGTH) > 10).long().expand(ROWS, LENGTH)
    follows = torch.tensor([0, 1, 1])
    inputs = {"input_ids": ids, "token_type_ids": types}
    labels = labels_at(ids, at)
    theirs = model(**inputs, labels=labels, next_sentence_label=follows).loss
    predictor = Predictor(model)
    assert not predictor.early  # the pooler reads the first token of each row
    logits, next_sentence = predictor.pair(model, inputs, at)
    assert next_sentence.shape == (ROWS, 2)
    ours = cross_entropy(logits, ids.view(-1)[at]) + cross_entropy(next_sentence, follows)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)


EARLY = {
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), "attention"),
    "deberta-v2": "layer",
}


@pytest.mark.parametrize("name", sorted(MASKED))
def test_a_last_layer_like_berts_computes_the_selected_positions_only(name):
    model = model_of(name)
    predictor = Predictor(model)
    assert predictor.early == EARLY.get(name, "")
    if not predictor.early:
        return
    seen = []
    for layer in model.base_model.encoder.layer:
        for part in (layer.attention.output, layer.intermediate):
            part.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[:2]))
    ids, at = batch()
    predictor.logits(model, {"input_ids": ids}, at)
    assert seen == [(ROWS, LENGTH)] * 2 + [(1, len(at))] * 2


@pytest.mark.parametrize("kind", [bool, float])
@pytest.mark.parametrize("shape", [(ROWS, 1, LENGTH, LENGTH), (1, 2, LENGTH, LENGTH), (ROWS, 1, 1, LENGTH)])  # fmt: skip  # noqa: E501
def test_attention_of_some_tokens_is_that_of_all(shape, kind):
    part = model_of("bert", "sdpa").base_model.encoder.layer[-1].attention.self
    chance = torch.Generator().manual_seed(2)
    states = torch.randn(ROWS, LENGTH, 32, generator=chance)
    mask = torch.rand(shape, generator=chance) < 0.7
    mask[..., 0] = True
    if kind is float:
        mask = torch.where(mask, 0.0, -1e9)
    at = torch.tensor([70, 3, 4, 25, 0, 24])  # 3, 2 and 1 of the three rows
    found = attend_at(part, states, mask, at)
    torch.testing.assert_close(found, part(states, mask)[0].flatten(0, 1)[at])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_an_encoder_configured_as_a_decoder_stays_causal(attention):
    torch.manual_seed(0)
    config = tf.BertConfig(**WIDE, is_decoder=True, initializer_range=0.3)
    model = tf.BertLMHeadModel._from_config(config, attn_implementation=attention).eval()
    ids, at = batch()
    predictor = Predictor(model)
    assert predictor.early == "layer"
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    own = model(**inputs).logits.flatten(0, 1)[at]
    torch.testing.assert_close(predictor.logits(model, inputs, at), own)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_in_bf16_the_error_is_that_of_the_whole_layer(attention):
    model = model_of("bert", attention)
    ids, at = batch()
    seen = torch.ones_like(ids)
    seen[1, 20:] = 0
    at = at[(at < LENGTH + 20) | (at >= 2 * LENGTH)]
    inputs = {"input_ids": ids, "attention_mask": seen}
    exact = model(**inputs).logits.flatten(0, 1)[at]
    predictor = Predictor(model)
    assert predictor.early == "attention"
    with torch.autocast("cpu", torch.bfloat16):
        whole = model(**inputs).logits.flatten(0, 1)[at]
        some = predictor.logits(model, inputs, at)
    assert (some - exact).abs().mean() < 1.5 * (whole - exact).abs().mean()


@pytest.mark.parametrize("length", [22, 24])
def test_rows_that_a_model_pads(length):
    torch.manual_seed(0)
    model = tf.LongformerForMaskedLM(tf.LongformerConfig(**WIDE, attention_window=8)).eval()
    ids = batch()[0][:, :length]
    own = model(input_ids=ids).logits.flatten(0, 1)
    at = torch.tensor([1, 2 * length + 3])
    found = Predictor(model).logits(model, {"input_ids": ids}, at)
    torch.testing.assert_close(found, own[at], rtol=1e-4, atol=1e-4)


class MixesPositions(tf.BertForMaskedLM):
    """A model whose head mixes positions."""

    def forward(self, input_ids, **more):
        out = super().forward(input_ids=input_ids, **more)
        out.logits = out.logits + out.logits.mean(1, keepdim=True)
        return out


def test_a_head_that_needs_all_positions_gets_them():
    torch.manual_seed(0)
    model = MixesPositions(tf.BertConfig(**WIDE)).eval()
    ids, at = batch()
    own = model(input_ids=ids).logits.flatten(0, 1)[at]
    predictor = Predictor(model)
    assert not predictor.hooked
    torch.testing.assert_close(predictor.logits(model, {"input_ids": ids}, at), own)


class Wrapped(torch.nn.Module):
    """A wrapper like DistributedDataParallel."""

    def __init__(self, model):
        super().__init__()
        self.module = model

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def test_a_wrapper_around_the_model_reaches_the_hook():
    model = model_of("bert")
    ids, at = batch()
    predictor = Predictor(model)
    through = predictor.logits(Wrapped(model), {"input_ids": ids}, at)
    assert through.shape == (len(at), V)
    torch.testing.assert_close(through, model(input_ids=ids).logits.flatten(0, 1)[at])


def test_no_position_at_all():
    model = model_of("bert")
    ids, _ = batch()
    logits = Predictor(model).logits(model, {"input_ids": ids}, torch.empty(0, dtype=torch.int64))
    assert logits.shape == (0, V)
