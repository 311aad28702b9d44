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
from numpy.typing import NDArray

from corpusfit.embed.losses import weighted_sum
from corpusfit.kernels.batches import cut_batches
from corpusfit.training.batches import PADDING, ChunkTokens, MicroBatch
from corpusfit.training.contract import Keys, Network, Objective, Rows, Sizes
from corpusfit.training.scratch import HEAD, POSITIONS, joint_tokenizer


@dataclass(frozen=True, eq=False)
class Translation(Objective):
    """Translation of the source text of a pair; a chunk is the target text of a pair."""

    auto = "AutoModelForSeq2SeqLM"
    pairs = True
    packs = False
    takes = ("objective.smoothing", "objective.tag_domains", "train.best_by")
    sizes: ClassVar = {
        "tiny": (2, 128, 8_192),
        "small": (3, 256, 8_192),
        # Transformer base (Vaswani et al. 2017, Table 3); merges, bytes and special tokens
        "base": (6, 512, 32_000 + 256 + 3),
    }
    batch: ClassVar = {"cpu": 1, "gpu": 8}  # batches of pairs

    @classmethod
    def untrained(cls, texts: Sequence[str], size: Sizes, tags: Sequence[str]) -> tuple[Any, Any]:
        import transformers

        layers, width, vocabulary = size
        tokenizer = joint_tokenizer(texts, vocabulary, tags)
        # all embeddings are shared (Press and Wolf 2017)
        parts = {"layers": layers, "attention_heads": width // HEAD, "ffn_dim": 4 * width}
        sides = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in parts.items()}
        return tokenizer, transformers.MarianConfig(
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

    def micro_batches(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, max_rows: int, width: int = 0
    ) -> list[MicroBatch]:
        """A step's pairs by length; `max_rows` times `length` tokens at most on each side."""
        batches: list[MicroBatch] = []
        sizes = chunk_tokens.chunks
        for row, key in zip(rows, keys, strict=True):
            longer = np.maximum(sizes.begin[row], sizes.length[row])
            begins = cut_batches(longer, max_rows * self.length)
            batches += [
                self.micro_batch(chunk_tokens, [batch], np.array([key]))
                for batch in np.split(row, begins[1:-1])
            ]
        return batches

    def micro_batch(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int = 0
    ) -> MicroBatch:
        """Lay out the pairs of all rows, one after the other; `keys` and `width` are not used."""
        pairs = np.concatenate(rows)
        sources = _padded([chunk_tokens.ids(int(c), source=True) for c in pairs], self.special.pad)
        targets = _padded([chunk_tokens.ids(int(c)) for c in pairs], self.special.pad)
        lengths = chunk_tokens.chunks
        real = np.arange(targets.shape[1]) < lengths.length[pairs, None]
        read = np.arange(sources.shape[1]) < lengths.begin[pairs, None]
        decoder = np.roll(targets, 1, axis=1)
        last = targets[np.arange(len(pairs)), lengths.length[pairs] - 1]
        start = self.special.start
        decoder[:, 0] = last if start is None or start < 0 else start
        scale = chunk_tokens.scale[pairs]
        return MicroBatch.from_arrays(
            ids=sources,
            chunk=np.where(read, 0, PADDING),
            kind=np.empty(0, np.int64),
            at=np.flatnonzero(real),
            labels=targets[real],
            scale=np.broadcast_to(scale[:, None], real.shape)[real],
            follows=np.empty(0, np.int64),
            row_scale=scale,
            decoder=decoder,
        )

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        inputs = {**network.inputs(micro.ids, micro.chunk), "decoder_input_ids": micro.decoder}
        logits = network.predictor.logits(network.call, inputs, micro.at)
        # held-out losses are plain cross-entropies, whose exponential is the perplexity
        smoothing = self.plan.smoothing if network.predictor.model.training else 0.0
        return weighted_sum(logits, micro.labels, micro.scale, smoothing), 0.0


def _padded(texts: list[NDArray[Any]], pad: int) -> NDArray[np.int64]:
    """int64 [n, l]: texts with padding at their ends."""
    rows = np.full((len(texts), max(map(len, texts))), pad, np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows
