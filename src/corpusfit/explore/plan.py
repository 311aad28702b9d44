"""The plan of looking for domains: what is drawn, and how it is clustered.

What: every setting that can change the clusters, with its default and its check.
Why: clusters are only compared with others that came about in the same way.
Trade-off: how texts are read, cut and encoded is said as for a selection, so that both find the
same units and the same stored vectors.
Reference: Aharoni and Goldberg (2020), sections 2.2 to 2.4 and appendix A.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from corpusfit.errors import bad_setting
from corpusfit.plan import CutPlan, EmbedPlan, Plan, ReadPlan
from corpusfit.settings import Settings, positive, seed_below

MOST = 256


@dataclass(frozen=True)
class DrawPlan:
    """Which units of the corpus are looked at; of several that are the same, one.

    Attributes:
        sample: units drawn from the whole corpus.
        per_source: or so many from each source.
        words: units with fewer words, between spaces, are not drawn; a fragment says too little to
            be of a domain (section 2.6).
        truth: what a unit's domain is known as: `source` for the name of its source, or a field.
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
    """What is fitted to their vectors.

    Attributes:
        k: numbers of clusters with commas between, as `5,10,15`; the one that BIC finds best is
            kept. When left out, BIC chooses from 1 to 30, as far as
            there are units enough for so many.
        components: principal components that the mixture is fitted in; 0 fits it in all
            dimensions.
        fits: with different starts, for each k; the likeliest is kept.
        steps: of EM at most.
        baselines: fit LDA and averaged word vectors beside it, and assign at random.
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
        """The numbers of clusters asked for, in order; none where BIC chooses.

        Raises:
            UsageError: they are not whole numbers from 1 to 256 with commas between.
        """
        try:
            numbers = [int(part) for part in self.k.split(",")] if self.k else []
        except ValueError:
            numbers = [0]
        if any(not 1 <= number <= MOST for number in numbers):
            raise bad_setting(
                "--k",
                f"whole numbers from 1 to {MOST} with commas between",
                self.k,
                "For instance 5,10,15; leave it out and BIC chooses.",
            )
        return tuple(sorted(set(numbers)))


@dataclass(frozen=True)
class ClustersPlan(Settings):
    """Every setting of looking for domains that can change its result."""

    read: ReadPlan = field(default_factory=ReadPlan)
    cut: CutPlan = field(default_factory=CutPlan)
    embed: EmbedPlan = field(default_factory=EmbedPlan)
    draw: DrawPlan = DrawPlan()
    mixture: MixturePlan = MixturePlan()
    seed: int = 0

    def check(self) -> ClustersPlan:
        """The plan itself, after every group was checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        for group in (self.read, self.cut, self.embed, self.draw, self.mixture):
            group.check()
        seed_below("--seed", self.seed)
        return self

    def reading(self) -> Plan:
        """How the corpus is read, cut and encoded, as a selection's plan says it."""
        return Plan(read=self.read, cut=self.cut, embed=self.embed, seed=self.seed)
