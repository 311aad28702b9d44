"""The plan of a split: every setting with its default and its check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Option
from corpusfit.core.plan import AUTO, ReadPlan
from corpusfit.core.settings import SEED, Group, Settings


@dataclass(frozen=True)
class SizesPlan(Group, group="split"):
    """The sizes of dev and test, and what counts as a copy."""

    dev: Annotated[
        float,
        Option(
            "Number of rows in dev, or their share if below 1", "dev", metavar="NUMBER", least=0
        ),
    ] = 0.0
    test: Annotated[
        float,
        Option(
            "Number of rows in test, or their share if below 1", "test", metavar="NUMBER", least=0
        ),
    ] = 0.0
    near: Annotated[
        bool,
        Option(
            "Also drop near-duplicates from train: texts with at least 0.8 of the 5-grams of a dev "
            "or test text",
            "near",
        ),
    ] = False

    def _check_together(self) -> None:
        for name, value in (("dev", self.dev), ("test", self.test)):
            if value >= 1 and value != int(value):
                allowed = "a whole number of rows or a share below 1"
                raise bad_setting(f"`split.{name}`", allowed, value)
        if not self.dev and not self.test:
            cure = (
                "For instance `split.dev=2000` `split.test=2000`, or `split.dev=0.1` "
                "`split.test=0.1`."
            )
            raise bad_setting("`split.dev` or `split.test`", "above 0", 0, cure)

    def wanted(self, rows: int) -> tuple[int, int]:
        """Number of rows of dev and of test, out of `rows`."""
        dev, test = (round(v * rows) if v < 1 else int(v) for v in (self.dev, self.test))
        if dev + test >= rows:
            raise bad_setting(
                "`split.dev` and `split.test`",
                f"fewer in sum than the {rows:,} rows that can be split",
                f"{dev:,} and {test:,}",
                "Lower one of them.",
            )
        return dev, test


@dataclass(frozen=True)
class SplitPlan(Settings):
    """Every setting of a split that can change its result."""

    read: ReadPlan = field(default_factory=ReadPlan)
    split: SizesPlan = SizesPlan()
    seed: Annotated[int, SEED] = 0

    def _check_together(self) -> None:
        """Raise `UsageError` for a side of pairs, of which both are split and compared."""
        if self.read.side != AUTO:
            raise bad_setting("`read.side`", "left out: both sides are read", self.read.side)
