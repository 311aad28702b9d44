"""Mean pooling of encoders of every family that the papers name, against a plain loop."""

import dataclasses
import shutil

import numpy as np
import pytest

from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
}
REFORMER = {  # its states are twice as wide
    "is_decoder": False,
    "hidden_size": 32,
    "attention_head_size": 8,
    "num_attention_heads": 4,
    "feed_forward_size": 48,
    "attn_layers": ["local", "local"],
    "axial_pos_embds": False,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
ROBERTA = {"pad_token_id": 1}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "initializer_range": 0.3}
FAMILIES = {
    "Bert": (SIZES, 66),
    "Roberta": (SIZES | ROBERTA, 64),
    "XLMRoberta": (SIZES | ROBERTA, 64),
    "DistilBert": (DISTILBERT | {"max_position_embeddings": 64}, 64),
    "GPT2": ({"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 60}, 60),
    "XLNet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, 512),
    "Albert": (SIZES | {"embedding_size": 16}, 66),
    "Electra": (SIZES | {"embedding_size": 16}, 66),
    "ModernBert": (SIZES | {"local_attention": 8, "global_attn_every_n_layers": 2}, 66),
    "MPNet": (SIZES | ROBERTA, 64),
    "Deberta": (SIZES | DEBERTA, 66),
    "DebertaV2": (SIZES | DEBERTA | {"position_buckets": 16, "norm_rel_ebd": "layer_norm"}, 66),
    "Longformer": (SIZES | ROBERTA | {"attention_window": [8, 8]}, 64),
    # of these, a text's states depend on what it is padded with
    "FNet": (SIZES, 66),
    "ConvBert": (SIZES | {"embedding_size": 16}, 66),
    "Nystromformer": (SIZES, 66),
    "Funnel": (
        {
            "d_model": 32,
            "n_head": 2,
            "d_head": 16,
            "d_inner": 48,
            "block_sizes": [1],
            "architectures": ["FunnelModel"],
        },
        512,
    ),
    "Reformer": (REFORMER, 64),
    "T5": ({"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}, 512),
}
"""Configuration of a tiny model, and the most tokens of a text."""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mean_of_a_family_is_that_of_a_plain_loop(family, tiny_encoder, texts, tmp_path):
    import torch
    import transformers

    settings, most = FAMILIES[family]
    config_class = getattr(transformers, family + "Config")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_encoder)
    tokenizer.model_max_length = 10**30  # as XLNet's, so that the model decides
    model_folder = shutil.copytree(tiny_encoder, tmp_path / "model")
    tokenizer.save_pretrained(model_folder)
    torch.manual_seed(0)
    ids = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    config = config_class(**{"vocab_size": len(tokenizer), **ids, **settings})
    transformers.AutoModel.from_config(config).save_pretrained(model_folder)
    plan = EmbedPlan(str(model_folder), precision="fp32", device="cpu", unit_length=False)
    encoder = load(plan)
    rough = load(dataclasses.replace(plan, precision="bf16"))
    assert encoder.max_length == most
    model = transformers.AutoModel.from_pretrained(model_folder).eval()
    model = model.get_encoder() if config.is_encoder_decoder else model
    texts = [text for text in texts if text] + ["the kinase binds " * 300]
    vectors = encoder.encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        alone = tokenizer(text, truncation=True, max_length=most, return_tensors="pt")
        with torch.no_grad():
            states = model(input_ids=alone["input_ids"]).last_hidden_state[0].numpy()
        np.testing.assert_allclose(vector, states.mean(0), atol=1e-5)
    error = np.linalg.norm(rough.encode(texts) - vectors, axis=1)
    assert (error < 0.05 * np.linalg.norm(vectors, axis=1)).all()
