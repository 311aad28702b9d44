"""Loss on held-out text, and BLEU on held-out pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from corpusfit.core.errors import importing
from corpusfit.core.languages import USUAL, bleu_tokenizer
from corpusfit.kernels.chance import place_keys
from corpusfit.training.batches import ChunkTokens, MicroBatch
from corpusfit.training.decoding import beam_search
from corpusfit.training.objectives import Network, Objective
from corpusfit.training.plan import DecodePlan
from corpusfit.training.tokens import Chunks, Tokens

_STREAM = 2**40  # random numbers apart from those of the steps


@dataclass(frozen=True, eq=False)
class Heldout:
    """Fixed held-out sequences by kind of text.

    Sequences and masks are drawn once, so losses before, during and after training differ by the
    model alone. A few hundred sequences show differences between models to about 0.01 nats, not
    the loss on the whole text.

    Reference: TADPOLE, section 3 and Figure 3 (the loss on the task's text).
    """

    micros: Mapping[str, list[MicroBatch]]  # batches by kind of text

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
        batches = {}
        for name, (tokens, chunks) in texts.items():
            order = np.argsort(-chunks.length, kind="stable")
            stores = (tokens,) * (int(chunks.store.max(initial=0)) + 1)
            equal = np.ones(len(order), np.float32)
            plain = ChunkTokens(chunks, stores, equal, equal)
            keys = place_keys(seed, _STREAM, len(order))
            begins = list(range(0, len(order), rows))
            if objective.whole_steps and len(order) % rows == 1 and len(begins) > 1:
                del begins[-1]  # the last text alone has nothing to be compared with
            batches[name] = [
                objective.micro_batch(
                    plain, [order[i : i + 1] for i in range(at, end)], keys[order[at:end]]
                )
                for at, end in zip(begins, [*begins[1:], len(order)], strict=True)
            ]
        return cls(batches)

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


Spell = Callable[[list[list[int]]], list[str]]


@dataclass(frozen=True, eq=False)
class HeldoutBleu:
    """SacreBLEU of the beam search's translations of fixed pairs, in points.

    The references are spelled from their tokens too, so what the tokenizer does not keep, such as
    repeated spaces, does not count.

    Reference: Domain Clusters, appendix A.1 (early stopping on BLEU; beam 5); Post (2018).
    """

    sources: list[list[int]]  # token ids of n source texts, with special tokens
    references: list[str]  # the n target texts
    spell: Spell  # the texts of lists of token ids, without special tokens
    search: DecodePlan  # settings of the beam search
    tokenizer: str = USUAL  # sacreBLEU's, see `bleu_tokenizer`

    @classmethod
    def of(
        cls, tokens: Tokens, chunks: Chunks, spell: Spell, longest: int, language: str = ""
    ) -> HeldoutBleu:
        """All pairs of some chunks to a language, translated with at most `longest` tokens."""
        with importing("`train.best_by=bleu`", "train"):
            import sacrebleu  # noqa: F401
        begins, ends = chunks.begin.tolist(), (chunks.begin + chunks.length).tolist()
        pairs = list(zip(chunks.text.tolist(), begins, ends, strict=True))
        sources = [tokens.ids(text, 0, begin).tolist() for text, begin, _ in pairs]
        targets = [tokens.ids(text, begin, end).tolist() for text, begin, end in pairs]
        references = spell(targets)
        tokenizer = bleu_tokenizer(language, references)
        return cls(sources, references, spell, DecodePlan(longest=longest), tokenizer)

    def measure(self, network: Network) -> float:
        """BLEU of the model's translations; the training mode of the model is restored."""
        import sacrebleu

        model, training = network.predictor.model, network.predictor.model.training
        model.eval()
        with network.scope():
            texts = self.spell(beam_search(model, self.sources, self.search))
        model.train(training)
        bleu = sacrebleu.corpus_bleu(texts, [self.references], tokenize=self.tokenizer, force=True)
        return float(bleu.score)
