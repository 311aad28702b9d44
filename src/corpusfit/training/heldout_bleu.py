"""BLEU on held-out pairs during the training of a translation model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corpusfit.core.errors import importing
from corpusfit.core.languages import USUAL, bleu_tokenizer
from corpusfit.training.chunks import Chunks
from corpusfit.training.decode_plan import DecodePlan
from corpusfit.training.decoding import beam_search
from corpusfit.training.objectives import Network
from corpusfit.training.tokens import Tokens

Spell = Callable[[list[list[int]]], list[str]]


@dataclass(frozen=True, eq=False)
class HeldoutBleu:
    """SacreBLEU of the beam search's translations of fixed pairs, in points.

    The references are spelled from their tokens too, so what the tokenizer does not keep, such as
    repeated spaces, does not count.

    Reference: Domain Clusters, appendix A.1 (early stopping on BLEU; beam 5); Post (2018).

    Attributes:
        sources: token ids of n source texts, with special tokens.
        references: the n target texts.
        spell: the texts of lists of token ids, without special tokens.
        search: settings of the beam search.
        tokenizer: sacreBLEU's, see `bleu_tokenizer`.
    """

    sources: list[list[int]]
    references: list[str]
    spell: Spell
    search: DecodePlan
    tokenizer: str = USUAL

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
            found = self.spell(beam_search(model, self.sources, self.search))
        model.train(training)
        bleu = sacrebleu.corpus_bleu(found, [self.references], tokenize=self.tokenizer, force=True)
        return float(bleu.score)
