"""An untrained model (--init), with a tokenizer trained on the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from corpusfit.core.errors import EmptyInputError, MissingDependencyError
from corpusfit.embed.contract import digest
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import quiet
from corpusfit.training.models import AUTO, LoadedModel, checked_model, set_dropout

SIZES = {"tiny": (2, 128, 8_192), "mini": (4, 256, 16_384), "small": (4, 512, 30_522)}
"""Layers, hidden size and vocabulary size."""

POSITIONS = 512
HEAD = 64  # width of an attention head
CHARACTERS = 1_000  # most common characters; others become the unknown token
BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
END = "<|endoftext|>"


def new_model(
    init: str,
    objective: str,
    texts: Iterable[str],
    *,
    vocabulary: int,
    dropout: float | None = None,
    attention: str,
    seed: int,
) -> LoadedModel:
    """An untrained model and a tokenizer trained on texts.

    BERT's miniatures with a lower-case WordPiece tokenizer for the masked objectives, GPT-2 of the
    same sizes with byte-level BPE for the causal one. The result is the same in every process.

    Reference: Turc et al. (2019), Well-Read Students Learn Better (the miniatures); Radford et al.
    (2019), GPT-2.
    """
    try:
        import torch
        import transformers
    except ImportError as e:
        raise MissingDependencyError("`model.init`", "train") from e
    layers, width, tokens = SIZES[init]
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise EmptyInputError(
            "`model.init` trains a tokenizer on the data; the data holds no text."
        )
    causal = objective == "causal"
    tokenizer = (_byte_pairs if causal else _word_pieces)(texts, vocabulary or tokens)
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer)}
    if causal:
        sizes |= {"n_embd": width, "n_layer": layers, "n_head": width // HEAD}
        config = transformers.GPT2Config(
            **sizes, n_positions=POSITIONS, bos_token_id=0, eos_token_id=0
        )
    else:
        sizes |= {"hidden_size": width, "num_hidden_layers": layers}
        sizes |= {"num_attention_heads": width // HEAD, "intermediate_size": 4 * width}
        config = transformers.BertConfig(**sizes, max_position_embeddings=POSITIONS)
    if dropout is not None:
        set_dropout(config, dropout)
    with quiet(), seeded(seed):
        model = getattr(transformers, AUTO[objective]).from_config(
            config, attn_implementation=attention, dtype=torch.float32
        )
    identity = {
        "kind": "init 1",
        "objective": objective,
        "init": init,
        "seed": seed,
        "tokenizer": tokenizer.backend_tokenizer.to_str(),
    }
    return checked_model(model.eval(), tokenizer, objective, f"--init {init}", digest(identity))


def _word_pieces(texts: Sequence[str], vocabulary: int) -> Any:
    """A lower-case BERT tokenizer; special tokens are 0 to 4."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    normalizer = normalizers.BertNormalizer(lowercase=True)
    splitter = pre_tokenizers.BertPreTokenizer()
    known = _known_pieces(texts, vocabulary, normalizer, splitter)
    pieces = Tokenizer(models.WordPiece(known, unk_token=BERT["unk"]))
    pieces.normalizer, pieces.pre_tokenizer = normalizer, splitter
    pieces.decoder = decoders.WordPiece()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, known[t]) for t in (BERT["cls"], BERT["sep"])],
    )
    named = {f"{role}_token": token for role, token in BERT.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **named,
    )


def _known_pieces(
    texts: Sequence[str], vocabulary: int, normalizer: Any, splitter: Any
) -> dict[str, int]:
    """The ids of a WordPiece vocabulary trained on texts.

    The `tokenizers` trainer numbers characters in hash order, which differs from run to run, so
    characters are counted, chosen and numbered by `_alphabet`.
    """
    from tokenizers import Tokenizer, models, trainers

    trained = Tokenizer(models.WordPiece(unk_token=BERT["unk"]))
    trained.normalizer, trained.pre_tokenizer = normalizer, splitter
    alphabet = _alphabet(normalizer, texts, vocabulary)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        # most are not special tokens; listing them fixes their order
        special_tokens=[*BERT.values(), *alphabet, *(f"##{c}" for c in alphabet)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    known: dict[str, int] = trained.get_vocab()
    return known


def _alphabet(normalizer: Any, texts: Sequence[str], vocabulary: int) -> list[str]:
    """The most common characters, sorted; ties are broken by code point."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    ranked = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    return sorted(ranked[: min(CHARACTERS, vocabulary // 4)])


def _byte_pairs(texts: Sequence[str], vocabulary: int) -> Any:
    """A GPT-2 tokenizer; token 0 ends a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    pairs.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    ends = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
    return PreTrainedTokenizerFast(tokenizer_object=pairs, model_max_length=POSITIONS, **ends)
