"""`perplexity`: predictable for a model of the target.

What: the negative cross-entropy of a text in bits per token, its end included, under an n-gram
model of the target; the perplexity is 2^-score, so the lowest perplexity has the highest score.
Why: the oldest selector, and one half of Moore-Lewis.
Trade-off: text of common words is predictable for any model, so easy text is preferred to relevant
text; `moore_lewis` corrects this.
Reference: Gao et al. (2002), Toward a Unified Approach to Statistical Language Modeling for
Chinese; TextGram, section 4.3, perplexity-based data selection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corpusfit.contracts import Method, Texts, read_arpa, setting, train_models
from corpusfit_papers.language_model import TokenScorer
from corpusfit_papers.words import OWN, check_words, in_words


@dataclass(frozen=True)
class Perplexity(Method[Texts]):
    """Perplexity under an n-gram model of the target; lower is better.

    Attributes:
        order: Length of the longest n-grams of the trained model, 1 to 5 (default: 3).
        signs: Count runs of punctuation as tokens (default: false).
        words: Tokens: `own`, lower-cased words, or `nltk`, those of its word tokenizer (default:
            own).
        arpa_in: ARPA file of a model of the target's domain, on lower-cased text, used instead of
            training (default: none).
    """

    reads = "text"
    family = "lexical"
    scorer: ClassVar[type] = TokenScorer
    cost: ClassVar[str] = "100,000/s"

    order: int = setting(3, minimum=1, maximum=5)
    signs: bool = False
    words: str = OWN
    arpa_in: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self.words, signs=self.signs, arpa_in=self.arpa_in)

    @property
    def files(self) -> tuple[str, ...]:
        """The ARPA file."""
        return (self.arpa_in,) if self.arpa_in else ()

    def fit(self, target: Texts, background: Texts, *, seed: int) -> TokenScorer:
        """Train on the target, or read the model; background and seed are not used."""
        if self.arpa_in:
            return TokenScorer(*read_arpa(self.arpa_in), self.signs)
        (table,) = train_models([in_words(target, self.words)], self.order, signs=self.signs)
        return TokenScorer(table, self.order, self.signs, self.words)
