"""An untrained translation model (--init with translation), with joint subwords of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from corpusfit.core.errors import EmptyInputError, MissingDependencyError
from corpusfit.embed.contract import digest
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import quiet
from corpusfit.training.models import LoadedModel, checked_model, set_dropout
from corpusfit.training.plan import TRANSLATION

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
_BYTES = 256
SIZES = {
    "tiny": (2, 128, 8_192),
    "small": (3, 256, 8_192),
    "base": (6, 512, 32_000 + _BYTES + len((PAD, END, UNKNOWN))),
}
"""Layers of the encoder and of the decoder, hidden size, vocabulary size. `base` is Transformer
base with 32,000 merges."""
POSITIONS = 512
HEAD = 64  # width of an attention head


def new_translator(
    init: str,
    texts: Iterable[str],
    *,
    vocabulary: int,
    tags: Sequence[str] = (),
    dropout: float | None = None,
    attention: str,
    seed: int,
) -> LoadedModel:
    """An untrained Marian and a byte-level BPE tokenizer trained on both sides of the pairs.

    All embeddings are shared (Press and Wolf 2017). Weights are drawn from a normal distribution of
    standard deviation width^-0.5, that of fairseq's embeddings and of Glorot's square matrices. The
    result is the same in every process.

    Reference: Vaswani et al. (2017), Attention Is All You Need, Table 3 (`base`); Aharoni and
    Goldberg (2020), appendix A.1.
    """
    try:
        import torch
        import transformers
    except ImportError as e:
        raise MissingDependencyError("`model.init`", "train") from e
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise EmptyInputError(
            "`model.init` trains a tokenizer on the data; the data holds no text."
        )
    layers, width, tokens = SIZES[init]
    tokenizer = joint_tokenizer(texts, vocabulary or tokens, tags)
    parts = {"layers": layers, "attention_heads": width // HEAD, "ffn_dim": 4 * width}
    sides = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in parts.items()}
    config = transformers.MarianConfig(
        vocab_size=len(tokenizer),
        d_model=width,
        **sides,
        max_position_embeddings=POSITIONS,
        activation_function="relu",
        init_std=width**-0.5,
        scale_embedding=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=None,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    if dropout is not None:
        set_dropout(config, dropout)
    with quiet(), seeded(seed):
        model = transformers.AutoModelForSeq2SeqLM.from_config(
            config, attn_implementation=attention, dtype=torch.float32
        )
    model.generation_config.max_length = POSITIONS
    model.generation_config.bad_words_ids = [[tokenizer.pad_token_id]]
    identity = {
        "kind": "init translation 1",
        "init": init,
        "seed": seed,
        "dropout": dropout,
        "tokenizer": tokenizer.backend_tokenizer.to_str(),
    }
    return checked_model(model.eval(), tokenizer, TRANSLATION, f"--init {init}", digest(identity))


def joint_tokenizer(texts: Sequence[str], vocabulary: int, tags: Sequence[str] = ()) -> Any:
    """A byte-level BPE tokenizer that ends both sides of a pair by `</s>`; no text is unknown.

    Reference: Sennrich et al. (2016), Neural Machine Translation of Rare Words with Subword Units.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    pairs.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=[PAD, END, UNKNOWN, *tags],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    pairs.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, pairs.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
    )
