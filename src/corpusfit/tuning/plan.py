"""The plan of a tuning: what is tried, for how long, and how each trial selects and trains."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Annotated, Any, Self

from corpusfit.core.engine.pace import SECONDS
from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Option
from corpusfit.core.plan import CutPlan, EmbedPlan, FitPlan, Plan, ReadPlan
from corpusfit.core.settings import SEED, Group, Settings
from corpusfit.scoring.names import require
from corpusfit.training.plan import (
    ALL,
    FREE,
    LANGUAGE_MODELS,
    AdapterPlan,
    AdaptPlan,
    MixPlan,
    ModelPlan,
    ObjectivePlan,
    TrainPlan,
    without_newer,
)

CONTENDERS = ("dsir", "moore_lewis", "cynical", "domain_classifier", "knn")
"""The methods that are ranked if none is named: cheap ones, on words and on embeddings."""
_SECOND = 4
"""One step in so many of a trial is in its second phase."""
USES = ("off", "resample")
_BUDGET = re.compile(r"(\d+(?:\.\d+)?) ?(steps?|s|min|h)?")


@dataclass(frozen=True)
class SearchPlan(Group, group="search"):
    """The settings that are tried, and the budget."""

    budget: Annotated[
        str,
        Option(
            "How much the search may use: training steps of all trials together, or a time for "
            "scoring and trials, such as 90s, 30min or 2h",
            "budget",
            metavar="AMOUNT",
        ),
    ] = "2000 steps"
    methods: Annotated[
        str,
        Option(
            "Methods to try, separated by commas",
            "methods",
            default=f"the 4 with the fewest held-out bits of {', '.join(CONTENDERS)}",
            more="`search.keep` sets their number",
            metavar="NAMES",
            items=str,
        ),
    ] = ""
    fractions: Annotated[
        str,
        Option(
            "Shares of the text to try, separated by commas, each above 0 and at most 1",
            "fractions",
            metavar="NUMBERS",
            items=float,
        ),
    ] = "0.1,0.05,0.2"
    weights: Annotated[
        str,
        Option(
            "Uses of relevance weights to try, separated by commas: `off` (highest scores), "
            "`resample` (segments drawn in proportion to lambda)",
            "weights",
            metavar="POLICIES",
            items=str,
        ),
    ] = "off,resample"
    then_task: Annotated[
        str,
        Option(
            "Whether trials end with a second training phase on the target's own texts: `no`, "
            "`yes`, or `no,yes` to try both",
            "then_task",
            more="A second phase takes a quarter of a trial's steps",
            metavar="ANSWERS",
            items=str,
        ),
    ] = "no"
    keep: Annotated[int, Option("Number of methods to try without `search.methods`", above=0)] = 4
    c: Annotated[
        float,
        Option(
            "Steepness C of lambda with `resample`; lambda's midpoint is where the fraction ends",
            minimum=0,
        ),
    ] = 5.0
    eta: Annotated[
        int, Option("One in this many settings passes on to the next rung", minimum=2)
    ] = 3
    least: Annotated[int, Option("Fewest training steps of a trial", above=0)] = 20
    evaluations: Annotated[int, Option("Measurements of the loss in a trial", above=0)] = 4
    margin: Annotated[
        float,
        Option(
            "Smallest difference in loss that counts, in nats per token. A trial stops early if "
            "enough trials to fill the next rung are ahead of it by more than this at the same "
            "step; trials closer to the winner are not distinguished from it",
            minimum=0,
        ),
    ] = 0.01
    heldout: Annotated[
        float,
        Option(
            "Share of the target's texts for measuring the loss, up to `mix.heldout` texts",
            above=0,
            below=1,
        ),
    ] = 0.25

    def _check_together(self) -> None:
        amount, unit = self._budget()
        if not unit and amount != int(amount):
            allowed = "a whole number of steps, or a time"
            raise bad_setting("`search.budget`", allowed, self.budget)
        for name in self.method_names():
            require(name, "`search.methods`")
            if name == "oracle":
                cure = "Leave it out: tune uses no label of the corpus."
                raise bad_setting("`search.methods`", "a method without labels", name, cure)
        self.amounts()
        for use in self.uses():
            if use not in USES:
                cure = "For example `search.weights=off,resample`."
                raise bad_setting(
                    "`search.weights`", f"one or more of {', '.join(USES)}", use, cure
                )
        for answer in self.phases():
            if answer not in ("no", "yes"):
                cure = "For example `search.then_task=no,yes`."
                raise bad_setting("`search.then_task`", "one or more of no, yes", answer, cure)

    def _budget(self) -> tuple[float, str]:
        """The number of the budget and its unit: empty for steps, or s, min, h."""
        match = _BUDGET.fullmatch(self.budget.strip())
        if match is None or not 0 < float(match[1]) < float("inf"):
            raise bad_setting(
                "`search.budget`",
                "a number of training steps or a time, such as '2000 steps' or 30min",
                self.budget,
                "For example `search.budget=30min`.",
            )
        unit = match[2] or ""
        return float(match[1]), "" if unit.startswith("step") else unit

    @property
    def steps(self) -> int | None:
        """The budget in training steps; None for a time."""
        amount, unit = self._budget()
        return None if unit else int(amount)

    @property
    def seconds(self) -> float | None:
        """The budget in seconds; None for steps."""
        amount, unit = self._budget()
        return amount * SECONDS[unit] if unit else None

    def method_names(self) -> list[str]:
        """The methods that the user named; empty for those of the ranking."""
        return _parts(self.methods, "`search.methods`", "names of methods") if self.methods else []

    def amounts(self) -> list[float]:
        """The fractions of the corpus."""
        fractions = []
        for part in _parts(self.fractions, "`search.fractions`", "numbers above 0 and at most 1"):
            try:
                fractions.append(float(part))
            except ValueError:
                fractions.append(0.0)
            if not 0 < fractions[-1] <= 1:
                cure = "For a tenth of the corpus: `search.fractions=0.1`."
                raise bad_setting("`search.fractions`", "above 0 and at most 1", part, cure)
        return fractions

    def uses(self) -> list[str]:
        """The uses of relevance weights."""
        return _parts(self.weights, "`search.weights`", "off or resample")

    def phases(self) -> list[str]:
        """Whether there is a second phase on the target's own texts: no, yes or both."""
        return _parts(self.then_task, "`search.then_task`", "no or yes")


def _parts(text: str, setting: str, allowed: str) -> list[str]:
    """The different parts of a list separated by commas, at least one."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise bad_setting(setting, allowed, text)
    return parts


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
    seed: Annotated[int, SEED] = 0

    def check(self) -> Self:
        """The plan itself, after every group is checked."""
        if self.model.init or not self.model.name:
            cure = "For example `model.name=bert-base-uncased`."
            got = f"`model.init={self.model.init}`" if self.model.init else "nothing"
            allowed = "a pre-trained model: a model folder or a Hugging Face hub id"
            raise bad_setting("`model.name`", allowed, got, cure)
        return super().check()

    def _check_together(self) -> None:
        self.adaptation().check()
        if self.objective.name not in LANGUAGE_MODELS:
            cure = "Leave it out: a search measures the loss on the target's texts."
            raise bad_setting(
                "`objective.name`", "mlm, mlm+nsp or causal", self.objective.name, cure
            )
        if self.objective.loss_on != ALL:
            cure = "Leave it out: a search measures the loss on all tokens of the target's texts."
            raise bad_setting(
                "`objective.loss_on`", f"{ALL} with tune", self.objective.loss_on, cure
            )
        if self.fit.shares:
            cure = "Leave it out: tune divides all texts of `target` at random."
            raise bad_setting("`fit.shares`", "left out with tune", self.fit.shares, cure)

    def decisive(self) -> dict[str, Any]:
        """The settings that decide the search: all but the winner's steps and those of `FREE`."""
        settings = {**self.as_dict(), "read": self.read.stated()}
        for group, name in (*FREE, ("train", "max_steps"), ("train", "epochs")):
            del settings[group][name]
        return without_newer(settings)

    @property
    def target_read(self) -> ReadPlan:
        """How rows of the target become texts."""
        return Plan(read=self.read, fit=self.fit).target_read

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
        """The plan of an adaptation; with `steps`, that of a trial."""
        values: dict[str, Any] = {"then_task": {"on": then_task}}
        if steps is not None:
            second = max(1, steps // _SECOND) if then_task else 0
            short = {"evaluations": self.search.evaluations, "keep": "last"}
            values["train"] = {"max_steps": steps - second, **short}
            if then_task:
                values["train"] |= {"batch": batch or self.train.batch}
                values["then_task"] |= {"max_steps": second, "batch": batch, **short}
        plan = AdaptPlan(
            model=self.model,
            # selections have the rows that `read.where` chose, and texts of the target no field
            read=dataclasses.replace(self.read, where=""),
            objective=self.objective,
            mix=self.mix,
            train=self.train,
            adapter=self.adapter,
            seed=self.seed,
        )
        if steps is not None:
            plan = plan.with_value("train.epochs", None)
        return plan.with_values(values)
