"""Translation: an encoder reads the source text, and a decoder predicts the target text.

What: the tokens of each target text are predicted from its source text and the target tokens
before. Each token's cross-entropy, with label smoothing, counts by the weight of its pair.
Why: only real target tokens go through the vocabulary head, so padding costs little.
Trade-off: rows are batches of pairs of similar length, not packed sequences, because few
encoder-decoders take positions or masks of several texts in a row.
Reference: Vaswani et al. (2017), Attention Is All You Need, sections 5.1 and 5.4; Aharoni and
Goldberg (2020), appendix A.1 and Figure 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.contracts import Objective, cross_entropies, setting
from corpusfit_papers.translation.models import require_translating

_WINDOW = 64  # batches within which pairs are sorted by length
_POSITIONS = 512
_HEAD = 64  # width of an attention head
_PAD = "<pad>"
_END = "</s>"
_UNKNOWN = "<unk>"
_NO_LABEL = -100


@dataclass(frozen=True)
class TranslationSettings:
    """The settings of the objective `translation`.

    Attributes:
        smoothing: Share of each label to spread evenly over the vocabulary, in the training loss
            only (default: 0.1).
        pair_tokens: Most tokens on either side of a batch of pairs, including padding; a batch
            holds pairs of similar length (default: 4096).
    """

    smoothing: float = setting(0.1, minimum=0, below=1)
    pair_tokens: int = setting(4_096, above=0)


@dataclass(frozen=True, eq=False)
class Translation(Objective):
    """Translation of the source text of a pair; a chunk is the target text of a pair."""

    auto = "AutoModelForSeq2SeqLM"
    columns = 2
    settings = TranslationSettings
    packs = False
    sizes: ClassVar = {
        "tiny": (2, 128, 8_192),
        "small": (3, 256, 8_192),
        # Transformer base (Vaswani et al. 2017, Table 3); merges, bytes and special tokens
        "base": (6, 512, 32_000 + 256 + 3),
    }
    batch: ClassVar = {"cpu": 1, "gpu": 8}  # batches of pairs

    @classmethod
    def special_tokens(cls, model: Any, tokenizer: Any, name: str) -> Any:
        require_translating(model, tokenizer, f"`model.name`: {name}")
        return super().special_tokens(model, tokenizer, name)

    @classmethod
    def encode(
        cls, tokenizer: Any, first: list[str], second: list[str]
    ) -> tuple[list[list[int]], list[list[int]]]:
        # by keyword, as some tokenizers have a vocabulary of the target language
        sides = (
            tokenizer(**{side: texts}, return_attention_mask=False, verbose=False)["input_ids"]
            for side, texts in (("text", first), ("text_target", second))
        )
        sources, targets = sides
        return sources, targets

    @classmethod
    def untrained(cls, texts: Sequence[str], size: tuple[int, int, int]) -> tuple[Any, Any]:
        import transformers

        layers, width, vocabulary = size
        tokenizer = joint_tokenizer(texts, vocabulary)
        # all embeddings are shared (Press and Wolf 2017)
        parts = {"layers": layers, "attention_heads": width // _HEAD, "ffn_dim": 4 * width}
        sides = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in parts.items()}
        return tokenizer, transformers.MarianConfig(
            vocab_size=len(tokenizer),
            d_model=width,
            **sides,
            max_position_embeddings=_POSITIONS,
            activation_function="relu",
            init_std=width**-0.5,  # as fairseq's embeddings and Glorot's square matrices
            scale_embedding=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=None,
            decoder_start_token_id=tokenizer.pad_token_id,
        )

    @property
    def row_tokens(self) -> int:
        tokens: int = self.plan.own.pair_tokens
        return tokens

    def arrange(
        self, chunks: Any, order: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Batches of pairs of similar length, in random order."""
        # this order left less padding than others
        target = chunks.length.astype(np.int64)
        longer = np.maximum(chunks.begin, target)
        windows = np.cumsum(longer[order]) // (_WINDOW * self.row_tokens)
        order = order[np.lexsort((target[order], longer[order], windows))]
        begins = cut_batches(longer[order], self.row_tokens)
        mixed = rng.permutation(len(begins) - 1)
        sizes = np.diff(begins)[mixed]
        ends = np.cumsum(sizes)
        places = np.arange(len(order)) + np.repeat(begins[:-1][mixed] - ends + sizes, sizes)
        return order[places], np.concatenate([[0], ends])

    def micro_batches(
        self, chunk_tokens: Any, rows: Any, keys: Any, max_rows: int, width: int = 0
    ) -> list[Any]:
        """A step's pairs by length; `max_rows` times `length` tokens at most on each side."""
        batches: list[Any] = []
        sizes = chunk_tokens.chunks
        for row, key in zip(rows, keys, strict=True):
            longer = np.maximum(sizes.begin[row], sizes.length[row])
            begins = cut_batches(longer, max_rows * self.length)
            batches += [
                self.micro_batch(chunk_tokens, [batch], np.array([key]))
                for batch in np.split(row, begins[1:-1])
            ]
        return batches

    def micro_batch(self, chunk_tokens: Any, rows: Any, keys: Any, width: int = 0) -> Any:
        """Lay out the pairs of all rows, one after the other; `keys` and `width` are not used."""
        pairs = np.concatenate(rows)
        sources = _padded([chunk_tokens.ids(int(c), first=True) for c in pairs], self.special.pad)
        targets = _padded([chunk_tokens.ids(int(c)) for c in pairs], self.special.pad)
        lengths = chunk_tokens.chunks
        real = np.arange(targets.shape[1]) < lengths.length[pairs, None]
        read = np.arange(sources.shape[1]) < lengths.begin[pairs, None]
        scale = chunk_tokens.scale[pairs]
        return self.laid_out(
            ids=sources,
            chunk=np.where(read, 0, -1),  # -1 is padding
            kind=np.empty(0, np.int64),
            at=np.flatnonzero(real),
            labels=targets[real],
            scale=np.broadcast_to(scale[:, None], real.shape)[real],
            follows=np.empty(0, np.int64),
            row_scale=scale,
            decoder=targets,
        )

    def losses(self, network: Any, micro: Any) -> tuple[Any, Any]:
        import torch

        model = network.predictor.model
        labels = torch.full_like(micro.decoder, _NO_LABEL)
        labels.view(-1)[micro.at] = micro.labels
        inputs = network.inputs(micro.ids, micro.chunk)
        inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels=labels)
        logits = network.predictor.logits(network.call, inputs, micro.at)
        # held-out losses are plain cross-entropies, whose exponential is the perplexity
        smoothing = self.plan.own.smoothing if model.training else 0.0
        return (cross_entropies(logits, micro.labels, smoothing) * micro.scale).sum(), 0.0


def joint_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """A byte-level BPE tokenizer that ends both sides of a pair by `</s>`; no text is unknown."""
    # Reference: Sennrich et al. (2016), Neural Machine Translation of Rare Words with Subword
    # Units.
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=[_PAD, _END, _UNKNOWN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    pairs.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    pairs.post_processor = processors.TemplateProcessing(
        single=f"$A {_END}", special_tokens=[(_END, pairs.token_to_id(_END))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs,
        model_max_length=_POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        pad_token=_PAD,
        eos_token=_END,
        unk_token=_UNKNOWN,
    )


@njit(cache=True, nogil=True)
def cut_batches(lengths: NDArray[np.int64], max_cells: int) -> NDArray[np.int64]:
    """Cut a sequence of texts into batches whose padded size is bounded.

    Args:
        lengths: int64 [n], tokens of each text, 1 or more texts; best in order.
        max_cells: texts of a batch times its longest text; a longer text is a batch of its own.

    Returns:
        int64 [batches + 1], where each begins; the last is n.
    """
    begins = np.empty(len(lengths) + 1, np.int64)
    begins[0] = 0
    batches = 0
    longest = np.int64(0)
    for i in range(len(lengths)):
        longest = max(longest, lengths[i])
        if i > begins[batches] and longest * (i + 1 - begins[batches]) > max_cells:
            batches += 1
            begins[batches] = i
            longest = lengths[i]
    begins[batches + 1] = len(lengths)
    return begins[: batches + 2]


def _padded(texts: list[NDArray[Any]], pad: int) -> NDArray[np.int64]:
    """int64 [n, l]: texts with padding at their ends."""
    rows = np.full((len(texts), max(map(len, texts))), pad, np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows
