"""SimCSE: the model learns to distinguish a text from the others of its step, by their embeddings.

What: every text goes through the model twice, with different dropout. The first embedding of a text
should be more similar to its second than to that of any other text.
Why: dropout is a mild noise, which leaves the meaning of a text as it is.
Trade-off: a step must be one batch, because its texts are each other's negatives; with several
processes, only the texts of the same process are. Copies of a text are not its negatives.
Reference: Gao et al. (2021), SimCSE, section 3, equation 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from corpusfit.embed.hardware import seeded
from corpusfit.embed.losses import weighted_sum
from corpusfit.training.batches import ChunkTokens, MicroBatch, lay_out
from corpusfit.training.objectives.contract import Keys, Network, Objective, Rows


@dataclass(frozen=True, eq=False)
class SimCse(Objective):
    """Contrastive learning of a `SentenceEncoder`, with dropout as the only noise."""

    temperature: float  # divisor of the cosine similarities
    packs: ClassVar[bool] = False
    whole_steps: ClassVar[bool] = True

    def micro_batch(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int = 0
    ) -> MicroBatch:
        """See `Objective.micro_batch`; a row is one chunk, its label its own number."""
        token_rows = lay_out(chunk_tokens, rows, self.special, width)
        number = np.arange(len(rows))
        first = number * token_rows.ids.shape[1]
        return MicroBatch.of(token_rows, token_rows.ids, first, number)

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        """See `Objective.losses`; held-out losses have dropout too, always with the same seed."""
        import torch
        from torch.nn.functional import normalize

        inputs = network.inputs(micro.ids.repeat(2, 1), micro.chunk.repeat(2, 1))
        with _dropout(network.predictor.model):
            embeddings = network.call(**inputs)
        # bf16 is too coarse for cosines
        with torch.autocast(micro.ids.device.type, enabled=False):
            one, other = normalize(embeddings.float(), dim=1).chunk(2)
            logits = one @ other.T / self.temperature
            number = torch.unique(micro.ids, dim=0, return_inverse=True)[1]
            copies = number[:, None] == number
            copies.fill_diagonal_(fill_value=False)
            if copies.any():  # no model can distinguish a text from its copy
                logits = logits.masked_fill(copies, -torch.inf)
            return weighted_sum(logits, micro.labels, micro.scale), 0.0


@contextmanager
def _dropout(model: Any) -> Iterator[None]:
    """Dropout in evaluation mode too, with a fixed seed there."""
    if model.training:
        yield
        return
    with seeded(0):
        model.train()
        yield
        model.eval()
