"""`oracle`: selects the known domain, whatever the texts say.

What: 1 for every unit of a row whose domain matches, 0 for the others; the domain is the name of
the row's source, or a field of the row.
Why: where domains are known, the best selection by domain is the reference for all others.
Trade-off: it ignores the target, and the known domain is not always the best text for a task: a
selection by similarity can beat it. Ties are drawn, so a share above the domain's continues with
other texts at random, and one below it is a random part of the domain; `--threshold 0.5` selects
exactly the domain. A field is read in place of the rows' ids, so `id` in `selected/` is the domain.
Reference: Aharoni and Goldberg (2020), section 4.2 (the oracle) and Tables 6 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

from corpusfit.core.errors import bad_setting
from corpusfit.scoring.contract import Family, LabelMethod


@dataclass(frozen=True)
class Oracle(LabelMethod):
    """Select the known domain, as a reference (Aharoni and Goldberg, section 4.2).

    Attributes:
        truth: Field of a row that holds its domain, or `source` for the name of the row's source
            (default: source).
        domain: Domains to select, as globs separated by commas, such as `bio_*,medical` (required).
    """

    family: ClassVar[Family] = "baseline"
    higher: ClassVar[str] = "of the known domain"
    cost: ClassVar[str] = "as fast as it reads"

    domain: str = ""

    def __post_init__(self) -> None:
        if not self.truth:
            raise bad_setting("`method.truth`", "source or the name of a field", self.truth)
        if not self.domain:
            raise bad_setting(
                "`method.domain`",
                "a glob that matches the domain's name",
                self.domain,
                "For instance `method.domain=bio_*`.",
            )

    def score_label(self, label: str) -> float:
        """1 in the domain, 0 elsewhere."""
        return float(any(fnmatchcase(label, glob) for glob in self.domain.split(",")))
