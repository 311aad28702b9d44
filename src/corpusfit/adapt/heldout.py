"""How well a model predicts text that it is not trained on.

What: the mean loss over a few fixed sequences of each kind of text: the task's, what was selected,
and general text.
Why: the loss on the task's own text is what tells whether adapting helped (TADPOLE, Figure 3), that
on general text what was forgotten for it.
Trade-off: the sequences and their masks are drawn once, by the seed, so that figures before, during
and after differ by the model alone, not by the draw; a few hundred sequences give differences
between models to a hundredth, not the loss of the whole text.
Reference: TADPOLE, section 3 (the loss on the task's text), Figure 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corpusfit.adapt.batches import Micro, Stock
from corpusfit.adapt.chunks import Chunks
from corpusfit.adapt.objectives import Network, Objective
from corpusfit.adapt.tokens import Tokens
from corpusfit.kernels.chance import place_keys

_STREAM = 2**40  # apart from the steps' chances


@dataclass(frozen=True, eq=False)
class Heldout:
    """Fixed sequences of several kinds of text.

    Attributes:
        micros: by the kind's name, what goes through the model together.
    """

    micros: Mapping[str, list[Micro]]

    @classmethod
    def of(
        cls,
        texts: Mapping[str, tuple[Tokens, Chunks]],
        objective: Objective,
        *,
        rows: int,
        seed: int,
    ) -> Heldout:
        """Lay out every chunk of some texts, one a row.

        Args:
            texts: by the kind's name, the tokens of texts and chunks of them, whichever store these
                are numbered for; weights do not count here.
            objective: says what is predicted.
            rows: how many go through the model together.
            seed: of the masks.
        """
        found = {}
        for name, (tokens, chunks) in texts.items():
            order = np.argsort(-chunks.length, kind="stable")
            stores = (tokens,) * (int(chunks.store.max(initial=0)) + 1)
            plain = Stock(chunks, stores, np.ones(len(order), np.float32))
            keys = place_keys(seed, _STREAM, len(order))
            found[name] = [
                objective.micro(
                    plain, [order[i : i + 1] for i in range(at, end)], keys[order[at:end]]
                )
                for at in range(0, len(order), rows)
                for end in [min(at + rows, len(order))]
            ]
        return cls(found)

    def losses(self, objective: Objective, network: Network) -> dict[str, float]:
        """Mean loss of a predicted token, in nats, for every kind of text.

        Args:
            objective: as given to `of`.
            network: its model comes back in the mode it was in.
        """
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
