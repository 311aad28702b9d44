"""The plan of a clustering: every setting with its default and its check, in groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Option
from corpusfit.core.plan import CutPlan, EmbedPlan, ReadPlan
from corpusfit.core.settings import SEED, Group, Settings

MAX_CLUSTERS = 256


@dataclass(frozen=True)
class DrawPlan(Group, group="draw"):
    """The sample of different units to cluster.

    Reference: Aharoni and Goldberg (2020), sections 2.2 to 2.6.
    """

    sample: Annotated[
        int, Option("Number of units to sample from the corpus", "sample", above=0)
    ] = 10_000
    per_source: Annotated[
        int | None,
        Option(
            "Number of units to sample from each source",
            "per_source",
            default="set by `draw.sample`",
            above=0,
        ),
    ] = None
    words: Annotated[
        int,
        Option("Fewest words of a sampled unit; shorter fragments have no clear domain", above=0),
    ] = 1
    truth: Annotated[
        str,
        Option(
            "Known domain of a unit: `source` (the name of the unit's file) or the name of a field",
            "truth",
            metavar="NAME",
        ),
    ] = "source"


@dataclass(frozen=True)
class MixturePlan(Group, group="mixture"):
    """The Gaussian mixture to fit to the embeddings of the units.

    Reference: Aharoni and Goldberg (2020), appendix A.3.
    """

    k: Annotated[
        str,
        Option(
            "Number of clusters, or several numbers such as 5,10,15, from which BIC chooses one",
            "k",
            default="chosen by BIC from 1 to 30",
            more="BIC tries only numbers for which there are enough units",
            metavar="N,N,…",
            items=int,
        ),
    ] = ""
    components: Annotated[
        int,
        Option(
            "Number of principal components to cluster in; 0 clusters all dimensions",
            "components",
            minimum=0,
        ),
    ] = 50
    fits: Annotated[
        int,
        Option("Number of fits per k with different starts; the likeliest is kept", above=0),
    ] = 5
    steps: Annotated[int, Option("Most steps of EM", above=0)] = 150

    def _check_together(self) -> None:
        self.numbers()

    def numbers(self) -> tuple[int, ...]:
        """The numbers of clusters to try, in order; empty where BIC chooses from 1 to 30."""
        try:
            numbers = [int(part) for part in self.k.split(",")] if self.k else []
        except ValueError:
            numbers = [0]
        if any(not 1 <= number <= MAX_CLUSTERS for number in numbers):
            raise bad_setting(
                "`mixture.k`",
                f"whole numbers from 1 to {MAX_CLUSTERS} separated by commas",
                self.k,
                "For example `mixture.k=5,10,15`; without `mixture.k`, BIC chooses from 1 to 30.",
            )
        return tuple(sorted(set(numbers)))


@dataclass(frozen=True)
class ClustersPlan(Settings):
    """Every setting of a clustering that can change its result."""

    read: ReadPlan = field(default_factory=ReadPlan)
    cut: CutPlan = field(default_factory=CutPlan)
    embed: EmbedPlan = field(default_factory=EmbedPlan)
    draw: DrawPlan = DrawPlan()
    mixture: MixturePlan = MixturePlan()
    seed: Annotated[int, SEED] = 0
