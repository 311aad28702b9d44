"""Sizes of untrained models (`model.init`), and tokenizers that are trained on the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

SIZES = {"tiny": (2, 128, 8_192), "mini": (4, 256, 16_384), "small": (4, 512, 30_522)}
"""Layers, hidden size and vocabulary size of a language model."""

POSITIONS = 512
HEAD = 64  # width of an attention head
CHARACTERS = 1_000  # most common characters; others become the unknown token
BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
END = "<|endoftext|>"


def word_pieces(texts: Sequence[str], vocabulary: int) -> Any:
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
    trained.normalizer = normalizer
    trained.pre_tokenizer = splitter
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
    pieces.normalizer = normalizer
    pieces.pre_tokenizer = splitter
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


def trained_bpe(texts: Sequence[str], vocabulary: int, special: list[str]) -> Any:
    """A byte-level BPE of texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    return pairs
