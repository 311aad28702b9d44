"""Tiny random models of many architectures, by operation, against transformers and peft alone.

Each operation is right or is refused in a sentence that names a setting; nothing else passes. All
weights are random, biases and padding rows too, so that a wrong sum shows. A few run in the loop,
all of them by `make long`.
"""

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import corpusfit as cf
from corpusfit.core.errors import ModelError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load
from corpusfit.embed.prediction import Predictor, relative_difference
from corpusfit.evaluation.encoding import NOWHERE, Encoded
from corpusfit.evaluation.probing import _word_states
from corpusfit.training.adapter import add_adapter, open_adapted, save_adapter, trainable_parameters
from corpusfit.training.batches import PADDING
from corpusfit.training.contract import Base, Network
from corpusfit.training.models import (
    add_words,
    find_new_words,
    fingerprint,
    open_model,
    save_model,
)
from corpusfit.training.packing import find_packing
from corpusfit.training.plan import AdapterPlan, ModelPlan

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
FEW = {**SIZES, "embedding_size": 16}
UNTIED = {**SIZES, "tie_word_embeddings": False}
DEBERTA = {**SIZES, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
XLM = {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 66, "pad_index": 0}
XLM |= {"pad_token_id": 0}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 66}
LUKE = {"entity_vocab_size": 20, "entity_emb_size": 16}
MASKED = {
    "Bert": SIZES,
    "Bert untied": UNTIED,
    "Roberta": SIZES,
    "Roberta untied": UNTIED,
    "XLMRoberta": SIZES,
    "XLMRoberta untied": UNTIED,
    "MobileBert": {**FEW, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "Longformer": {**SIZES, "attention_window": [8, 8]},
    "Luke": {**SIZES, **LUKE},
    "Luke untied": {**UNTIED, **LUKE},
    "Esm": {**SIZES, "mask_token_id": 4, "emb_layer_norm_before": False},
    "IBert": SIZES,
    "DistilBert": DISTIL,
    "Albert": FEW,
    "Electra": FEW,
    "ModernBert": {**SIZES, "local_attention": 8, "cls_token_id": 2, "sep_token_id": 3},
    "MPNet": SIZES,
    "Deberta": DEBERTA,
    "DebertaV2": {**DEBERTA, "position_buckets": 16, "norm_rel_ebd": "layer_norm"},
    "RoFormer": FEW,
    "RoCBert": {**SIZES, "pronunciation_vocab_size": 80, "shape_vocab_size": 80},
    "XLMRobertaXL": SIZES,
    "MegatronBert": SIZES,
    "FNet": SIZES,
    "Nystromformer": SIZES,
    "RemBert": {**SIZES, "input_embedding_size": 16, "output_embedding_size": 16},
    "Data2VecText": SIZES,
    "ConvBert": FEW,
    "XLM": XLM,
    "Flaubert": XLM,
    "Funnel": {"d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 48, "block_sizes": [1, 1]},
    "Xmod": {**SIZES, "languages": ["en_XX"], "default_language": "en_XX"},
    "NomicBert": SIZES,
}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 8}
OLDER = {**SIZES, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 66, "rotary_dim": 4}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ROUTED = {**GROUPED, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1}
ROUTED |= {"first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
LATENT = {**ROUTED, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16}
LATENT |= {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
CAUSAL = {
    "GPT2": OLDER,
    "GPTJ": OLDER,
    "GPTNeoX": SIZES,
    "OPT": {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "Bloom": {**SIZES, "n_layer": 2, "n_head": 4},
    "Falcon": SIZES,
    "Mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 66},
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": 8},
    "Qwen2": GROUPED,
    "Qwen3": GROUPED,
    "Gemma": GROUPED,
    "Gemma2": GROUPED,
    "Gemma3Text": GROUPED,
    "Phi": GROUPED,
    "Phi3": GROUPED,
    "Cohere": GROUPED,
    "Olmo2": GROUPED,
    "StableLm": GROUPED,
    "Granite": GROUPED,
    "Mixtral": {**GROUPED, "num_local_experts": 4},
    "Qwen3Moe": {**GROUPED, **EXPERTS},
    "GptOss": {**GROUPED, "num_local_experts": 4, "sliding_window": 8},
    "DeepseekV2": {**LATENT, "topk_method": "greedy"},
    "DeepseekV3": LATENT,
    "Glm4Moe": ROUTED,
    "Ernie4_5_Moe": {**GROUPED, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16},
    "Afmoe": {**GROUPED, **EXPERTS, "num_shared_experts": 1, "num_dense_layers": 1},
    "Lfm2": {**GROUPED, "layer_types": ["conv", "full_attention"]},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
}
IN_THE_LOOP = {"Roberta untied", "MobileBert", "Esm", "GPT2", "Qwen3Moe"}
NO_LORA = {"IBert", "Mamba"}  # no linear layers; a layer that peft refuses
"""Where LoRA may be refused."""

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "the", "of"]
TEXTS = ["the assay of the motif", "a motif", "of the the assay the motif of a the assay of"]
TRIED = [
    pytest.param(name, marks=[] if name in IN_THE_LOOP else pytest.mark.long)
    for name in (*MASKED, *CAUSAL)
]
pytestmark = pytest.mark.slow


def auto(name):
    return tf.AutoModelForMaskedLM if name in MASKED else tf.AutoModelForCausalLM


def word_pieces():
    """A tokenizer for any of the models: its special tokens are the first five ids."""
    inside = [f"##{letter}" for letter in WORDS[5:31]]
    ids = {word: i for i, word in enumerate([*WORDS, *inside])}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    roles = {f"{role.lower()}_token": f"[{role}]" for role in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="[SEP]", **roles)


@pytest.fixture
def stored(request, tmp_path):
    """The name of an architecture, and a folder with a model of it."""
    name, tokenizer, folder = request.param, word_pieces(), tmp_path / "model"
    settings = MASKED.get(name) or CAUSAL[name]
    config = getattr(tf, f"{name.split()[0]}Config")(**{"vocab_size": len(tokenizer), **settings})
    torch.manual_seed(0)
    model = auto(name).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return name, folder


def opened(name, folder):
    objective = "mlm" if name in MASKED else "causal"
    plan = ModelPlan(name=str(folder))
    return open_model(plan, objective, attention="sdpa", seed=0, on_warn=pytest.fail)


def complete(kind, folder):
    """A model as transformers opens it, all of whose weights are in the folder."""
    model, found = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(found.values()), found
    return model.eval()


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0]


def close(found, expected):
    assert relative_difference(found, expected) < 1e-3


@pytest.mark.parametrize("stored", TRIED, indirect=True)
def test_the_logits_of_a_step_are_those_of_each_text_alone(stored):
    """In one row, if the model keeps texts apart, else in padded rows."""
    name, folder = stored
    found, alone = opened(name, folder), complete(auto(name), folder)
    first, second = [2, 9, 40, 12, 3], [2, 31, 7, 8, 50, 51, 3]
    predictor = Predictor(found.model)
    packing = find_packing(predictor, found.special, 32, causal=name in CAUSAL)
    network = Network(predictor, found.model, packing, "fp32")
    if packing:
        ids, chunks = torch.tensor([first + second]), torch.tensor([[0] * 5 + [1] * 7])
        expected = torch.cat([logits(alone, first), logits(alone, second)])
    else:  # padding, which some models do not mask, counts as in transformers
        ids, chunks = torch.tensor([[*first, 0, 0], second]), torch.zeros(2, 7, dtype=torch.int64)
        chunks[0, 5:] = PADDING
        with torch.no_grad():
            out = alone(input_ids=ids, attention_mask=(chunks != PADDING).long())
        expected = out.logits[chunks != PADDING]
    at = torch.nonzero(chunks.flatten() != PADDING).flatten()[1::2]
    with torch.no_grad():
        close(predictor.logits(found.model, network.inputs(ids, chunks), at), expected[1::2])


@pytest.mark.parametrize("stored", TRIED, indirect=True)
def test_what_is_adapted_opens(stored, tmp_path, jsonl):
    name, folder = stored
    data = jsonl("data.jsonl", TEXTS * 8)
    settings = [
        *(f"objective.name={'mlm' if name in MASKED else 'causal'}", "mix.heldout=4"),
        *("train.max_steps=2", "train.batch=4", "train.length=16", "train.precision=fp32"),
    ]
    run = cf.adapt(model=str(folder), data=[str(data)], out=tmp_path / "out", settings=settings)
    ids = [2, 9, 40, 12, 3]
    before, after = (logits(complete(auto(name), at), ids) for at in (folder, run.path))
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)
    tokenizers = [tf.AutoTokenizer.from_pretrained(at) for at in (folder, run.path)]
    first, again = ([tokenizer(text)["input_ids"] for text in TEXTS] for tokenizer in tokenizers)
    assert first == again
    tf.AutoModel.from_pretrained(run.path)


@pytest.mark.parametrize("stored", TRIED[: len(MASKED)], indirect=True)
def test_new_tokens_begin_as_the_mean_of_their_pieces_everywhere(stored, tmp_path):
    name, folder = stored
    found, alone = opened(name, folder), complete(auto(name), folder)
    new = find_new_words(TEXTS, found, 2)
    assert new.words == ("assay", "motif")
    first = len(found.tokenizer)
    larger = add_words(found, new, "mlm")
    save_model(larger.model, larger.tokenizer, tmp_path / "larger")
    again = complete(auto(name), tmp_path / "larger")
    ids = [2, 9, 40, 12, 3]
    before, after = logits(alone, ids), logits(again, ids)
    close(after[:, :first], before)
    # a head is linear in its rows, so that a new token's logit is the mean of its pieces'
    means = [before[:, list(pieces)].mean(1) for pieces in new.pieces]
    close(after[:, first : first + 2], torch.stack(means, 1))
    tokenizer = tf.AutoTokenizer.from_pretrained(tmp_path / "larger")
    read = tokenizer("the assay of")["input_ids"]
    assert first in read
    assert torch.isfinite(logits(again, read)).all()


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft reads it
# of experts beside dense layers, peft doubles the rank of merged matrices, also where there is none
@pytest.mark.filterwarnings(
    "ignore:The following (rank|alpha)_pattern keys did not match:RuntimeWarning"
)
@pytest.mark.parametrize("stored", TRIED, indirect=True)
def test_lora_is_what_peft_opens_or_is_refused(stored, tmp_path):
    from peft import PeftModel

    name, folder = stored
    found, plan = opened(name, folder), AdapterPlan(kind="lora", rank=4, alpha=8)
    ids = [2, 9, 40, 12, 3]
    refused = None
    try:
        add_adapter(found.model, plan, seed=3)
    except ModelError as e:
        refused = str(e)
    if refused:
        assert name in NO_LORA
        assert refused.startswith("`adapter` must be left out for this model")
        return
    weights = trainable_parameters(found.model).values()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in weights:
            weight.normal_(0, 0.1, generator=generator)
    found.model.train()
    found.model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.backward()
    assert any(weight.grad is not None for weight in weights)
    expected = logits(found.model.eval(), ids)
    base = Base(str(folder), fingerprint(folder))
    save_adapter(found.model, found.tokenizer, plan, base, tmp_path / "apart")
    close(logits(open_adapted(tmp_path / "apart", auto(name)).eval(), ids), expected)
    if name in CAUSAL:
        under = PeftModel.from_pretrained(complete(auto(name), folder), tmp_path / "apart")
        close(logits(under.eval(), ids), expected)
    merged = AdapterPlan(kind="lora", rank=4, alpha=8, save="merged")
    save_adapter(found.model, found.tokenizer, merged, base, tmp_path / "merged")
    close(logits(complete(auto(name), tmp_path / "merged"), ids), expected)


@pytest.mark.parametrize("stored", TRIED, indirect=True)
def test_embeddings_and_states_of_words_are_those_of_each_text_alone(stored):
    _, folder = stored
    plan = EmbedPlan(str(folder), precision="fp32", device="cpu", unit_length=False)
    encoder = load(plan)
    alone = tf.AutoModel.from_pretrained(folder).eval()
    ids = [encoder.tokenizer(text)["input_ids"] for text in TEXTS]
    with torch.no_grad():
        states = [alone(input_ids=torch.tensor([row])).last_hidden_state[0] for row in ids]
    means = torch.stack([of_text.mean(0) for of_text in states])
    close(torch.from_numpy(encoder.encode(TEXTS)), means)
    places = [np.array([1, NOWHERE, len(row) - 1]) for row in ids]
    encoded = Encoded([np.array(row, np.int32) for row in ids], places, [], np.zeros(3, np.bool_))
    words = _word_states(encoder, encoded, lambda _: None).reshape(len(TEXTS), 3, -1)
    assert np.isnan(words[:, 1]).all()
    for of_text, found in zip(states, words, strict=True):
        close(torch.from_numpy(found[[0, 2]]), of_text[[1, -1]])
