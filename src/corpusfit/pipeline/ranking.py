"""Ranks methods on the user's data, and picks one for `auto`."""

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
from corpusfit.score.names import names as method_names
from corpusfit.score.rank import Trial, Verdict, verdicts

SEEDS = 3
LEADING = "domain_moore_lewis"


@dataclass(frozen=True)
class Ranked(Verdict):
    """A method's verdict and cost.

    Attributes:
        cost: seconds per GB of the corpus's text (10^9 characters) on this machine with these
            workers: reading, encoding if the method needs embeddings, and scoring.
    """

    cost: float


def candidates() -> list[str]:
    """The methods that are ranked by default: they score each unit on its own.

    Without PyOD's, which need a detector's name, and without those that train a network.
    """
    known = {n: registry.load(n) for n in method_names() if n != "pyod"}
    return [n for n, method in known.items() if issubclass(method, Method) and method.exact]


def contenders() -> list[str]:
    """The candidates of `auto`: methods that read only embeddings, and `LEADING`."""
    known = {n: registry.load(n) for n in candidates()}
    read = {n for n, m in known.items() if m.reads == "embedding" and m.family != "baseline"}
    return [n for n in known if n in read or n == LEADING]


def rank_methods(
    run: Run,
    names: Sequence[str],
    target: Sample,
    background: Sample,
    seeds: int,
    *,
    named: bool,
) -> list[Ranked]:
    """Rank methods by agreement and by F1, and measure their costs; best agreement first.

    A method that cannot be fitted on some split of the target is left out, with a warning; so is
    one that cannot be used on this machine, unless the user named it.

    Raises:
        InputError: no method can be fitted.
        UsageError: a method that the user named cannot be used with these settings.
        MissingDependencyError: a named method needs an extra that is not installed.
    """
    options = run.plan.method.options if len(names) == 1 else {}
    pieces = [
        (
            registry.with_embedder(MethodPlan(name, options), run.plan.embed.embedder),
            run.plan.seed + i,
        )
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
    """The verdicts with costs; encoding is measured unless the budget's decision has its cost."""
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
    """The method that `auto` uses.

    Of the methods that fit the budget `domain_moore_lewis`, which combines the others by their
    agreement, else the one with most agreement; if none fits, the cheapest. Not by the paper's F1,
    which rewards the target's style (docs/auto.md). The ranking is stored in the run's folder.

    Reference: TADPOLE, section 3.1.
    """
    path = folder.fit / "ranking.json"
    if not path.exists():
        found = rank_methods(run, contenders(), target, background, SEEDS, named=False)
        write_bytes(path, json.dumps([dataclasses.asdict(v) for v in found]).encode())
    ranking, allows = ranking_of(folder), run.asked.auto.seconds()
    fitting = [v for v in ranking if v["cost"] <= allows]
    fitting = fitting or [min(ranking, key=lambda v: v["cost"])]
    return MethodPlan(preferred([v["method"] for v in fitting]))


def preferred(ranked: Sequence[str]) -> str:
    """The method that `auto` prefers among methods ranked by agreement."""
    return LEADING if LEADING in ranked else ranked[0]


def ranking_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The ranking behind `auto`, as plain values; empty if the user named a method."""
    path = folder.fit / "ranking.json"
    ranking: list[dict[str, Any]] = json.loads(path.read_bytes()) if path.exists() else []
    return ranking
