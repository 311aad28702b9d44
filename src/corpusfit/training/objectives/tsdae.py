"""TSDAE: a decoder rebuilds a text from the embedding of what is left of it.

What: each word is deleted with the same probability, the rest becomes one embedding, and the
decoder predicts every token of the whole text from it and the tokens before.
Why: the embedding is all that the decoder sees of the other half, so it has to hold the text.
Trade-off: whole words are deleted where the tokenizer marks them, else tokens; one word always
stays.
Reference: Wang et al. (2021), TSDAE, sections 3 and 6.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.losses import weighted_sum
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.training.batches import PADDING, ChunkTokens, MicroBatch, TokenRows, lay_out
from corpusfit.training.contract import Keys, Network, Objective, Rows
from corpusfit.training.special_tokens import SpecialTokens


@dataclass(frozen=True, eq=False)
class Tsdae(Objective):
    """Denoising autoencoding of texts by a `DenoisingAutoencoder`."""

    auto = "AutoModel"
    embeds = True
    packs = False
    takes = ("objective.delete", "model.pooling")
    batch: ClassVar = {"cpu": 16, "gpu": 64}
    lengths: ClassVar = {"cpu": 128, "gpu": 128}
    learning_rate = 3e-5  # that of sentence-transformers' recipe

    @classmethod
    def unfit(cls, model: Any, special: SpecialTokens) -> tuple[str, str] | None:
        if not special.prefix:
            return "its tokenizer has no token before a text", "mlm"
        if not model.decodes():
            return "its architecture has no decoder with cross-attention", "mlm"
        return None

    @staticmethod
    def identity(model: Any) -> dict[str, Any]:
        return {"pooling": model.pooling.mode}

    @cached_property
    def _begins(self) -> NDArray[np.bool_]:
        """Which tokens begin a word, bool [vocabulary]; all if the tokenizer does not mark them."""
        special = self.special
        every = np.ones(special.vocabulary, np.bool_)
        return every if special.begins is None else special.begins | ~special.ordinary

    def surviving(self, ids: NDArray[Any], key: int) -> NDArray[np.bool_]:
        """Which tokens of a text stay, bool [l], of its ids without special tokens and its key."""
        word = np.cumsum(self._begins[ids])
        word -= word[0]  # the first token may be inside a word
        n_words = int(word[-1]) + 1
        draws = uniform(place_keys(key, 0, n_words + 1))
        stays = draws[:n_words] >= self.plan.delete
        if not stays.any():
            stays[int(draws[n_words] * n_words)] = True
        kept: NDArray[np.bool_] = stays[word]
        return kept

    def micro_batch(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int = 0
    ) -> MicroBatch:
        """See `Objective.micro_batch`; a row is one chunk, and the decoder reads it whole."""
        import torch

        whole = lay_out(chunk_tokens, rows, self.special, width)
        special = self.special
        left = []
        for row, key in zip(rows, keys, strict=True):
            chunk_ids = chunk_tokens.ids(int(row[0]))
            stays = chunk_ids[self.surviving(chunk_ids, int(key))].tolist()
            left.append([*special.prefix, *stays, *special.suffix])
        ids = np.full((len(rows), max(map(len, left))), self.special.pad, np.int64)
        chunk = np.full(ids.shape, PADDING, np.int64)
        for r, text in enumerate(left):
            ids[r, : len(text)] = text
            chunk[r, : len(text)] = 0
        real = whole.chunk[:, 1:] != PADDING
        counted = np.ones(ids.shape, np.bool_)
        token_rows = TokenRows(ids, chunk, whole.scale[:, 1:], whole.kind, whole.follows, counted)
        micro = MicroBatch.of(token_rows, ids, np.flatnonzero(real), whole.ids[:, 1:][real])
        decoder = torch.from_numpy(np.ascontiguousarray(whole.ids[:, :-1]))
        return dataclasses.replace(micro, decoder=decoder)

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        inputs = {**network.inputs(micro.ids, micro.chunk), "decoder_input_ids": micro.decoder}
        logits = network.predictor.logits(network.call, inputs, micro.at)
        return weighted_sum(logits, micro.labels, micro.scale), 0.0
