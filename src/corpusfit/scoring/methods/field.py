"""`field:NAME`: the number that a field of the row holds.

What: a row's number is the score of each of its units; with `-` before the name the lowest number
is the best.
Why: corpora come with scores of others, such as FineWeb-Edu's, so that a selection by them needs no
model, and a blend or `rank` can set them beside scores of likeness to a target.
Trade-off: it knows nothing of the target, and all segments of a row have one score. A row without a
finite number is rejected, as any number in its place would be a judgment.
Reference: Penedo et al. (2024), The FineWeb Datasets, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.types import Reads, WithNumbers
from corpusfit.scoring.contract import Family, Method, Scorer


@dataclass(frozen=True)
class FieldScorer(Scorer[WithNumbers]):
    """The name of the field."""

    field: str
    lower: bool  # whether lower numbers are better

    def meaning(self) -> str:
        """What a score is."""
        negated = ", negated, as lower is better" if self.lower else ""
        return f"The score is the number in the row's field {self.field}{negated}."

    def score(self, batch: WithNumbers) -> NDArray[np.float32]:
        """Score n units by the numbers of their rows; float32 [n]."""
        if not isinstance(batch, WithNumbers):
            raise UsageError(
                f"field:{self.field} scores rows of a corpus by a field; a text alone has none. "
                "Use another method."
            )
        numbers = batch.numbers[self.field]
        return (-numbers if self.lower else numbers).astype(np.float32)


@dataclass(frozen=True)
class Field(Method[Any]):
    """Number in a field of the row, as field:NAME; ignores the target.

    Attributes:
        field: Field that holds a number, the higher the better; with `-` before its name the lower
            the better (required).
    """

    reads: ClassVar[Reads] = "numbers"
    family: ClassVar[Family] = "external"
    higher: ClassVar[str] = "better by the row's field"
    ignores_target: ClassVar[bool] = True
    scorer: ClassVar[type] = FieldScorer
    cost: ClassVar[str] = "as fast as it reads"
    argument: ClassVar[str] = "field"

    field: str = ""

    def __post_init__(self) -> None:
        if not self.field.removeprefix("-") or "," in self.field:
            cure = "For example field:edu_score, or field:-perplexity where lower is better."
            raise bad_setting(
                "`method.name`", "field:NAME with a field of the rows", f"field:{self.field}", cure
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """The field."""
        return (self.field.removeprefix("-"),)

    def fit(self, target: Any, background: Any, *, seed: int) -> FieldScorer:
        """Store the field's name; target and background are not used."""
        return FieldScorer(self.fields[0], self.field.startswith("-"))
