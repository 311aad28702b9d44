"""The plan of a tuning: what is tried, for how long, and how each trial selects and trains."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from corpusfit.adapt.plan import (
    FREE,
    AdapterPlan,
    AdaptPlan,
    MixPlan,
    ModelPlan,
    ObjectivePlan,
    TrainPlan,
)
from corpusfit.errors import bad_setting
from corpusfit.plan import CutPlan, EmbedPlan, FitPlan, Plan, ReadPlan
from corpusfit.score.names import require
from corpusfit.settings import Settings, positive, seed_below

_SECOND = 4
"""One step in so many of a trial is in its second phase."""
USES = ("off", "resample")
_BUDGET = re.compile(r"(\d+(?:\.\d+)?) ?(steps?|s|min|h)?")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class SearchPlan:
    """The settings that are tried, and the budget.

    Attributes:
        budget: training steps of all trials together, such as `2000 steps`, or a time for scoring
            and trials, such as `90s`, `30min` or `2h` (default: 2000 steps).
        methods: methods to try, separated by commas (default: the `search.keep` methods with the
            fewest held-out bits among those of `auto`).
        fractions: fractions of the corpus to select, separated by commas (default: 0.1,0.05,0.2).
        weights: uses of relevance weights, separated by commas: `off` (the highest scores) or
            `resample` (segments drawn in proportion to lambda) (default: off,resample).
        then_task: whether a second phase trains on the target's own texts, separated by commas:
            `no`, `yes` (a quarter of a trial's steps, as `adapt --then-task`) (default: no).
        keep: number of methods to try without `search.methods` (default: 4).
        c: steepness C of lambda with `resample`, whose midpoint is at the fraction (default: 5.0).
        eta: one setting in `eta` passes on to the next rung (default: 3).
        least: fewest training steps of a trial (default: 20).
        evaluations: measurements of the loss in a trial (default: 4).
        margin: nats per token; a trial stops early if its loss is higher by more than this than the
            losses, at the same step, of as many trials as pass on; trials within it of the winner
            are not distinguished (default: 0.01).
        heldout: share of the target's texts to measure the loss on, at most `mix.heldout` texts
            (default: 0.25).
    """

    budget: str = "2000 steps"
    methods: str = ""
    fractions: str = "0.1,0.05,0.2"
    weights: str = "off,resample"
    then_task: str = "no"
    keep: int = 4
    c: float = 5.0
    eta: int = 3
    least: int = 20
    evaluations: int = 4
    margin: float = 0.01
    heldout: float = 0.25

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        amount, unit = self._budget()
        if not unit and amount != int(amount):
            raise bad_setting("--budget", "a whole number of steps, or a time", self.budget)
        self._check_choices()
        for name in ("keep", "least", "evaluations"):
            positive(f"search.{name}", getattr(self, name))
        for name, least in (("c", 0.0), ("margin", 0.0), ("eta", 2)):
            if not least <= getattr(self, name) < float("inf"):
                raise bad_setting(f"search.{name}", f"{least:g} or more", getattr(self, name))
        if not 0 < self.heldout < 1:
            raise bad_setting("search.heldout", "between 0 and 1", self.heldout)

    def _check_choices(self) -> None:
        """Raise `UsageError` for something that cannot be tried."""
        for name in self.method_names():
            require(name, "--methods")
            if name == "oracle":
                cure = "Leave it out: tune uses no label of the corpus."
                raise bad_setting("--methods", "a method without labels", name, cure)
        self.amounts()
        for use in self.uses():
            if use not in USES:
                cure = "For example --weights off,resample."
                raise bad_setting("--weights", f"one or more of {', '.join(USES)}", use, cure)
        for answer in self.phases():
            if answer not in ("no", "yes"):
                cure = "For example --then-task no,yes."
                raise bad_setting("--then-task", "one or more of no, yes", answer, cure)

    def _budget(self) -> tuple[float, str]:
        """The number of the budget and its unit: empty for steps, or s, min, h."""
        found = _BUDGET.fullmatch(self.budget.strip())
        if found is None or not 0 < float(found[1]) < float("inf"):
            raise bad_setting(
                "--budget",
                "a number of training steps or a time, such as '2000 steps' or 30min",
                self.budget,
                "For example --budget 30min.",
            )
        unit = found[2] or ""
        return float(found[1]), "" if unit.startswith("step") else unit

    @property
    def steps(self) -> int | None:
        """The budget in training steps; None for a time."""
        amount, unit = self._budget()
        return None if unit else int(amount)

    @property
    def seconds(self) -> float | None:
        """The budget in seconds; None for steps."""
        amount, unit = self._budget()
        return amount * _SECONDS[unit] if unit else None

    def method_names(self) -> list[str]:
        """The methods that the user named; empty for those of the ranking."""
        return _parts(self.methods, "--methods", "names of methods") if self.methods else []

    def amounts(self) -> list[float]:
        """The fractions of the corpus.

        Raises:
            UsageError: one is not a number above 0 and at most 1.
        """
        found = []
        for part in _parts(self.fractions, "--fractions", "numbers above 0 and at most 1"):
            try:
                found.append(float(part))
            except ValueError:
                found.append(0.0)
            if not 0 < found[-1] <= 1:
                cure = "For a tenth of the corpus: --fractions 0.1."
                raise bad_setting("--fractions", "above 0 and at most 1", part, cure)
        return found

    def uses(self) -> list[str]:
        """The uses of relevance weights."""
        return _parts(self.weights, "--weights", "off or resample")

    def phases(self) -> list[str]:
        """Whether there is a second phase on the target's own texts: no, yes or both."""
        return _parts(self.then_task, "--then-task", "no or yes")


def _parts(text: str, setting: str, allowed: str) -> list[str]:
    """The different parts of a list separated by commas.

    Raises:
        UsageError: there is none.
    """
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise bad_setting(setting, allowed, text)
    return found


@dataclass(frozen=True)
class TunePlan(Settings):
    """Every setting of a tuning that can change what it finds."""

    search: SearchPlan = SearchPlan()
    model: ModelPlan = field(default_factory=ModelPlan)
    read: ReadPlan = field(default_factory=ReadPlan)
    cut: CutPlan = field(default_factory=CutPlan)
    embed: EmbedPlan = field(default_factory=EmbedPlan)
    fit: FitPlan = field(default_factory=FitPlan)
    objective: ObjectivePlan = field(default_factory=ObjectivePlan)
    mix: MixPlan = field(default_factory=MixPlan)
    train: TrainPlan = field(default_factory=TrainPlan)
    adapter: AdapterPlan = field(default_factory=AdapterPlan)
    seed: int = 0

    def check(self) -> TunePlan:
        """The plan itself, after every group is checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        if self.model.init or not self.model.name:
            cure = "For example --model bert-base-uncased."
            came = f"model.init={self.model.init}" if self.model.init else "nothing"
            allowed = "a pre-trained model: a model folder or a Hugging Face hub id"
            raise bad_setting("--model", allowed, came, cure)
        for group in (self.search, self.read, self.cut, self.embed, self.fit):
            group.check()
        self.adaptation().check()
        if self.fit.shares:
            cure = "Leave it out: tune divides all texts of --target at random."
            raise bad_setting("fit.shares", "left out with tune", self.fit.shares, cure)
        seed_below("--seed", self.seed)
        return self

    def decisive(self) -> dict[str, Any]:
        """The settings that decide the search: all but the winner's steps and those of `FREE`."""
        settings = self.as_dict()
        for group, name in (*FREE, ("train", "steps"), ("train", "epochs")):
            del settings[group][name]
        return settings

    def selection(self, method: str, fraction: float = 0.1, weights: str = "off") -> Plan:
        """The plan of a selection.

        With `resample`, the midpoint of lambda is where this fraction of a normal distribution
        ends, so that about this fraction of the corpus has weight.
        """
        plan = Plan(read=self.read, cut=self.cut, embed=self.embed, fit=self.fit, seed=self.seed)
        values: dict[str, Any] = {"method": {"name": method}, "choose": {"fraction": fraction}}
        if weights == "resample":
            alpha = round(NormalDist().inv_cdf(fraction), 6)
            values["choose"] |= {"policy": weights, "c": self.search.c, "alpha": alpha}
        return plan.with_values(values)

    def adaptation(
        self, steps: int | None = None, *, then_task: bool = False, batch: int = 0
    ) -> AdaptPlan:
        """The plan of an adaptation; with `steps`, that of a trial.

        Args:
            steps: training steps of a trial, a quarter of them in the second phase if it has one.
            then_task: whether there is a second phase, on the target's texts.
            batch: sequences per step of a trial, in both phases alike; 0 for the plan's.
        """
        values: dict[str, Any] = {"then_task": {"on": then_task}}
        if steps is not None:
            second = max(1, steps // _SECOND) if then_task else 0
            short = {"evaluations": self.search.evaluations, "keep": "last"}
            values["train"] = {"steps": steps - second, **short}
            if then_task:
                values["train"] |= {"batch": batch or self.train.batch}
                values["then_task"] |= {"steps": second, "batch": batch, **short}
        plan = AdaptPlan(
            model=self.model,
            read=self.read,
            objective=self.objective,
            mix=self.mix,
            train=self.train,
            adapter=self.adapter,
            seed=self.seed,
        )
        if steps is not None:
            plan = plan.with_value("train.epochs", None)
        return plan.with_values(values)
