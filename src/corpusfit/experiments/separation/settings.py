"""Settings of a recipe that measures how well methods separate target texts from corpus texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from corpusfit.core.errors import bad_setting
from corpusfit.core.settings import positive
from corpusfit.scoring.rank import HELD_OUT


@dataclass(frozen=True)
class Separation:
    """Settings of the measurements; with them a recipe neither adapts nor fine-tunes a model.

    Each selector's method is fitted on a part of a target, and scores the other part and units of
    the corpus that it was not fitted on. The recipe's models are the encoders.

    Reference: TADPOLE, section 3.1, Table 1, Figures 4 and 5.

    Attributes:
        texts: most units of a target.
        documents: most units of each source of the corpus.
        held_out: share of the target that is held out.
        targets: by name of a target, the tasks whose training texts it has; empty for each task
            alone.
        corpora: by name of a corpus, globs for the names of its sources with the share of each;
            0 for as many units as were drawn. Empty for the whole corpus.
        finetuned: whether the encoder is fine-tuned to separate the task's two labels, on the
            part of the target that is fitted on; a row for each.
    """

    texts: int = 2_000
    documents: int = 3_000
    held_out: float = HELD_OUT
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    corpora: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    finetuned: tuple[bool, ...] = (False,)

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for setting in ("texts", "documents"):
            positive(f"separation.{setting}", getattr(self, setting))
        if not 0 < self.held_out < 1:
            raise bad_setting("separation.held_out", "above 0 and below 1", self.held_out)
        if not self.finetuned:
            raise bad_setting("separation.finetuned", "at least one of true and false", "nothing")
        for name, shares in self.corpora.items():
            given = [share for share in shares.values() if share]
            if not shares or any(share < 0 for share in given):
                allowed = "globs for names of sources, alone or with shares above 0"
                raise bad_setting(f"separation.corpora.{name}", allowed, dict(shares))
            if given and len(given) < len(shares):
                allowed = "a share for each of its globs, or for none"
                raise bad_setting(f"separation.corpora.{name}", allowed, dict(shares))
