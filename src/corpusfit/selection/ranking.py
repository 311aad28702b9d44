"""Ranks methods on the user's data: by held-out bits, by agreement and by F1."""

from __future__ import annotations

import dataclasses
import functools
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
from corpusfit.core.plan import DEFAULT_FRACTION, DEFAULT_METHOD, MethodPlan
from corpusfit.core.types import take_units, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, Family, Method
from corpusfit.scoring.heldout_bits import (
    HALVES,
    Comparison,
    HeldOut,
    fit_to_sample,
    held_out,
)
from corpusfit.scoring.likeness import Likeness
from corpusfit.scoring.names import names as method_names
from corpusfit.scoring.rank import Trial, spread, verdicts
from corpusfit.selection.fit import Sample, Unfit, alike, rank
from corpusfit.text.context import Run

SEEDS = 3
BASELINE = "random"
"""Ranked beside every method."""
CURVE = (0.001, 0.01, 0.1, 0.3)
"""Shares of the corpus that are evaluated beside the asked one."""
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
    # float64 [amounts, halves, n], bits of each target text by amount and half of the sample; 0 for
    # texts that are not evaluated on
    bits: NDArray[np.float64]
    fit_s: float  # fit_s, score_s: seconds to fit it on a half, and to score both
    score_s: float
    units: int


@dataclass(frozen=True)
class EvaluateBits(Job[tuple[MethodPlan, int], FoldBits | Unfit]):
    """Fit a method on all folds but one, score each half of the corpus sample, evaluate it."""

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
        return held_out(
            texts,
            self.background.batch("text"),
            seed=self.seed,
            documents=self.target.documents(),
            sample_documents=self.background.documents(),
        )

    def start(self) -> Callable[[tuple[MethodPlan, int]], FoldBits | Unfit]:
        held = self.held()
        batch = functools.cache(Sample.batch)  # all methods read the same texts
        return lambda piece: self._work(held, batch, *piece)

    def _work(
        self, held: HeldOut, batch: Callable[..., Any], plan: MethodPlan, fold: int
    ) -> FoldBits | Unfit:
        halves = []
        fit_s = score_s = 0.0
        try:
            method = registry.build(plan.name, plan.options)
            target = take_units(batch(self.target, method.fits_on), held.fitted(fold))
            sample = batch(self.background, method.fits_on, method.fields)
            for number in range(HALVES):
                units = held.half(fold, number)
                started = time.perf_counter()
                score = fit_to_sample(method, target, take_units(sample, units), seed=self.seed)
                ready = time.perf_counter()
                scores = score()
                fit_s += (ready - started) / HALVES
                score_s += time.perf_counter() - ready
                halves.append(held.bits(scores, fold, self.shares, units))
        except InputError as e:
            return Unfit(plan.name, str(e))
        except (UsageError, MissingDependencyError) as e:
            if self.named:
                raise
            return Unfit(plan.name, str(e))
        return FoldBits(plan.name, np.stack(halves, axis=1), fit_s, score_s, len(sample))


@dataclass(frozen=True)
class Evaluation:
    """Methods evaluated by held-out bits."""

    held: HeldOut | None
    folds: Mapping[str, Sequence[FoldBits]]  # each method's results on all folds
    unfit: Mapping[str, str]  # why the other methods cannot be fitted, by name

    def comparison(self, amount: int = 0) -> Comparison | None:
        """The methods compared at an amount, by its position; None if too few texts are left."""
        if self.held is None:
            return None
        bits = {
            method: np.sum([fold.bits[amount] for fold in results], axis=0)
            for method, results in self.folds.items()
        }
        return Comparison(self.held, bits)

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
        than_random: how many more than `random`, with the interval; negative is better.
        equal: whether the method is not shown worse than the best: its interval includes 0.
        curve: bits by share of the corpus that is selected; None if the sample has too few words.
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
    than_random: tuple[float, float, float] | None = None
    equal: bool = False
    curve: tuple[tuple[float, float | None], ...] = ()
    agreement: tuple[float, float] | None = None
    f1: tuple[float, float] | None = None
    auroc: tuple[float, float] | None = None
    ap: tuple[float, float] | None = None


@dataclass(frozen=True)
class Ranking(Sequence[Ranked]):
    """Methods, those that are not shown worse than the best first.

    Attributes:
        methods: the verdicts.
        fraction: share of the corpus by which they are ordered; None without bits.
        likeness: what the corpus has of the target; None for a tiny target.
    """

    methods: tuple[Ranked, ...]
    fraction: float | None = None
    likeness: Likeness | None = None

    def __len__(self) -> int:
        """The number of methods."""
        return len(self.methods)

    def __getitem__(self, index: Any) -> Any:
        """A method, or some of them."""
        return self.methods[index]

    def findings(self) -> list[str]:
        """What the ranking shows, in sentences."""
        found = []
        if self.likeness is not None:
            found.append(self.likeness.warning() if self.likeness.foreign else str(self.likeness))
        equal = [each.method for each in self.methods if each.equal and each.method != BASELINE]
        if not equal:
            return found
        best = min((m for m in self.methods if m.method in equal), key=lambda m: m.bits or 0.0)
        if equal[0] != best.method:
            found.append(f"{equal[0]} is not shown worse than the best, {best.method}.")
        if best.than_random is not None and best.than_random[2] >= 0:
            found.append(
                f"The best method, {best.method}, is not shown better than random text of the "
                "corpus, so no choice of a method matters here. Add texts to the target, or look "
                "for another corpus."
            )
        return found


def candidates() -> list[str]:
    """The methods that are ranked by default: they score texts, each alone or all together."""
    # Without those that need a name behind a colon, and without those that train a network.
    methods = {n: m for n in method_names() if not (m := registry.load(n)).argument}
    return [n for n, m in methods.items() if issubclass(m, Method | CorpusMethod) and m.exact]


def amounts(held: HeldOut, asked: float, curve: Sequence[float]) -> list[float]:
    """The shares to evaluate: the one that orders the methods, then the others, increasing."""
    # A share of too few words says nothing: the next larger one orders the methods in its place.
    shares = sorted({asked, *curve})
    enough = [share for share in shares if held.measurable(share)]
    first = next((share for share in enough if share >= asked), asked)
    return [first, *(share for share in enough if share != first)]


def rank_methods(
    run: Run,
    names: Sequence[str],
    target: Sample,
    background: Sample,
    seeds: int,
    *,
    named: bool,
) -> Ranking:
    """Rank methods by held-out bits, by agreement and by F1; without `seeds` by bits alone."""
    # A method that cannot be fitted on some split of the target is left out, with a warning; so is
    # one that cannot be used on this machine, unless the user named it. `BASELINE` is always
    # ranked.
    plan = run.plan
    options = plan.method.options if len(names) == 1 else {}
    all_names = list(dict.fromkeys([*names, BASELINE]))
    plans = [
        registry.with_embedder(MethodPlan(n, options if n in names else {}), plan.embed.embedder)
        for n in all_names
    ]
    # texts of the target have no numbers, so methods that score by these have only bits
    built = [(p, registry.build(p.name, p.options)) for p in plans]
    alone = [p for p, method in built if isinstance(method, Method) and not method.fields]
    pieces = [(p, plan.seed + i) for i in range(seeds) for p in alone]
    asked = DEFAULT_FRACTION if plan.choose.fraction is None else plan.choose.fraction
    folds = EvaluateBits(target, background, (asked,), plan.seed, plan.fit.normalize, named)
    held = folds.held()
    shares = amounts(held, asked, CURVE if seeds else ())
    folds = dataclasses.replace(folds, shares=tuple(shares))
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
    units = len(background.read_texts())
    figures = _figures(evaluation, shares, sorted({asked, *CURVE}))
    ranked = []
    for name in figures or by_method:
        # times come from the folds, or else from the trials
        results, verdict = evaluation.folds.get(name, ()), by_method.get(name)
        if verdict is not None and not results:
            fit_s, rate = verdict.fit_s, verdict.rate
        else:
            fit_s = spread([f.fit_s for f in results])
            rate = spread([f.units / max(f.score_s, 1e-9) for f in results])
        found = figures.get(name, {})
        if verdict is not None:
            found |= {figure: getattr(verdict, figure) for figure in _VERDICTS}
        family, seconds = registry.load(name).family, fit_s[0] + units / rate[0]
        ranked.append(Ranked(name, family, seconds, fit_s, rate, **found))
    measured = run.one(partial(alike, background, plan.seed), target) if seeds else None
    return Ranking(tuple(ranked), shares[0] if figures else None, measured)


def _figures(
    evaluation: Evaluation, shares: Sequence[float], curve: Sequence[float]
) -> dict[str, dict[str, Any]]:
    """The bits of every method, in the order of the ranking; nothing without held-out text."""
    comparison = evaluation.comparison()
    if comparison is None or not evaluation.folds:
        return {}
    by_share = {share: evaluation.comparison(i) for i, share in enumerate(shares)}
    names = sorted(evaluation.folds, key=lambda name: (comparison.bits(name), name))
    best = next((name for name in names if name != BASELINE), BASELINE)
    figures: dict[str, dict[str, Any]] = {}
    for name in names:
        behind = comparison.difference(name, best)
        figures[name] = {
            "bits": comparison.bits(name),
            "behind": dataclasses.astuple(behind),
            "equal": behind.low <= 0,
            "curve": tuple(
                (share, None if (at := by_share.get(share)) is None else at.bits(name))
                for share in curve
            ),
        }
        if BASELINE in names:
            difference = comparison.difference(name, BASELINE)
            figures[name]["than_random"] = dataclasses.astuple(difference)
    # of those that are not shown worse than the best, the default comes first
    order = sorted(names, key=lambda name: name != DEFAULT_METHOD or not figures[name]["equal"])
    return {name: figures[name] for name in order}
