"""The plan of a clustering: every setting with its default and its check, in groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from corpusfit.errors import bad_setting
from corpusfit.plan import CutPlan, EmbedPlan, Plan, ReadPlan
from corpusfit.settings import Settings, positive, seed_below

MOST = 256


@dataclass(frozen=True)
class DrawPlan:
    """The sample of different units to cluster.

    Reference: Aharoni and Goldberg (2020), sections 2.2 to 2.6.

    Attributes:
        sample: number of units to draw from the corpus (default: 10000).
        per_source: number of units to draw from each source (default: set by `draw.sample`).
        words: fewest words, separated by spaces, of a unit to draw; shorter fragments have no clear
            domain (default: 1).
        truth: known domain of a unit: `source` (the name of its source) or the name of a field
            (default: source).
    """

    sample: int = 10_000
    per_source: int | None = None
    words: int = 1
    truth: str = "source"

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        positive("--sample", self.sample)
        if self.per_source is not None:
            positive("--per-source", self.per_source)
        positive("draw.words", self.words)


@dataclass(frozen=True)
class MixturePlan:
    """The Gaussian mixture to fit to the embeddings of the units.

    Reference: Aharoni and Goldberg (2020), appendix A.3.

    Attributes:
        k: number of clusters, or several separated by commas, such as `5,10,15`, of which BIC
            chooses one (default: chosen by BIC from 1 to 30, if there are enough units).
        components: number of principal components to cluster in; 0 clusters all dimensions
            (default: 50).
        fits: number of fits per k with different starts, of which the likeliest is kept (default:
            5).
        steps: most steps of EM (default: 150).
        baselines: also report baselines: random assignment, LDA, averaged word vectors (default:
            False).
    """

    k: str = ""
    components: int = 50
    fits: int = 5
    steps: int = 150
    baselines: bool = False

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for name in ("fits", "steps"):
            positive(f"mixture.{name}", getattr(self, name))
        if self.components < 0:
            raise bad_setting("--components", "0 (all dimensions) or more", self.components)
        self.numbers()

    def numbers(self) -> tuple[int, ...]:
        """The numbers of clusters to try, in order; empty where BIC chooses from 1 to 30.

        Raises:
            UsageError: `k` is not whole numbers from 1 to 256 separated by commas.
        """
        try:
            numbers = [int(part) for part in self.k.split(",")] if self.k else []
        except ValueError:
            numbers = [0]
        if any(not 1 <= number <= MOST for number in numbers):
            raise bad_setting(
                "--k",
                f"whole numbers from 1 to {MOST} separated by commas",
                self.k,
                "For example --k 5,10,15; without --k, BIC chooses from 1 to 30.",
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
    seed: int = 0

    def check(self) -> ClustersPlan:
        """The plan itself, after every group is checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        for group in (self.read, self.cut, self.embed, self.draw, self.mixture):
            group.check()
        seed_below("--seed", self.seed)
        return self

    def reading(self) -> Plan:
        """The same reading, cutting and encoding as a selection's plan, for the same vectors."""
        return Plan(read=self.read, cut=self.cut, embed=self.embed, seed=self.seed)
