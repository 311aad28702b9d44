"""`oracle`: takes the known domain, whatever the texts say.

What: 1 for every unit of a row whose domain matches, 0 for the others; the domain is the name of
the row's source, or a field of the row.
Why: where domains are known, the best that any selection could do is the yardstick for all others.
Trade-off: it does not look at the target, and the known domain need not be the best text for the
task: a selection by likeness can beat it. Among equals the corpus's order decides, so a share above
the domain's goes on with the first other texts, and one below it takes the domain's first; with
`--threshold 0.5` exactly the domain is taken. A field is read in place of the rows' own ids, so
`id` in `selected/` is the domain.
Reference: Aharoni and Goldberg (2020), section 4.2 (the oracle) and Tables 6 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

from corpusfit.errors import bad_setting
from corpusfit.score.contract import Family, LabelMethod


@dataclass(frozen=True)
class Oracle(LabelMethod):
    """Take the known domain (Aharoni and Goldberg, section 4.2).

    Attributes:
        truth: what a row's domain is: `source`, the name of its source, or a field of the row.
        domain: the domains to take, as globs with commas, such as `bio_*,medical`; it has to be
            given.
    """

    family: ClassVar[Family] = "baseline"
    cost: ClassVar[str] = "as fast as it reads"

    domain: str = ""

    def __post_init__(self) -> None:
        if not self.truth:
            raise bad_setting("method.truth", "source, or the name of a field", self.truth)
        if not self.domain:
            raise bad_setting(
                "method.domain",
                "a glob that the domain's name matches",
                self.domain,
                "For instance --set 'method.domain=bio_*'.",
            )

    def score_label(self, label: str) -> float:
        """1 in the domain, 0 elsewhere."""
        return float(any(fnmatchcase(label, glob) for glob in self.domain.split(",")))
