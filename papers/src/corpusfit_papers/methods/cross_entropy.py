"""`cross_entropy`: predictable for a model of the corpus; ignores the target.

What: the negative cross-entropy of a text in bits per token, its end included, under an n-gram
model of a sample of the corpus.
Why: TextGram compares with it. It selects ordinary text of the corpus, so it shows how much of
another method's gain comes from the target.
Trade-off: TextGram trains on the whole corpus; here the model is trained on a bounded sample, so
that `fit` runs on one machine; a `fit.background` above the corpus's number of units trains on all,
in memory. Ordinary text is not relevant text: this is a baseline, and like
`random` it does not vote when methods are ranked.
Reference: TextGram, section 4.3, cross-entropy, equation 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corpusfit.contracts import Method, Texts, read_arpa, setting, train_models
from corpusfit_papers.language_model import TokenScorer
from corpusfit_papers.words import OWN, check_words, in_words


@dataclass(frozen=True)
class CrossEntropy(Method[Texts]):
    """Negative cross-entropy under an n-gram model of the corpus; ignores the target (baseline).

    Attributes:
        order: Length of the longest n-grams of the trained model, 1 to 5 (default: 3).
        signs: Count runs of punctuation as tokens (default: false).
        words: Tokens: `own`, lower-cased words, or `nltk`, those of its word tokenizer (default:
            own).
        arpa_general: ARPA file of a model of general, lower-cased text, used instead of training
            (default: none).
    """

    reads = "text"
    family = "baseline"
    higher: ClassVar[str] = "more predictable for a model of the corpus"
    scorer: ClassVar[type] = TokenScorer
    cost: ClassVar[str] = "70,000/s"

    order: int = setting(3, minimum=1, maximum=5)
    signs: bool = False
    words: str = OWN
    arpa_general: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self.words, signs=self.signs, arpa_general=self.arpa_general)

    @property
    def files(self) -> tuple[str, ...]:
        """The ARPA file."""
        return (self.arpa_general,) if self.arpa_general else ()

    def fit(self, target: Texts, background: Texts, *, seed: int) -> TokenScorer:
        """Train on the background, or read the model; target and seed are not used."""
        if self.arpa_general:
            return TokenScorer(*read_arpa(self.arpa_general), self.signs)
        (table,) = train_models([in_words(background, self.words)], self.order, signs=self.signs)
        return TokenScorer(table, self.order, self.signs, self.words)
