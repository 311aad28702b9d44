"""Untrained models (--init), with tokenizers trained on the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from corpusfit.core.errors import EmptyInputError, MissingDependencyError
from corpusfit.embed.contract import digest
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import quiet
from corpusfit.training.models import AUTO, LoadedModel, checked_model, set_dropout
from corpusfit.training.plan import TRANSLATION

SIZES = {"tiny": (2, 128, 8_192), "mini": (4, 256, 16_384), "small": (4, 512, 30_522)}
"""Layers, hidden size and vocabulary size."""

TRANSLATORS = {
    "tiny": (2, 128, 8_192),
    "small": (3, 256, 8_192),
    "base": (6, 512, 32_000 + 256 + 3),  # merges, bytes and special tokens
}
"""The same, of the encoder and of the decoder; `base` is Transformer base."""

POSITIONS = 512
HEAD = 64  # width of an attention head
CHARACTERS = 1_000  # most common characters; others become the unknown token
BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
END = "<|endoftext|>"
_PAD, _END, _UNKNOWN = "<pad>", "</s>", "<unk>"


def new_model(
    init: str,
    objective: str,
    texts: Iterable[str],
    *,
    vocabulary: int,
    tags: Sequence[str] = (),
    dropout: float | None = None,
    attention: str,
    seed: int,
) -> LoadedModel:
    """An untrained model and a tokenizer trained on texts; the same in every process."""
    # Reference: Turc et al. (2019), Well-Read Students Learn Better (BERT's miniatures); Radford et
    # al. (2019), GPT-2; Vaswani et al. (2017), Attention Is All You Need, Table 3 (`base`);
    # Aharoni and Goldberg (2020), appendix A.1.
    try:
        import torch
        import transformers
        from tokenizers import decoders, processors
    except ImportError as e:
        raise MissingDependencyError("`model.init`", "train") from e
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise EmptyInputError(
            "`model.init` trains a tokenizer on the data; the data holds no text."
        )
    layers, width, tokens = (TRANSLATORS if objective == TRANSLATION else SIZES)[init]
    vocabulary = vocabulary or tokens
    identity = {"kind": "init 1", "objective": objective, "init": init, "seed": seed}
    if objective == TRANSLATION:
        identity = {"kind": "init translation 1", "init": init, "seed": seed, "dropout": dropout}
        tokenizer = joint_tokenizer(texts, vocabulary, tags)
        # all embeddings are shared (Press and Wolf 2017)
        parts = {"layers": layers, "attention_heads": width // HEAD, "ffn_dim": 4 * width}
        sides = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in parts.items()}
        config = transformers.MarianConfig(
            vocab_size=len(tokenizer),
            d_model=width,
            **sides,
            max_position_embeddings=POSITIONS,
            activation_function="relu",
            init_std=width**-0.5,  # as fairseq's embeddings and Glorot's square matrices
            scale_embedding=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=None,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
    elif objective == "causal":
        pairs = _trained_bpe(texts, vocabulary, [END], spaced=False)
        pairs.decoder = decoders.ByteLevel()
        pairs.post_processor = processors.ByteLevel(trim_offsets=False)
        ends = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=pairs, model_max_length=POSITIONS, **ends
        )
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer),
            n_embd=width,
            n_layer=layers,
            n_head=width // HEAD,
            n_positions=POSITIONS,
            bos_token_id=0,
            eos_token_id=0,
        )
    else:
        tokenizer = _word_pieces(texts, vocabulary)
        config = transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // HEAD,
            intermediate_size=4 * width,
            max_position_embeddings=POSITIONS,
        )
    if dropout is not None:
        set_dropout(config, dropout)
    with quiet(), seeded(seed):
        model = getattr(transformers, AUTO[objective]).from_config(
            config, attn_implementation=attention, dtype=torch.float32
        )
    if objective == TRANSLATION:
        model.generation_config.max_length = POSITIONS
        model.generation_config.bad_words_ids = [[tokenizer.pad_token_id]]
    identity["tokenizer"] = tokenizer.backend_tokenizer.to_str()
    return checked_model(model.eval(), tokenizer, objective, f"--init {init}", digest(identity))


def _word_pieces(texts: Sequence[str], vocabulary: int) -> Any:
    """A lower-case BERT tokenizer; special tokens are 0 to 4."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    normalizer = normalizers.BertNormalizer(lowercase=True)
    splitter = pre_tokenizers.BertPreTokenizer()
    # The trainer numbers characters in hash order, which differs from run to run, so they are
    # counted, chosen (ties by code point) and numbered here.
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    ranked = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    alphabet = sorted(ranked[: min(CHARACTERS, vocabulary // 4)])
    trained = Tokenizer(models.WordPiece(unk_token=BERT["unk"]))
    trained.normalizer, trained.pre_tokenizer = normalizer, splitter
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        # most are not special tokens; listing them fixes their order
        special_tokens=[*BERT.values(), *alphabet, *(f"##{c}" for c in alphabet)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    known = trained.get_vocab()
    # a new one of the same vocabulary, in which the characters are not special tokens
    pieces = Tokenizer(models.WordPiece(known, unk_token=BERT["unk"]))
    pieces.normalizer, pieces.pre_tokenizer = normalizer, splitter
    pieces.decoder = decoders.WordPiece()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, known[t]) for t in (BERT["cls"], BERT["sep"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{role}_token": token for role, token in BERT.items()},
    )


def joint_tokenizer(texts: Sequence[str], vocabulary: int, tags: Sequence[str] = ()) -> Any:
    """A byte-level BPE tokenizer that ends both sides of a pair by `</s>`; no text is unknown."""
    # Reference: Sennrich et al. (2016), Neural Machine Translation of Rare Words with Subword
    # Units.
    from tokenizers import decoders, processors
    from transformers import PreTrainedTokenizerFast

    pairs = _trained_bpe(texts, vocabulary, [_PAD, _END, _UNKNOWN, *tags], spaced=True)
    pairs.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    pairs.post_processor = processors.TemplateProcessing(
        single=f"$A {_END}", special_tokens=[(_END, pairs.token_to_id(_END))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        pad_token=_PAD,
        eos_token=_END,
        unk_token=_UNKNOWN,
    )


def _trained_bpe(texts: Sequence[str], vocabulary: int, special: list[str], *, spaced: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    return pairs
