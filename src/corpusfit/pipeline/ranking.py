"""Which method: the ranking of methods, and `auto`.

What: runs the trials of `score/rank.py` over methods and seeds on the workers, and picks.
Why: no single method is best on every target; the choice has to be made on the user's own data and
shown. `consensus` makes it inside itself, by what the others agree on, and so is taken where it can
be fitted; without it, the method with most agreement.
Trade-off: `auto` does not go by the paper's F1, which rewards finding the target's style; all
verdicts are written down. How it did on targets with a known domain: docs/auto.md.
Reference: TADPOLE, section 3.1.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.errors import InputError
from corpusfit.jobs.fit import Rank, Sample, Unfit
from corpusfit.manifest import RunFolder
from corpusfit.pipeline.run import Run
from corpusfit.plan import MethodPlan
from corpusfit.score import registry
from corpusfit.score.contract import Method
from corpusfit.score.rank import Trial, Verdict, verdicts

__all__ = ["LEADING", "candidates", "pick", "preferred", "rank_methods", "ranking_of"]

SEEDS = 3
LEADING = "consensus"


def candidates() -> list[str]:
    """The methods that score a unit by itself and need no choice of their own: all but PyOD's."""
    known = [n for n in registry.names() if n != "pyod"]
    return [n for n in known if issubclass(registry.load(n), Method)]


def rank_methods(
    run: Run, names: Sequence[str], target: Sample, background: Sample, seeds: int
) -> list[Verdict]:
    """Both verdicts on the named methods, best agreement first.

    A method that cannot be fitted on some split of the target is left out, with a warning.

    Raises:
        InputError: no method can be fitted.
    """
    options = run.plan.method.options if len(names) == 1 else {}
    pieces = [
        (registry.given(MethodPlan(name, options), run.plan.embed.embedder), run.plan.seed + i)
        for i in range(seeds)
        for name in names
    ]
    found = list(run.over("rank", Rank(target, background), pieces))
    unfit = {f.method: f.why for f in found if isinstance(f, Unfit)}
    for method, why in unfit.items():
        if len(unfit) == len(names):
            raise InputError(why)
        run.warn(f"{method} is left out of the ranking: {why}")
    return verdicts([f for f in found if isinstance(f, Trial) and f.method not in unfit])


def pick(run: Run, folder: RunFolder, target: Sample, background: Sample) -> MethodPlan:
    """`consensus`, else the method with most agreement; the ranking is kept in the run's folder."""
    kept = folder.fit / "ranking.json"
    if not kept.exists():
        names = [
            n
            for n in candidates()
            if registry.load(n).reads == "embedding" and registry.load(n).family != "baseline"
        ]
        found = rank_methods(run, names, target, background, SEEDS)
        write_bytes(kept, json.dumps([dataclasses.asdict(v) for v in found]).encode())
    return MethodPlan(preferred([v["method"] for v in ranking_of(folder)]))


def preferred(ranked: Sequence[str]) -> str:
    """What `auto` takes of methods ranked by agreement."""
    return LEADING if LEADING in ranked else ranked[0]


def ranking_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The ranking that `auto` went by, as plain values; empty when a method was named."""
    kept = folder.fit / "ranking.json"
    ranking: list[dict[str, Any]] = json.loads(kept.read_bytes()) if kept.exists() else []
    return ranking
