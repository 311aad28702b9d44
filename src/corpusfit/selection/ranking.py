"""Ranks methods on the user's data: by held-out bits, by agreement and by F1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpusfit.core.errors import InputError
from corpusfit.core.plan import MethodPlan
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, Family, Method
from corpusfit.scoring.names import names as method_names
from corpusfit.scoring.rank import Verdict, spread, verdicts
from corpusfit.scoring.rounds import RoundMethod
from corpusfit.selection.bits import Evaluation, evaluate, in_rounds
from corpusfit.selection.bits_job import EvaluateBits, FoldBits
from corpusfit.selection.cost_model import cost_per_gigabyte
from corpusfit.selection.fit import Rank, Sample
from corpusfit.text.context import Run

SEEDS = 3
BASELINE = "random"
"""FoldBits beside every ranking."""
_TRIAL = 0.4
"""Time of a trial, whose fit and scores are on a part of the sample, relative to a fold's."""


@dataclass(frozen=True)
class Ranked:
    """A method's verdicts and cost; (mean, standard deviation) are over folds or seeds.

    Attributes:
        seconds: seconds to fit and to score the corpus sample, one thread.
        fit_s: seconds to fit.
        rate: units scored per second, one thread.
        cost: seconds per GB of the corpus's text (10^9 characters) on this machine with these
            workers: reading, encoding if the method needs embeddings, and scoring.
        bits: bits per word on held-out target text; None if the target is too small.
        behind: how many more than the best method, and the ends of the 95 % interval.
        agreement, f1, auroc, ap: see `scoring/rank.py`; None for methods that score the corpus as a
            whole, and where they are not measured.
    """

    method: str
    family: Family
    seconds: float
    fit_s: tuple[float, float]
    rate: tuple[float, float]
    cost: float
    bits: float | None = None
    behind: tuple[float, float, float] | None = None
    agreement: tuple[float, float] | None = None
    f1: tuple[float, float] | None = None
    auroc: tuple[float, float] | None = None
    ap: tuple[float, float] | None = None


def candidates() -> list[str]:
    """The methods that are ranked by default: they score texts, each alone or all together.

    Without PyOD's, which need a detector's name, and without those that train a network.
    """
    known = {n: registry.load(n) for n in method_names() if n != "pyod"}
    return [n for n, m in known.items() if issubclass(m, Method | CorpusMethod) and m.exact]


def rank_methods(
    run: Run,
    names: Sequence[str],
    target: Sample,
    background: Sample,
    seeds: int,
    *,
    named: bool,
    allows: float = math.inf,
) -> list[Ranked]:
    """Rank methods by held-out bits, by agreement and by F1, and measure their costs.

    A method that cannot be fitted on some split of the target is left out, with a warning; so is
    one that cannot be used on this machine, unless the user named it. `BASELINE` is always ranked.
    """
    options = run.plan.method.options if len(names) == 1 else {}
    all_names = list(dict.fromkeys([*names, BASELINE]))
    plans = [
        registry.with_embedder(
            MethodPlan(n, options if n in names else {}), run.plan.embed.embedder
        )
        for n in all_names
    ]
    alone = [p for p in plans if issubclass(registry.load(p.name), Method)]
    pieces = [(plan, run.plan.seed + i) for i in range(seeds) for plan in alone]
    folds = EvaluateBits.of(run.plan, target, background, named=named)
    held = folds.held()
    with run.stage("rank", held.count * held.usable + _TRIAL * seeds):
        took: dict[str, float] = {}
        evaluation = evaluate(run, folds, held, plans, took)
        trials, unfit = in_rounds(run, Rank(target, background, named), pieces, took, _TRIAL)
    for method, why in {**evaluation.unfit, **unfit}.items():
        if {*evaluation.unfit, *unfit} >= {*names}:
            raise InputError(why)
        if seeds or evaluation.held is not None:  # else there is no ranking
            run.warn(f"{method} is left out of the ranking: {why}")
    tried = {v.method: v for v in verdicts([t for t in trials if t.method not in evaluation.unfit])}
    tried = {name: v for name, v in tried.items() if name not in unfit}
    evaluation = evaluation.without(unfit)
    ranked = _with_costs(run, plans, evaluation, tried, len(background.read_texts()))
    return _ordered(run, ranked, evaluation, tried, allows)


def _with_costs(
    run: Run,
    plans: Sequence[MethodPlan],
    evaluation: Evaluation,
    tried: Mapping[str, Verdict],
    units: int,
) -> list[Ranked]:
    """The methods with their costs; encoding is measured unless the budget's decision has it."""
    methods = {plan.name: registry.build(plan.name, plan.options) for plan in plans}
    names = tried if evaluation.held is None else evaluation.folds
    if not names:
        return []
    with run.stage("measure"):
        whole = cost_per_gigabyte(run)
        embedded = 0.0
        if run.decision is not None:
            embedded = run.decision.costs[run.decision.chosen]
        elif any(methods[name].encodes for name in names):
            embedded = whole.reading + whole.encoding(run.plan.embed)
    found = []
    for name in names:
        method = methods[name]
        fit_s, rate = _speed(evaluation.folds.get(name, ()), tried.get(name))
        alone = isinstance(method, CorpusMethod) and not isinstance(method, RoundMethod)
        scoring = whole.units / rate[0] if alone else whole.scoring(rate[0])
        cost = (embedded if method.encodes else whole.reading) + scoring
        found.append(Ranked(name, method.family, fit_s[0] + units / rate[0], fit_s, rate, cost))
    return found


def _ordered(
    run: Run,
    ranked: Sequence[Ranked],
    evaluation: Evaluation,
    tried: Mapping[str, Verdict],
    allows: float,
) -> list[Ranked]:
    """The methods with their verdicts, in order."""
    if not ranked:
        return []
    methods = [v for v in ranked if v.method != BASELINE] or ranked
    cheapest = min(methods, key=lambda v: v.cost).method
    fitting = {v.method for v in methods if v.cost <= allows} or {cheapest}
    bits = evaluation.verdicts(run.plan.seed, fitting)
    found: dict[str, Ranked] = {}
    for v in ranked:
        own, other = bits.get(v.method), tried.get(v.method)
        more: dict[str, Any] = {} if own is None else {"bits": own.bits, "behind": own.behind}
        more |= {} if other is None else {name: getattr(other, name) for name in _VERDICTS}
        found[v.method] = replace(v, **more)
    return [found[name] for name in bits or tried]


_VERDICTS = ("agreement", "f1", "auroc", "ap")


def _speed(
    of: Sequence[FoldBits], tried: Verdict | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds to fit, and units scored per second, from the folds or else from the trials."""
    if of or tried is None:
        rates = [j.units / max(j.score_s, 1e-9) for j in of]
        return spread([j.fit_s for j in of]), spread(rates)
    return tried.fit_s, tried.rate
