"""Loss on held-out text: of the task, of the selection and of general text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corpusfit.kernels.chance import place_keys
from corpusfit.training.batches import ChunkTokens, MicroBatch
from corpusfit.training.chunks import Chunks
from corpusfit.training.objectives import Network, Objective
from corpusfit.training.tokens import Tokens

_STREAM = 2**40  # random numbers apart from those of the steps


@dataclass(frozen=True, eq=False)
class Heldout:
    """Fixed held-out sequences by kind of text.

    Sequences and masks are drawn once, so losses before, during and after training differ by the
    model alone. A few hundred sequences show differences between models to about 0.01 nats, not
    the loss on the whole text.

    Reference: TADPOLE, section 3 and Figure 3 (the loss on the task's text).

    Attributes:
        micros: batches by kind of text.
    """

    micros: Mapping[str, list[MicroBatch]]

    @classmethod
    def of(
        cls,
        texts: Mapping[str, tuple[Tokens, Chunks]],
        objective: Objective,
        *,
        rows: int,
        seed: int,
    ) -> Heldout:
        """Lay out all chunks of some texts, one chunk per row."""
        found = {}
        for name, (tokens, chunks) in texts.items():
            order = np.argsort(-chunks.length, kind="stable")
            stores = (tokens,) * (int(chunks.store.max(initial=0)) + 1)
            equal = np.ones(len(order), np.float32)
            plain = ChunkTokens(chunks, stores, equal, equal)
            keys = place_keys(seed, _STREAM, len(order))
            begins = list(range(0, len(order), rows))
            if objective.whole_steps and len(order) % rows == 1 and len(begins) > 1:
                del begins[-1]  # the last text alone has nothing to be compared with
            found[name] = [
                objective.micro_batch(
                    plain, [order[i : i + 1] for i in range(at, end)], keys[order[at:end]]
                )
                for at, end in zip(begins, [*begins[1:], len(order)], strict=True)
            ]
        return cls(found)

    def losses(self, objective: Objective, network: Network) -> dict[str, float]:
        """Mean loss per predicted token, in nats, by kind of text."""
        import torch

        model, training = network.predictor.model, network.predictor.model.training
        model.eval()
        means = {}
        for name, micros in self.micros.items():
            total, count = 0.0, 0
            for micro in micros:
                with torch.no_grad(), network.scope():
                    tokens, _ = objective.losses(network, micro.to(model.device))
                total += float(tokens)
                count += len(micro.at)
            means[name] = total / max(1, count)
        model.train(training)
        return means
