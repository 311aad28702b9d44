"""Ranks methods on the user's data: by held-out bits, by agreement and by F1."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.engine import Job, Work
from corpusfit.core.errors import InputError, MissingDependencyError, UsageError
from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import take_units, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, Family, Method
from corpusfit.scoring.heldout_bits import SHARE, Bits, HeldOut, compare, fit_to_sample, held_out
from corpusfit.scoring.names import names as method_names
from corpusfit.scoring.rank import Trial, spread, verdicts
from corpusfit.selection.fit import Sample, Unfit, rank
from corpusfit.text.context import Run

SEEDS = 3
BASELINE = "random"
"""Ranked beside every method."""
_TRIAL = 0.4
"""Time of a trial, whose fit and scores are on a part of the sample, relative to a fold's."""
_VERDICTS = ("agreement", "f1", "auroc", "ap")
_WORTH_A_WARNING = 0.1
"""Share of the target that held-out bits leave out, from which that is said."""
R = TypeVar("R", "FoldBits", Trial)


@dataclass(frozen=True)
class FoldBits:
    """A method on one fold."""

    method: str
    # float64 [amounts, n], bits of each target text by amount; 0 for texts that are not evaluated
    # on
    bits: NDArray[np.float64]
    fit_s: float  # fit_s, score_s: seconds to fit it, and to score the sample
    score_s: float
    units: int


@dataclass(frozen=True)
class EvaluateBits(Job[tuple[MethodPlan, int], FoldBits | Unfit]):
    """Fit a method on all folds but one, score the corpus sample, and evaluate what it takes."""

    target: Sample  # target, background: target and corpus sample
    background: Sample
    shares: tuple[float, ...]  # words to take, as shares of the sample's words; one or more amounts
    seed: int
    normalized: bool  # whether the target's texts are normalized; else they are to evaluate
    named: bool  # whether the user named the methods; then a method that cannot be used is an error

    def held(self) -> HeldOut:
        """The folds."""
        texts = self.target.batch("text")
        if not self.normalized:
            texts = text_array([corpus.normalize(text) for text in texts.to_pylist()])
        sample, documents = self.background.batch("text"), self.target.documents()
        return held_out(texts, sample, seed=self.seed, documents=documents)

    def start(self) -> Callable[[tuple[MethodPlan, int]], FoldBits | Unfit]:
        held = self.held()
        return lambda piece: self._work(held, *piece)

    def _work(self, held: HeldOut, plan: MethodPlan, fold: int) -> FoldBits | Unfit:
        try:
            method = registry.build(plan.name, plan.options)
            target = self.target.batch(method.fits_on)
            sample = self.background.batch(method.fits_on, method.fields)
            started = time.perf_counter()
            fitted = take_units(target, held.fitted(fold))
            score = fit_to_sample(method, fitted, sample, seed=self.seed)
            ready = time.perf_counter()
            scores = score()
            scored = time.perf_counter()
        except InputError as e:
            return Unfit(plan.name, str(e))
        except (UsageError, MissingDependencyError) as e:
            if self.named:
                raise
            return Unfit(plan.name, str(e))
        amounts = [held.bits(scores, fold, held.budget(share)) for share in self.shares]
        return FoldBits(plan.name, np.stack(amounts), ready - started, scored - ready, len(sample))


@dataclass(frozen=True)
class Evaluation:
    """Methods evaluated by held-out bits."""

    held: HeldOut | None
    folds: Mapping[str, Sequence[FoldBits]]  # each method's results on all folds
    unfit: Mapping[str, str]  # why the other methods cannot be fitted, by name

    def bits(self, method: str) -> NDArray[np.float64]:
        """A method's bits of each text, float64 [amounts, n]."""
        return np.asarray(np.sum([fold.bits for fold in self.folds[method]], axis=0))

    def verdicts(self, seed: int, best_of: Collection[str]) -> dict[str, Bits]:
        """The verdicts at the first amount, best first; none if too few texts are left."""
        if self.held is None:
            return {}
        sums = {method: self.bits(method)[0] for method in self.folds}
        return {b.method: b for b in compare(self.held, sums, seed=seed, best_of=best_of)}

    def without(self, methods: Collection[str]) -> Evaluation:
        """The evaluation of the other methods."""
        folds = {m: results for m, results in self.folds.items() if m not in methods}
        return Evaluation(self.held, folds, self.unfit)


def evaluate(
    run: Run, job: EvaluateBits, held: HeldOut, plans: Sequence[MethodPlan], took: dict[str, float]
) -> Evaluation:
    """Evaluate methods on every fold, within a stage; warns of texts that are left out."""
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in held.left_out.items())
    excluded = f"of the target's {np.count_nonzero(held.folds >= 0):,} units, {left_out}"
    if not held.usable:
        why = f": {excluded}" if left_out else ""
        run.warn(
            "Methods and amounts cannot be compared on held-out text, which needs two different "
            f"texts of the target that are not in the corpus{why}. Add other texts to the target."
        )
        whole = [p.name for p in plans if issubclass(registry.load(p.name), CorpusMethod)]
        return Evaluation(None, {}, dict.fromkeys(whole, "only held-out bits can rank it."))
    if sum(held.left_out.values()) > _WORTH_A_WARNING * np.count_nonzero(held.folds >= 0):
        run.warn(f"Held-out bits do not count all texts: {excluded}.")
    pieces = [(plan, fold) for fold in range(held.count) for plan in plans]
    results, unfit = in_rounds(run, job, pieces, took, 1.0)
    folds: dict[str, list[FoldBits]] = {}
    for fold in results:
        folds.setdefault(fold.method, []).append(fold)
    return Evaluation(held, folds, unfit).without(unfit)


def in_rounds(
    run: Run,
    job: Work[tuple[MethodPlan, int], R | Unfit],
    pieces: Sequence[tuple[MethodPlan, int]],
    took: dict[str, float],
    weight: float,
) -> tuple[list[R], dict[str, str]]:
    """Run a job for every method on each piece in turn; returns results and unfit methods."""
    # A round advances the progress by `weight`. For an honest ETA, each method advances it by its
    # share of the seconds in `took`, which the first round measures.
    results: list[R] = []
    unfit: dict[str, str] = {}
    methods = len({plan.name for plan, _ in pieces})
    for result in run.engine.map(job, pieces):
        if isinstance(result, Unfit):
            unfit[result.method] = result.why
        else:
            results.append(result)
        if isinstance(result, FoldBits):
            took.setdefault(result.method, result.fit_s + result.score_s)
        measured = len(took) >= methods and result.method in took
        share = took[result.method] / sum(took.values()) if measured else 1 / methods
        run.machine.progress.advance(weight * share)
    return results, unfit


@dataclass(frozen=True)
class Ranked:
    """A method's verdicts and cost; (mean, standard deviation) are over folds or seeds.

    Attributes:
        seconds: seconds to fit and to score the corpus sample, one thread.
        fit_s: seconds to fit.
        rate: units scored per second, one thread.
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
    bits: float | None = None
    behind: tuple[float, float, float] | None = None
    agreement: tuple[float, float] | None = None
    f1: tuple[float, float] | None = None
    auroc: tuple[float, float] | None = None
    ap: tuple[float, float] | None = None


def candidates() -> list[str]:
    """The methods that are ranked by default: they score texts, each alone or all together."""
    # Without those that need a name behind a colon, and without those that train a network.
    methods = {n: m for n in method_names() if not (m := registry.load(n)).argument}
    return [n for n, m in methods.items() if issubclass(m, Method | CorpusMethod) and m.exact]


def rank_methods(
    run: Run,
    names: Sequence[str],
    target: Sample,
    background: Sample,
    seeds: int,
    *,
    named: bool,
) -> list[Ranked]:
    """Rank methods by held-out bits, by agreement and by F1."""
    # A method that cannot be fitted on some split of the target is left out, with a warning; so is
    # one that cannot be used on this machine, unless the user named it. `BASELINE` is always
    # ranked.
    options = run.plan.method.options if len(names) == 1 else {}
    all_names = list(dict.fromkeys([*names, BASELINE]))
    plans = [
        registry.with_embedder(
            MethodPlan(n, options if n in names else {}), run.plan.embed.embedder
        )
        for n in all_names
    ]
    # texts of the target have no numbers, so methods that score by these have only bits
    built = [(p, registry.build(p.name, p.options)) for p in plans]
    alone = [p for p, method in built if isinstance(method, Method) and not method.fields]
    pieces = [(plan, run.plan.seed + i) for i in range(seeds) for plan in alone]
    plan = run.plan
    folds = EvaluateBits(target, background, (SHARE,), plan.seed, plan.fit.normalize, named)
    held = folds.held()
    with run.stage("rank", held.count * held.usable + _TRIAL * seeds):
        took: dict[str, float] = {}
        evaluation = evaluate(run, folds, held, plans, took)
        trials, unfit = in_rounds(
            run, partial(rank, target, background, named), pieces, took, _TRIAL
        )
    for method, why in {**evaluation.unfit, **unfit}.items():
        if {*evaluation.unfit, *unfit} >= {*names}:
            raise InputError(why)
        if seeds or evaluation.held is not None:  # else there is no ranking
            run.warn(f"{method} is left out of the ranking: {why}")
    by_method = {
        v.method: v for v in verdicts([t for t in trials if t.method not in evaluation.unfit])
    }
    by_method = {name: v for name, v in by_method.items() if name not in unfit}
    evaluation = evaluation.without(unfit)
    names = list(by_method if evaluation.held is None else evaluation.folds)
    if not names:
        return []
    units = len(background.read_texts())
    bits = evaluation.verdicts(run.plan.seed, {n for n in names if n != BASELINE} or set(names))
    ranked = []
    for name in bits or by_method:
        # times come from the folds, or else from the trials
        results, verdict = evaluation.folds.get(name, ()), by_method.get(name)
        if verdict is not None and not results:
            fit_s, rate = verdict.fit_s, verdict.rate
        else:
            fit_s = spread([f.fit_s for f in results])
            rate = spread([f.units / max(f.score_s, 1e-9) for f in results])
        figures: dict[str, Any] = {}
        if name in bits:
            figures |= {"bits": bits[name].bits, "behind": bits[name].behind}
        if verdict is not None:
            figures |= {figure: getattr(verdict, figure) for figure in _VERDICTS}
        family, seconds = registry.load(name).family, fit_s[0] + units / rate[0]
        ranked.append(Ranked(name, family, seconds, fit_s, rate, **figures))
    return ranked
