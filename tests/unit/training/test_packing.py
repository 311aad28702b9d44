"""Packed chunks against the same chunks padded, each in its own row."""

from itertools import pairwise

import pytest
import torch
import transformers as tf
from shapes import CAUSAL, MASKED, NO_SDPA, V, model_of, special_tokens_for
from torch.nn.functional import cross_entropy
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from corpusfit.embed.prediction import Predictor
from corpusfit.training import attention
from corpusfit.training.packing import block_mask, find_packing

LENGTH = 96
SIZES = [(50, 30, 12), (71, 24)]  # the chunks of two rows; padding fills up the second
NEVER = {"deberta-v2", "mobilebert", "bloom", "mistral"}
WITHOUT_VARLEN = {"big_bird", "bloom", "deberta-v2", "mobilebert", "mpnet"}
CASES = [
    (name, attention)
    for name in sorted({**MASKED, **CAUSAL})
    for attention in ("eager", "sdpa")
    if not (attention == "sdpa" and name in NO_SDPA)
]


def rows():
    """Token ids and chunk numbers of packed rows."""
    rng = torch.Generator().manual_seed(3)
    ids = torch.zeros(len(SIZES), LENGTH, dtype=torch.int64)
    chunks = torch.full_like(ids, -1)
    for r, sizes in enumerate(SIZES):
        end = 0
        for number, size in enumerate(sizes):
            ids[r, end : end + size] = torch.randint(5, V, (size,), generator=rng)
            chunks[r, end : end + size] = number
            end += size
    return ids, chunks


def padded(ids, chunks, pad):
    """Each chunk in its own row, and the padding mask."""
    alone = [ids[r][chunks[r] == c] for r, s in enumerate(SIZES) for c in range(len(s))]
    out = torch.full((len(alone), max(map(len, alone))), pad)
    seen = torch.zeros_like(out)
    for r, text in enumerate(alone):
        out[r, : len(text)], seen[r, : len(text)] = text, 1
    return out, seen


def loss_and_gradients(predictor, inputs, real):
    model = predictor.model
    model.zero_grad()
    at = real.flatten().nonzero()[:, 0]
    logits = predictor.logits(model, inputs, at)
    loss = cross_entropy(logits, inputs["input_ids"].flatten()[at])
    loss.backward()
    grads = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return loss.item(), grads


@pytest.mark.parametrize(("name", "attention"), CASES)
def test_packed_equals_padded_or_packing_is_refused(name, attention):
    model = model_of(name, attention)
    predictor = Predictor(model)
    packing = find_packing(predictor, special_tokens_for(name), LENGTH, causal=name in CAUSAL)
    assert (packing is None) == (name in NEVER)
    if packing is None:
        return
    ids, chunks = rows()
    texts, seen = padded(ids, chunks, model.config.pad_token_id or 0)
    one = {"input_ids": texts, "attention_mask": seen}
    wanted, theirs = loss_and_gradients(predictor, one, seen)
    together = packing.inputs(ids, chunks, torch.float32)
    loss, ours = loss_and_gradients(predictor, together, chunks >= 0)
    assert loss == pytest.approx(wanted, rel=1e-5)
    largest = max(float(g.abs().max()) for g in theirs.values())
    for parameter, gradient in theirs.items():
        torch.testing.assert_close(ours[parameter], gradient, rtol=1e-3, atol=1e-5 * largest)


@pytest.fixture(scope="module")
def varlen():
    """The name of an attention that takes the lengths of chunks, as flash attention does."""

    def attend(module, query, key, value, mask, *, cu_seq_lens_q=None, is_causal=None, **more):
        assert mask is None
        causal = module.is_causal if is_causal is None else is_causal
        ends = [0, query.shape[2]] if cu_seq_lens_q is None else cu_seq_lens_q.tolist()
        groups = query.shape[1] // key.shape[1]
        window, parts = more.get("sliding_window"), []
        for begin, end in pairwise(ends):
            q, k, v = (states[:, :, begin:end] for states in (query, key, value))
            k, v = (states.repeat_interleave(groups, 1) for states in (k, v))
            at = torch.arange(end - begin)
            back = at[:, None] - at
            seen = (back >= 0) if causal else torch.ones_like(back, dtype=torch.bool)
            if window:
                seen &= (back < window) if causal else (back.abs() < window)
            parts.append(
                torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=seen, scale=more.get("scaling")
                ).transpose(1, 2)
            )
        return torch.cat(parts, 1), None

    tf.AttentionInterface.register("varlen", attend)
    tf.AttentionMaskInterface.register("varlen", ALL_MASK_ATTENTION_FUNCTIONS["flash_attention_2"])
    return "varlen"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        *((name, False) for name in sorted({**MASKED, **CAUSAL})),
        *((name, True) for name in sorted(CAUSAL)),
    ],
)
def test_lengths_of_chunks_instead_of_a_mask_equal_padded_rows(name, own, varlen, monkeypatch):
    """What a varlen kernel of a GPU is given, by an imitation on the CPU, and our own, in fp32."""
    if own:
        varlen = attention.register()
        monkeypatch.setattr(attention, "_BLOCK", 16)  # shorter than chunks
    model = model_of(name, "eager" if name in NO_SDPA else "sdpa")
    before = model.config._attn_implementation
    predictor = Predictor(model)
    packing = find_packing(
        predictor, special_tokens_for(name), LENGTH, causal=name in CAUSAL, kernels=[varlen]
    )
    flat = packing is not None and packing.form == "flat"
    assert flat == (name not in WITHOUT_VARLEN)
    assert model.config._attn_implementation == (varlen if flat else before)
    if not flat:
        return
    ids, chunks = rows()
    inputs = packing.inputs(ids, chunks, torch.float32)
    assert inputs["max_length_q"] == max(map(max, SIZES))
    assert "attention_mask" not in inputs
    loss, ours = loss_and_gradients(predictor, inputs, (chunks >= 0).reshape(1, -1))
    model.set_attn_implementation(before)
    texts, seen = padded(ids, chunks, model.config.pad_token_id or 0)
    one = {"input_ids": texts, "attention_mask": seen}
    wanted, theirs = loss_and_gradients(predictor, one, seen)
    assert loss == pytest.approx(wanted, rel=1e-5)
    largest = max(float(g.abs().max()) for g in theirs.values())
    for parameter, gradient in theirs.items():
        torch.testing.assert_close(ours[parameter], gradient, rtol=1e-3, atol=1e-5 * largest)


def heads(length, dtype):
    """Random queries of 4 heads, and keys and values of 2, for two rows."""
    rng = torch.Generator().manual_seed(0)
    made = (torch.randn(2, n, length, 8, generator=rng, dtype=dtype) for n in (4, 2, 2))
    return [states.requires_grad_() for states in made]


@pytest.mark.parametrize("length", [1, 127, 128, 300])
@pytest.mark.parametrize("window", [None, 5, 200])
def test_blocks_of_attention_equal_torch(length, window):
    """Outputs and gradients of scaled_dot_product_attention, in float64."""
    attention.register()
    states, layer = heads(length, torch.float64), torch.nn.Module()
    layer.is_causal, layer.num_key_value_groups = True, 2
    out, _ = attention.attend(layer, *states, None, scaling=0.3, sliding_window=window)
    back = torch.arange(length)[:, None] - torch.arange(length)
    seen = (back >= 0) & (back < (window or length))
    exact = torch.nn.functional.scaled_dot_product_attention(
        *states, attn_mask=seen, scale=0.3, enable_gqa=True
    ).transpose(1, 2)
    torch.testing.assert_close(out, exact)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).double()
    ours = torch.autograd.grad((out * weights).sum(), states)
    theirs = torch.autograd.grad((exact * weights).sum(), states)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_dropout_of_attention_has_the_gradient_of_what_it_kept():
    """Against finite differences, with the same draw for each."""
    states, layer = heads(5, torch.float64), torch.nn.Module()
    layer.is_causal = True

    def attend(*states):
        torch.manual_seed(0)
        return attention.attend(layer, *states, None, dropout=0.5)[0]

    assert (attend(*states) != attention.attend(layer, *states, None)[0]).any()
    assert torch.autograd.gradcheck(attend, states, fast_mode=True)


def test_a_decoder_generates_with_blocks_of_attention():
    """As a user's callback may do while a model is trained; padded rows, too."""
    model = model_of("llama", "sdpa")
    ids, seen = padded(*rows(), 0)
    ids, seen = ids.flip(1), seen.flip(1)  # what is generated follows the text
    wanted = model.generate(ids, attention_mask=seen, max_new_tokens=5, do_sample=False)
    alone = model.generate(ids[:1], max_new_tokens=5, do_sample=False)
    model.set_attn_implementation(attention.register())
    found = model.generate(ids, attention_mask=seen, max_new_tokens=5, do_sample=False)
    assert torch.equal(found, wanted)
    assert torch.equal(model.generate(ids[:1], max_new_tokens=5, do_sample=False), alone)


@pytest.mark.parametrize("more", [{"softcap": 5.0}, {"s_aux": torch.ones(4)}, {"is_causal": False}])
def test_other_attention_is_left_to_transformers(more):
    layer = torch.nn.Module()
    layer.is_causal = True
    with pytest.raises(NotImplementedError):
        attention.attend(layer, *heads(5, torch.float32), None, **more)


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_positions_that_begin_after_the_padding_index(name):
    packing = find_packing(
        Predictor(model_of(name)), special_tokens_for(name), LENGTH, causal=False
    )
    assert packing.positions == 2
    chunks = torch.tensor([[0, 0, 0, 1, 1, -1, -1]])
    got = packing.inputs(chunks, chunks, torch.float32)["position_ids"]
    assert got.tolist() == [[2, 3, 4, 2, 3, 2, 3]]


@pytest.mark.parametrize("name", ["modernbert", "gemma3", "mistral"])
def test_a_window_counts_where_rows_are_longer_than_it(name):
    predictor, special, causal = Predictor(model_of(name)), special_tokens_for(name), name in CAUSAL
    long = find_packing(predictor, special, LENGTH, causal=causal)
    short = find_packing(predictor, special, 9, causal=causal)
    if name not in NEVER:
        assert long.window == {"modernbert": 8, "gemma3": 16}[name]
    assert short.window == 0


class IgnoresMask(tf.BertForMaskedLM):
    """Accepts an attention mask and ignores it."""

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return super().forward(input_ids=input_ids, position_ids=position_ids)


@pytest.mark.parametrize("kind", [tf.BertForMaskedLM, IgnoresMask])
def test_weights_near_zero_do_not_hide_a_leak(kind):
    """Before training, attention to another chunk may hardly change the logits."""
    torch.manual_seed(0)
    model = kind._from_config(MASKED["bert"](), attn_implementation="eager").eval()
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.output.dense.weight.mul_(1e-2)
    packing = find_packing(Predictor(model), special_tokens_for("bert"), LENGTH, causal=False)
    assert (packing is None) == (kind is IgnoresMask)


@pytest.mark.parametrize("length", [1, 5, 8])
def test_a_row_too_short_for_two_chunks(length):
    model = model_of("bert")
    assert find_packing(Predictor(model), special_tokens_for("bert"), length, causal=False) is None


def test_the_mask_is_blocks():
    chunks = torch.tensor([[0, 0, 1, -1, -1]])
    seen = block_mask(chunks, "boolean", torch.float32)
    expected = [[1, 1, 0, 0, 0]] * 2 + [[0, 0, 1, 0, 0]] + [[0, 0, 0, 1, 1]] * 2
    assert seen.shape == (1, 1, 5, 5)
    assert seen[0, 0].int().tolist() == expected
    added = block_mask(chunks, "additive", torch.bfloat16)
    assert added.dtype == torch.bfloat16
    assert torch.equal(added == 0, seen)
    assert (added[~seen] == torch.finfo(torch.bfloat16).min).all()


def test_a_causal_mask_and_windows():
    chunks = torch.zeros(1, 6, dtype=torch.int64)
    place = torch.arange(6)
    back = place[:, None] - place
    causal = block_mask(chunks, "boolean", torch.float32, causal=True)
    assert torch.equal(causal[0, 0], back >= 0)
    sliding = block_mask(chunks, "boolean", torch.float32, causal=True, window=2)
    assert torch.equal(sliding[0, 0], (back >= 0) & (back < 2))
    both = block_mask(chunks, "boolean", torch.float32, window=2)
    assert torch.equal(both[0, 0], back.abs() <= 2)
