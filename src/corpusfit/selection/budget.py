"""Decides under `--budget` how to score a corpus: the best way that costs no more."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.plan import MethodPlan, Plan
from corpusfit.embed import has_network
from corpusfit.selection.folder import SelectionFolder

FAST = "static"
"""The embedder that is tried after the run's own."""
WORDS = "moore_lewis"
"""The method if no encoder fits: of the methods that read a text once, on words alone, the one
whose selections lower the loss most (docs/results/benefit.md)."""


@dataclass(frozen=True)
class Decision:
    """What was chosen under a budget.

    Attributes:
        budget: the budget as the user wrote it.
        allows: the budget in seconds per GB of text.
        chosen: an embedder, or `WORDS`.
        costs: measured seconds per GB of text by candidate; candidates after the first that fits
            are not measured.
    """

    budget: str
    allows: float
    chosen: str
    costs: dict[str, float]

    @property
    def fits(self) -> bool:
        """Whether the chosen candidate costs no more than the budget."""
        return self.costs[self.chosen] <= self.allows

    def sentence(self) -> str:
        """The decision and its reason, for the user."""
        costs = ", ".join(f"{name} takes {format_duration(s)}" for name, s in self.costs.items())
        way = f"words only ({WORDS})" if self.chosen == WORDS else f"embeddings by {self.chosen}"
        return (
            f"The budget {self.budget} allows {format_duration(self.allows)} per GB of text; "
            f"{costs}. Chosen: {way}."
        )

    def excess(self) -> str:
        """How far the cheapest candidate exceeds the budget, for the user."""
        cost = self.costs[self.chosen]
        excess = f"{format_duration(cost - self.allows)} ({cost / self.allows - 1:.0%})"
        return (
            f"The budget {self.budget} allows {format_duration(self.allows)} per GB of text; the "
            f"cheapest choice, {self.chosen}, takes {format_duration(cost)}, {excess} more."
        )


def format_duration(seconds: float) -> str:
    """A duration in hours, minutes or seconds."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def candidates(embedder: str) -> list[str]:
    """The candidates, best first: the run's embedder, `static`, words only."""
    return [embedder, *([FAST] if has_network(embedder) else []), WORDS]


def decide(plan: Plan, cost: Callable[[str], float | None]) -> Decision:
    """Choose the first candidate that fits the budget, else the cheapest."""
    allows = plan.auto.seconds()
    costs: dict[str, float] = {}
    for name in candidates(plan.embed.embedder):
        found = cost(name)
        if found is not None:
            costs[name] = found
            if found <= allows:
                break
    return Decision(plan.auto.budget, allows, min(costs, key=lambda n: costs[n]), costs)


def apply_decision(plan: Plan, decision: Decision) -> Plan:
    """The plan with the chosen embedder, or with the method `WORDS`."""
    if decision.chosen == WORDS:
        return dataclasses.replace(plan, method=MethodPlan(WORDS))
    return plan.with_value("embed.embedder", decision.chosen)


def write_decision(folder: SelectionFolder, decision: Decision, asked: str) -> None:
    """Store a decision in the run's folder, so that a resumed run uses it."""
    data = {"asked": asked, "decision": dataclasses.asdict(decision)}
    write_bytes(folder.fit / "budget.json", json.dumps(data).encode())


def read_decision(folder: SelectionFolder, asked: str) -> Decision | None:
    """The decision that an earlier command stored for the same inputs and settings, if any."""
    path = folder.fit / "budget.json"
    if not path.exists():
        return None
    data = json.loads(path.read_bytes())
    return Decision(**data["decision"]) if data["asked"] == asked else None
