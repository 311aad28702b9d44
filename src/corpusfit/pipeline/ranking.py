"""Which method: the ranking of methods, and `auto`.

What: runs the trials of `score/rank.py` over methods and seeds on the workers, and picks.
Why: no single method is best on every target; the choice has to be made on the user's own data and
shown. `domain_moore_lewis` makes it inside itself, by what the others agree on, and so is taken
where it can be fitted; without it, the method with most agreement.
Trade-off: `auto` does not go by the paper's F1, which rewards finding the target's style; all
verdicts are written down. How it did on targets with a known domain: docs/auto.md.
Reference: TADPOLE, section 3.1.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.errors import InputError
from corpusfit.jobs.fit import Rank, Sample, Unfit
from corpusfit.manifest import RunFolder
from corpusfit.pipeline.cost_model import cost_per_gigabyte
from corpusfit.pipeline.run import Run
from corpusfit.plan import MethodPlan
from corpusfit.score import registry
from corpusfit.score.contract import Method
from corpusfit.score.rank import Trial, Verdict, verdicts

SEEDS = 3
LEADING = "domain_moore_lewis"


@dataclass(frozen=True)
class Ranked(Verdict):
    """A verdict, and beside it what the method costs.

    Attributes:
        cost: seconds that a GB of the corpus's text (10^9 characters) takes here with these
            workers: reading, encoding where the method needs embeddings, and scoring.
    """

    cost: float


def candidates() -> list[str]:
    """The methods that score a unit by itself and are tried without being named.

    Not PyOD's, which need a choice of their own, and none that trains a network, for minutes.
    """
    known = {n: registry.load(n) for n in registry.names() if n != "pyod"}
    return [n for n, method in known.items() if issubclass(method, Method) and method.exact]


def contenders() -> list[str]:
    """The candidates that `auto` tries: what goes by embeddings alone, and what it prefers."""
    known = {n: registry.load(n) for n in candidates()}
    going = {n for n, m in known.items() if m.reads == "embedding" and m.family != "baseline"}
    return [n for n in known if n in going or n == LEADING]


def rank_methods(
    run: Run,
    names: Sequence[str],
    target: Sample,
    background: Sample,
    seeds: int,
    *,
    named: bool,
) -> list[Ranked]:
    """Both verdicts on the methods and their costs, best agreement first.

    A method that cannot be fitted on some split of the target is left out, with a warning; so is
    one that cannot be used here, unless the user named it.

    Raises:
        InputError: no method can be fitted.
        UsageError: a method that the user named cannot be used with these settings.
        MissingDependencyError: it needs an extra that is not installed.
    """
    options = run.plan.method.options if len(names) == 1 else {}
    pieces = [
        (registry.given(MethodPlan(name, options), run.plan.embed.embedder), run.plan.seed + i)
        for i in range(seeds)
        for name in names
    ]
    found = list(run.over("rank", Rank(target, background, named), pieces))
    unfit = {f.method: f.why for f in found if isinstance(f, Unfit)}
    for method, why in unfit.items():
        if len(unfit) == len(names):
            raise InputError(why)
        run.warn(f"{method} is left out of the ranking: {why}")
    tried = verdicts([f for f in found if isinstance(f, Trial) and f.method not in unfit])
    encodes = {plan.name for plan, _ in pieces if registry.build(plan.name, plan.options).encodes}
    return _with_costs(run, tried, encodes)


def _with_costs(run: Run, tried: list[Verdict], encodes: set[str]) -> list[Ranked]:
    """The verdicts with their costs; encoding is measured unless a budget's decision has it."""
    with run.stage("measure"):
        whole = cost_per_gigabyte(run)
        embedded = 0.0
        if run.decision is not None:
            embedded = run.decision.costs[run.decision.chosen]
        elif any(v.method in encodes for v in tried):
            embedded = whole.reading + whole.encoding(run.plan.embed)
    return [
        Ranked(
            **vars(v),
            cost=(embedded if v.method in encodes else whole.reading) + whole.scoring(v.rate[0]),
        )
        for v in tried
    ]


def pick(run: Run, folder: RunFolder, target: Sample, background: Sample) -> MethodPlan:
    """`domain_moore_lewis`, else the method with most agreement, of those that fit the budget.

    The cheapest where none does. The ranking is kept in the run's folder.
    """
    kept = folder.fit / "ranking.json"
    if not kept.exists():
        found = rank_methods(run, contenders(), target, background, SEEDS, named=False)
        write_bytes(kept, json.dumps([dataclasses.asdict(v) for v in found]).encode())
    ranking, allows = ranking_of(folder), run.asked.auto.seconds()
    fitting = [v for v in ranking if v["cost"] <= allows]
    fitting = fitting or [min(ranking, key=lambda v: v["cost"])]
    return MethodPlan(preferred([v["method"] for v in fitting]))


def preferred(ranked: Sequence[str]) -> str:
    """What `auto` takes of methods ranked by agreement."""
    return LEADING if LEADING in ranked else ranked[0]


def ranking_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The ranking that `auto` went by, as plain values; empty when a method was named."""
    kept = folder.fit / "ranking.json"
    ranking: list[dict[str, Any]] = json.loads(kept.read_bytes()) if kept.exists() else []
    return ranking
