"""What `--budget` allows: the best way to score a corpus that does not cost too much.

What: goes from the run's embedder to `static` to words alone, measures each, and takes the first
that fits; keeps the decision in the run's folder, so that a resumed run goes by it.
Why: encoding is nearly all of a run's time, and the ways to do it lie factors of a hundred apart.
Trade-off: the order is fixed and not looked up in the user's data. On words alone it is `tfidf`:
the best of the lexical methods in docs/benchmarks.md and among the fastest; a vote among lexical
methods would be one of kin (score/rank.py).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass

from corpusfit.artifacts import write_bytes
from corpusfit.embed import has_network
from corpusfit.manifest import RunFolder
from corpusfit.plan import MethodPlan, Plan

FAST = "static"
"""The embedder that is tried after the run's own."""
WORDS = "tfidf"
"""The method when no encoder fits."""


@dataclass(frozen=True)
class Decision:
    """What a budget came to.

    Attributes:
        budget: as the user gave it.
        allows: seconds a GB of text.
        chosen: an embedder, or `WORDS`.
        costs: seconds a GB of text with each embedder, and on words alone, as measured here; what
            came after the first that fits was not measured.
    """

    budget: str
    allows: float
    chosen: str
    costs: dict[str, float]

    @property
    def fits(self) -> bool:
        """Whether anything is cheap enough."""
        return self.costs[self.chosen] <= self.allows

    def sentence(self) -> str:
        """What was decided, and why."""
        costs = ", ".join(f"{lasting(s)} with {name}" for name, s in self.costs.items())
        way = f"words alone ({WORDS})" if self.chosen == WORDS else f"embeddings by {self.chosen}"
        return (
            f"Budget {self.budget} for a GB of text ({lasting(self.allows)}): it takes {costs}; "
            f"so {way}."
        )

    def excess(self) -> str:
        """By how much the cheapest is too dear."""
        cost = self.costs[self.chosen]
        over = f"{lasting(cost - self.allows)} ({cost / self.allows - 1:.0%}) over it"
        return (
            f"Nothing fits --budget {self.budget} ({lasting(self.allows)} for a GB of text): "
            f"{self.chosen}, the cheapest, takes {lasting(cost)}, {over}."
        )


def lasting(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def candidates(embedder: str) -> list[str]:
    """What a budget is tried on, best first: the run's embedder, `static`, words alone."""
    return [embedder, *([FAST] if has_network(embedder) else []), WORDS]


def decide(plan: Plan, cost: Callable[[str], float | None]) -> Decision:
    """The first candidate that fits, or else the cheapest.

    Args:
        plan: with a budget.
        cost: seconds a GB of text takes with a candidate; None for one that cannot be had.
    """
    allows = plan.auto.seconds()
    costs: dict[str, float] = {}
    for name in candidates(plan.embed.embedder):
        found = cost(name)
        if found is not None:
            costs[name] = found
            if found <= allows:
                break
    return Decision(plan.auto.budget, allows, min(costs, key=lambda n: costs[n]), costs)


def within(plan: Plan, decision: Decision) -> Plan:
    """The plan as decided: with another embedder, or with the method on words."""
    if decision.chosen == WORDS:
        return dataclasses.replace(plan, method=MethodPlan(WORDS))
    return plan.with_value("embed.embedder", decision.chosen)


def keep(folder: RunFolder, decision: Decision, asked: str) -> None:
    """Write a decision down.

    Args:
        folder: the run's.
        decision: what was decided.
        asked: a digest of what was asked for; for other inputs or settings it does not hold.
    """
    data = {"asked": asked, "decision": dataclasses.asdict(decision)}
    write_bytes(folder.fit / "budget.json", json.dumps(data).encode())


def kept(folder: RunFolder, asked: str) -> Decision | None:
    """The decision that an earlier command wrote down for the same inputs and settings."""
    path = folder.fit / "budget.json"
    if not path.exists():
        return None
    data = json.loads(path.read_bytes())
    return Decision(**data["decision"]) if data["asked"] == asked else None
