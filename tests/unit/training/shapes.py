"""Random two-layer models of many architectures, and the special tokens of their tokenizers."""

import numpy as np
import torch
import transformers as tf

from corpusfit.training.special_tokens import SpecialTokens

V = 60
WIDE = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
SHARED = {**WIDE, "num_key_value_heads": 2}
ENDS = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
SHIFTED = {**WIDE, "max_position_embeddings": 130}
WINDOW = {"local_attention": 16, "global_attn_every_n_layers": 2, **ENDS}
GPT = {"vocab_size": V, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 0}

MASKED = {
    "bert": lambda: tf.BertConfig(**WIDE),
    "roberta": lambda: tf.RobertaConfig(**SHIFTED),
    "xlm-roberta": lambda: tf.XLMRobertaConfig(**SHIFTED),
    "camembert": lambda: tf.CamembertConfig(**SHIFTED),
    "distilbert": lambda: tf.DistilBertConfig(
        vocab_size=V, dim=32, n_layers=2, n_heads=2, hidden_dim=48
    ),
    "electra": lambda: tf.ElectraConfig(**WIDE, embedding_size=16),
    "albert": lambda: tf.AlbertConfig(**WIDE, embedding_size=16),
    "mpnet": lambda: tf.MPNetConfig(**SHIFTED),
    "deberta-v2": lambda: tf.DebertaV2Config(
        **WIDE, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=32
    ),
    "modernbert": lambda: tf.ModernBertConfig(**WIDE, **WINDOW, cls_token_id=2, sep_token_id=3),
    "mobilebert": lambda: tf.MobileBertConfig(
        **WIDE, embedding_size=16, intra_bottleneck_size=32, true_hidden_size=32
    ),
    "big_bird": lambda: tf.BigBirdConfig(**WIDE, **ENDS),
}
CAUSAL = {
    "gpt2": lambda: tf.GPT2Config(**GPT, eos_token_id=0),
    "llama": lambda: tf.LlamaConfig(**SHARED),
    "gpt_neox": lambda: tf.GPTNeoXConfig(**WIDE, bos_token_id=0, eos_token_id=0),
    "opt": lambda: tf.OPTConfig(**WIDE, ffn_dim=48, word_embed_proj_dim=32),
    "qwen2": lambda: tf.Qwen2Config(**SHARED, bos_token_id=0, eos_token_id=0),
    "mistral": lambda: tf.MistralConfig(**SHARED, sliding_window=16),
    "gemma3": lambda: tf.Gemma3TextConfig(
        **SHARED,
        head_dim=16,
        sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
        **ENDS,
    ),
    "bloom": lambda: tf.BloomConfig(
        vocab_size=V, hidden_size=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
    ),
}
NO_SDPA = {"mpnet", "deberta-v2", "big_bird", "bloom"}


def model_of(name, attention="eager"):
    """A random model in evaluation mode, with weights large enough for uneven attention."""
    auto = tf.AutoModelForMaskedLM if name in MASKED else tf.AutoModelForCausalLM
    torch.manual_seed(0)
    config = {**MASKED, **CAUSAL}[name]()
    model = auto.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(4.0)
    return model


def special_tokens_for(name):
    """[CLS] 2, [SEP] 3 and [MASK] 4 around text of a masked model; nothing around a causal one."""
    ordinary = np.arange(V) >= 5
    if name in MASKED:
        return SpecialTokens((2,), (3,), 4, 0, None, V, ordinary, None)
    return SpecialTokens((), (), None, 0, 0, V, ordinary, None)
