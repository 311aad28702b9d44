"""The contract of every scoring method.

What: `Method` (settings) and `Scorer` (the fitted result); `CorpusMethod` for the few whose scores
depend on the whole corpus; `LabelMethod` for what goes by a row's label and not by its text.
Why: settings in the constructor, data in `fit`, the result a new object; so a fitted scorer is
nothing but arrays, numbers and names, and is all that travels to a worker or into a file.
Trade-off: every method has to say what it learned in arrays, also where a library hands over an
opaque object; in return nothing is ever pickled.

To add a method: one file in `score/methods/`, its name the method's name, holding one `Method` and
one `Scorer`, or one `CorpusMethod`, or one `LabelMethod`, all frozen dataclasses. Nothing else is
touched: command line, reference, stored form and contract tests follow from it.

Every scorer is turned so that HIGHER MEANS MORE LIKE THE TARGET. (The papers' anomaly detectors
give low scores to inliers; TADPOLE, section 3.2.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.types import Corpus, Paired, Reads, Texts, Vectors

SOURCE = "source"
"""The truth that is no field of a row: the name of the row's source."""

Batch = TypeVar("Batch", Texts, Vectors, Paired)
"""What a method reads: Arrow texts, float32 embeddings [n, d], or both."""

Learned = TypeVar("Learned", Texts, Vectors, Paired)
"""What it is fitted on: the same, or more than it reads later."""

Family = Literal[
    "detector", "centroid", "classifier", "cluster", "lexical", "graph", "ensemble", "baseline"
]
"""Kin methods make the same mistakes, so in the agreement vote a family counts once. What is made
of other methods, and what does not look at the target, has no voice there."""


@dataclass(frozen=True)
class Effect:
    """What one part of a text did to its score.

    Attributes:
        part: the n-gram, its tokens joined by spaces.
        effect: by how much it raised (above 0) or lowered the score, in the score's own unit.
    """

    part: str
    effect: float


@dataclass(frozen=True)
class Scorer(ABC, Generic[Batch]):
    """A fitted method: a frozen dataclass of arrays, numbers and names."""

    @abstractmethod
    def score(self, batch: Batch) -> NDArray[np.float32]:
        """Score texts or embeddings.

        Args:
            batch: n texts, or float32 [n, d].

        Returns:
            float32 [n], finite, higher = more like the target. A text's score depends on the
            scorer and the text alone, never on its neighbours in the batch.
        """

    def remark(self) -> str:
        """What the fit found that its user should know, in a sentence or two; often nothing."""
        return ""

    def nearest(self, vectors: Vectors) -> list[tuple[str, float]]:
        """The corpus texts that it learned from, if it did.

        Args:
            vectors: float32 [n, d], the units of one text.

        Returns:
            (text, cosine), nearest to their mean first; none for a method that learned from the
            target.
        """
        return []

    def explain(self, text: str) -> list[Effect]:
        """Which n-grams of one text raised and lowered its score.

        Args:
            text: one unit.

        Returns:
            One entry for every different n-gram that had an effect, strongest raise first. Where
            the method can say so exactly, the effects add up to the score. A method that does not
            look at words has nothing to say, which is the default; for it the nearest target texts
            are shown.
        """
        return []


@dataclass(frozen=True)
class AnyMethod(ABC):
    """A way to tell how like the target a text is; its fields are its settings."""

    reads: ClassVar[Reads]
    """What it reads of each unit of the corpus to score it."""
    learns: ClassVar[Reads | None] = None
    """What it is given of target and background, where that is not what `reads` says."""
    family: ClassVar[Family]
    exact: ClassVar[bool] = True
    """Whether a unit gets the same bits in any batch; a network's may differ by rounding."""
    cost: ClassVar[str] = ""
    """Units scored a second by one core, as measured once at 768 dimensions and 3,000 target units
    (EPYC with AVX-512); `corpusfit rank` measures it here and now."""
    needs: ClassVar[str] = ""
    """The extra of corpusfit that the method imports from, if any."""

    @property
    def fits_on(self) -> Reads:
        """What it is given of target and background."""
        return self.learns or self.reads

    @property
    def encodes(self) -> bool:
        """Whether it needs embeddings, at any point."""
        return {self.reads, self.fits_on} != {"text"}

    @property
    def log_weights(self) -> bool:
        """Whether scores are log importance weights, so that drawing goes by their exponential."""
        return False

    @property
    def files(self) -> tuple[str, ...]:
        """Files that its settings name; a run is resumed only while their content is the same."""
        return ()


@dataclass(frozen=True)
class Method(AnyMethod, Generic[Learned]):
    """A method that is fitted once and then scores each text by itself, anywhere."""

    scorer: ClassVar[type]

    @abstractmethod
    def fit(self, target: Learned, background: Learned, *, seed: int) -> Scorer[Any]:
        """Learn what the target looks like.

        Args:
            target: the target's units, as `learns` (or else `reads`) says; at least one.
            background: a bounded uniform sample of the corpus's units, same form; at least one.
            seed: the only source of chance.

        Returns:
            The fitted scorer.
        """


@dataclass(frozen=True)
class CorpusMethod(AnyMethod):
    """A method whose scores depend on the whole corpus: on what else there is, or on an order.

    It runs in one process, and its memory grows with the corpus: `memory_mb` says by how much.
    """

    @abstractmethod
    def score_corpus(
        self, corpus: Corpus, target: Any, background: Any, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Score every unit of the corpus.

        Args:
            corpus: (shard, its units as `reads` says) by shard; read anew at each iteration.
            target: the target's units, as `learns` (or else `reads`) says; at least one.
            background: a bounded uniform sample of the corpus's units; at least one.
            seed: the only source of chance.

        Yields:
            (shard, float32 [n]) for every shard in the corpus's order; finite, higher = more like
            the target.
        """

    @abstractmethod
    def memory_mb(self, text_mb: float, units: int) -> float:
        """MB that `score_corpus` holds at most, for so much text in so many units."""


@dataclass(frozen=True)
class LabelMethod(AnyMethod):
    """A method that goes by what is known of a row, its label, and not by its text.

    It needs nothing fitted, and can say nothing of a text by itself.

    Attributes:
        truth: the label: `source`, the name of the row's source, or a field of the row.
    """

    reads: ClassVar[Reads] = "text"

    truth: str = SOURCE

    @abstractmethod
    def score_label(self, label: str) -> float:
        """Score all units of a row.

        Args:
            label: the row's label; `(none)` where its field is missing or empty.

        Returns:
            Finite; 0 for what is not wanted, above 0 for what is.
        """
