"""The dry run of `tune`: its rungs, and the expected time of scoring and trials."""

from __future__ import annotations

import dataclasses
from typing import Any

from corpusfit.selection.dry_run import estimate
from corpusfit.text.context import Machine
from corpusfit.training.adapting import estimate_adaptation
from corpusfit.tuning.grid import grid
from corpusfit.tuning.plan import TunePlan
from corpusfit.tuning.running import TuneInputs
from corpusfit.tuning.schedule import halving
from corpusfit.tuning.timing import seconds_of, steps_within

_AROUND = 10.0
"""Assumed seconds of a trial outside of its training: selecting, tokenising, opening the model."""
_MEASURED = 1.2
"""Assumed cost of a step with its share of the measurements, in steps."""
_UNNAMED = "moore_lewis"
"""Method whose time is that of each method without `search.methods`."""


def estimate_tuning(plan: TunePlan, inputs: TuneInputs, *, machine: Machine) -> dict[str, Any]:
    """Measure a few steps on the first MiB of the corpus, and project."""
    plan = plan.check()
    search = plan.search
    methods = search.method_names() or [_UNNAMED] * search.keep
    scored = [
        estimate(plan.selection(name), inputs.target, inputs.corpus, machine=machine)
        for name in dict.fromkeys(methods)
    ]
    of_method = dict(zip(dict.fromkeys(methods), scored, strict=True))
    ranked = 0 if search.methods else 1
    scoring = sum(of_method[m]["seconds"] for m in methods) + (2 + ranked) * scored[0]["seconds"]
    trained = estimate_adaptation(plan.adaptation(search.least), inputs.corpus, machine=machine)
    numbered = [f"{name}{i}" for i, name in enumerate(methods)]
    settings = len(grid(search, numbered))
    step = trained["step_s"] * _MEASURED
    budget = search.steps
    if budget is None:
        budget = steps_within(search, settings, elapsed=scoring, step=step, around=_AROUND)
    rungs = halving(settings, budget, eta=search.eta, least=search.least)
    return {
        "rungs": [dataclasses.asdict(rung) for rung in rungs],
        "settings": settings,
        "steps": sum(rung.trials * rung.steps for rung in rungs),
        "step_s": trained["step_s"],
        "scoring_s": scoring,
        "seconds": round(scoring + seconds_of(rungs, step, _AROUND)),
        "memory_mb": max(trained["memory_mb"], *(s["memory_mb"] for s in scored)),
        "disk_mb": trained["disk_mb"] + sum(s["disk_mb"] for s in scored),
    }
