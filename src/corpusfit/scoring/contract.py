"""The contract of scoring methods: settings in the constructor, data in `fit`, a scorer out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import check_own
from corpusfit.core.types import Corpus, Paired, Reads, Texts, Vectors, WithNumbers

SOURCE = "source"
"""The label that is not a field of a row: the name of the row's source."""

Batch = TypeVar("Batch", Texts, Vectors, Paired, WithNumbers)
"""Input of a scorer: Arrow texts, float32 embeddings [n, d], both, or with numbers of the rows."""

Learned = TypeVar("Learned", Texts, Vectors, Paired, WithNumbers)
"""Input of `fit`: the same as the scorer's, or more."""

Family = Literal[
    "detector",
    "centroid",
    "classifier",
    "cluster",
    "lexical",
    "graph",
    "ensemble",
    "baseline",
    "external",
]
"""Methods of one family make similar errors."""


def require_fit(*conditions: Any) -> None:
    """Raise ValueError unless a scorer's arrays meet all conditions of the kernels."""
    if not all(conditions):
        raise ValueError("its arrays do not fit together")


@dataclass(frozen=True)
class Effect:
    """The effect of one n-gram on the score of a text.

    Attributes:
        part: the n-gram, its tokens joined by spaces.
        effect: how much it raised (above 0) or lowered (below 0) the score, in the score's unit.
    """

    part: str
    effect: float


@dataclass(frozen=True)
class Member:
    """What one of several methods says of a text.

    Attributes:
        name: of the method.
        weight: its weight among the others; all have a sum of 1.
        score: its own score of the text.
        rank: the rank of this score in a sample of the corpus, from 0 to 1.
    """

    name: str
    weight: float
    score: float
    rank: float


def sum_by_part(parts: Iterable[str], effects: Iterable[float]) -> list[Effect]:
    """One effect per different part, strongest raise first."""
    total: dict[str, float] = {}
    for part, effect in zip(parts, effects, strict=True):
        total[part] = total.get(part, 0.0) + effect
    return [Effect(part, total[part]) for part in sorted(total, key=lambda p: (-total[p], p))]


@dataclass(frozen=True)
class Scorer(ABC, Generic[Batch]):
    """A fitted method: a frozen dataclass of arrays, numbers and names, which is never pickled.

    HIGHER SCORES MEAN MORE SIMILAR TO THE TARGET for every scorer. (The papers' anomaly detectors
    give low scores to inliers; TADPOLE, section 3.2.)
    """

    def __post_init__(self) -> None:
        """Validate, as the arrays may come from a file; subclasses check what kernels rely on.

        Raises:
            ValueError: the arrays are inconsistent, which kernels without bounds checks cannot see.
        """

    def __getstate__(self) -> dict[str, Any]:
        """Its fields: what a worker has opened or computed from them is never sent to others."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @abstractmethod
    def score(self, batch: Batch) -> NDArray[np.float32]:
        """Score texts or embeddings.

        Args:
            batch: n texts in any form that `types.as_texts` takes, or float32 [n, d].

        Returns:
            float32 [n], finite, higher = more similar to the target. A text's score depends only on
            the scorer and the text, never on the other texts of the batch.
        """

    def meaning(self) -> str:
        """What a score is and what effects add up to, in one or two sentences; may be empty."""
        return ""

    def remark(self) -> str:
        """A finding of the fit for the user, in one or two sentences; may be empty."""
        return ""

    def explain(self, text: str) -> list[Effect]:
        """The n-grams that raised or lowered the score of one text.

        Args:
            text: one unit.

        Returns:
            One entry per different n-gram with an effect, strongest raise first. If the method can
            compute exact effects, they add up to the score. The default is empty, for methods that
            do not read words.
        """
        return []

    def explain_members(self, batch: Batch) -> list[Member]:
        """What each of several methods says of one text of n units, if the score is of several."""
        return []


@dataclass(frozen=True)
class AnyMethod(ABC):
    """A method that scores the similarity of texts to the target; its fields are its settings.

    A number with limits, or a word that must be one of some, is a field made by `setting`.

    To add a method, add one file to `scoring/methods/`, named like the method, with one `Method`
    and one `Scorer`, one `CorpusMethod`, one `RoundMethod` (`scoring/rounds.py`), or one
    `LabelMethod`, all frozen dataclasses. The command line, the reference, the stored form and the
    contract tests find it there. Another package names its module under the entry-point group
    `corpusfit.methods` and builds on `corpusfit.contracts`. One that ignores the target has the
    family `baseline` or `external`.
    """

    reads: ClassVar[Reads]
    """Input of the scorer for each unit of the corpus."""
    learns: ClassVar[Reads | None] = None
    """Input of `fit` for target and background, if it differs from `reads`."""
    family: ClassVar[Family]
    exact: ClassVar[bool] = True
    """Whether a unit gets the same bits in any batch; those of a network may differ by rounding."""
    cost: ClassVar[str] = ""
    """Units scored per second by one core, measured at 768 dimensions and 3,000 target units.

The machine was an EPYC with AVX-512; `corpusfit rank` measures this machine.
"""
    needs: ClassVar[str] = ""
    """The extra of corpusfit that the method needs, if any."""
    scorer: ClassVar[type | None] = None
    """The class of its stored scorers; None for a method that cannot score a single text."""
    whole_segments: ClassVar[bool] = False
    """Whether a segment is scored as one text, as by a `RoundMethod`; else its score is
    the mean of its units' scores."""
    higher: ClassVar[str] = "more like the target"
    """What a higher score says of a text, for `explain` and the report."""
    ignores_target: ClassVar[bool] = False
    """Whether scores do not depend on the target, so that its words and language do not matter."""
    argument: ClassVar[str] = ""
    """The setting behind a colon in the method's name, as in `fasttext:FILE`; or empty."""

    def __post_init__(self) -> None:
        check_own(self, "method")

    @property
    def fits_on(self) -> Reads:
        """Input of `fit` for target and background."""
        return self.learns or self.reads

    @property
    def encodes(self) -> bool:
        """Whether `fit` or the scorer needs embeddings."""
        return not {self.reads, self.fits_on} <= {"text", "numbers"}

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of the rows with numbers that the scorer reads, as `WithNumbers`."""
        return ()

    @property
    def scores_texts(self) -> bool:
        """Whether it can score a text alone."""
        return self.scorer is not None and not self.fields

    @property
    def compares_words(self) -> bool:
        """Whether it compares the words of texts, which two languages do not share."""
        return not self.ignores_target and self.reads != "embedding" and self.exact

    @property
    def log_weights(self) -> bool:
        """Whether scores are log importance weights, whose exponentials weight a draw."""
        return False

    @property
    def models(self) -> tuple[str, ...]:
        """Models named by its settings; the manifest has the commits of those of the hub."""
        return ()

    def require(self) -> None:  # noqa: B027 (most methods have no files)
        """Check, before any input is read, that the files of its settings are what it needs."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files named by its settings; a run resumes only if their content is the same."""
        return ()


@dataclass(frozen=True)
class Method(AnyMethod, Generic[Learned]):
    """A method that is fitted once and then scores each text alone, on any worker."""

    scorer: ClassVar[type]

    @abstractmethod
    def fit(self, target: Learned, background: Learned, *, seed: int) -> Scorer[Any]:
        """Fit the method to the target.

        Args:
            target: the target's units, in the form of `fits_on`; at least one.
            background: a bounded uniform sample of the corpus's units, same form; at least one.
            seed: random seed.

        Returns:
            The fitted scorer.
        """


@dataclass(frozen=True)
class CorpusMethod(AnyMethod):
    """A method whose scores depend on the whole corpus, such as an order of its units.

    It runs in one process, and its memory grows with the corpus as `memory_mb` estimates.
    """

    @abstractmethod
    def score_corpus(
        self, corpus: Corpus, target: Any, background: Any, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Score every unit of the corpus.

        Args:
            corpus: (shard, its units in the form of `reads`) by shard; read anew at each iteration.
            target: the target's units, in the form of `fits_on`; at least one.
            background: a bounded uniform sample of the corpus's units; at least one.
            seed: random seed.

        Yields:
            (shard, float32 [n]) for every shard in the corpus's order; finite, higher = more
            similar to the target.
        """

    @abstractmethod
    def memory_mb(self, text_mb: float, units: int) -> float:
        """Peak memory of `score_corpus` in MB, for an amount of text (MB) and a number of units."""


@dataclass(frozen=True)
class LabelMethod(AnyMethod):
    """A method that scores a row by its label instead of its text.

    It needs no fit and cannot score a text alone.

    Attributes:
        truth: the label: `source` for the name of the row's source, or a field of the row.
    """

    reads: ClassVar[Reads] = "text"
    ignores_target: ClassVar[bool] = True

    truth: str = SOURCE

    @abstractmethod
    def score_label(self, label: str) -> float:
        """Score all units of a row.

        Args:
            label: the row's label; `(none)` if its field is missing or empty.

        Returns:
            Finite; above 0 for wanted rows, 0 for others.
        """
