"""Ranks methods on the user's data by held-out bits."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.engine import Job
from corpusfit.core.errors import InputError, MissingDependencyError, UsageError
from corpusfit.core.plan import DEFAULT_FRACTION, DEFAULT_METHOD, MethodPlan, Plan
from corpusfit.core.types import take_units, text_array
from corpusfit.evaluation.vector_score import VectorTask
from corpusfit.ranking.vectors import FEWEST_WORDS, SampleWords, leave_out, score_difference
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, Family, Method
from corpusfit.scoring.heldout_bits import (
    HALVES,
    Comparison,
    HeldOut,
    best_first,
    fit_to_sample,
    held_out,
)
from corpusfit.scoring.likeness import Likeness
from corpusfit.scoring.names import names as method_names
from corpusfit.selection.embedding import add_vectors
from corpusfit.selection.fit import Sample, alike
from corpusfit.selection.resolving import resolve_ranking
from corpusfit.selection.samples import background_texts, target_texts
from corpusfit.text.context import HERE, Machine, Run

BASELINE = "random"
"""Ranked beside every method."""
CURVE = (0.001, 0.01, 0.1, 0.3)
"""Shares of the corpus that are evaluated beside the asked one."""
NONE_BETTER = f"No method is shown better than the default, {DEFAULT_METHOD}."
_WORTH_A_WARNING = 0.1
"""Share of the target that held-out bits leave out, from which that is said."""


@dataclass(frozen=True)
class Unfit:
    """A method that could not be fitted on these texts, and why."""

    method: str
    why: str


@dataclass(frozen=True)
class FoldBits:
    """A method on one fold."""

    method: str
    # float64 [amounts, halves, n], bits of each target text by amount and half of the sample; 0 for
    # texts that are not evaluated on
    bits: NDArray[np.float64]
    seconds: float  # to fit it on a half, and to score both
    # with a task, what vectors of its selection from each half answer, as from `VectorTask.tally`
    tallies: Sequence[NDArray[np.uint8]] = ()


@dataclass(frozen=True)
class EvaluateBits(Job[tuple[MethodPlan, int], FoldBits | Unfit]):
    """Fit a method on all folds but one, score each half of the corpus sample, evaluate it."""

    target: Sample  # target, background: target and corpus sample
    background: Sample
    shares: tuple[float, ...]  # words to take, as shares of the sample's words; one or more amounts
    seed: int
    normalized: bool  # whether the target's texts are normalized; else they are to evaluate
    named: bool  # whether the user named the methods; then a method that cannot be used is an error
    task: VectorTask | None = None  # to score word vectors of the selections by
    words: int = 0  # of each selection to learn word vectors from

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
        words = SampleWords.of(self.background) if self.task else None
        batch = functools.cache(Sample.batch)  # all methods read the same texts
        return lambda piece: self._work(held, words, batch, *piece)

    def _work(
        self,
        held: HeldOut,
        words: SampleWords | None,
        batch: Callable[..., Any],
        plan: MethodPlan,
        fold: int,
    ) -> FoldBits | Unfit:
        halves = []
        tallies = []
        seconds = 0.0
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
                seconds += (ready - started) / HALVES + time.perf_counter() - ready
                halves.append(held.bits(scores, fold, self.shares, units))
                if self.task and words:
                    selected = words.first(units[best_first(scores)], self.words)
                    tally = self.task.tally(selected, self.seed + HALVES * fold + number)
                    tallies.append(tally.astype(np.uint8))  # each is 0 or 1
        except InputError as e:
            return Unfit(plan.name, str(e))
        except (UsageError, MissingDependencyError) as e:
            if self.named:
                raise
            return Unfit(plan.name, str(e))
        return FoldBits(plan.name, np.stack(halves, axis=1), seconds, tallies)


@dataclass(frozen=True)
class Evaluation:
    """Methods evaluated by held-out bits."""

    held: HeldOut
    folds: Mapping[str, Sequence[FoldBits]]  # each method's results on all folds
    unfit: Mapping[str, str]  # why the other methods cannot be fitted, by name

    def comparison(self, amount: int = 0) -> Comparison:
        """The methods compared at an amount, by its position."""
        bits = {
            method: np.sum([fold.bits[amount] for fold in results], axis=0)
            for method, results in self.folds.items()
        }
        return Comparison(self.held, bits)

    def tallies(self, method: str) -> list[NDArray[np.int64]]:
        """What vectors of a method's selections answer, one for each fold and half."""
        return [tally.astype(np.int64) for fold in self.folds[method] for tally in fold.tallies]


def require_comparable(run: Run, held: HeldOut) -> None:
    """Raise an error if too few texts of the target are left to compare methods; warn of some."""
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in held.left_out.items())
    excluded = f"of the target's {np.count_nonzero(held.folds >= 0):,} units, {left_out}"
    if not held.usable:
        why = f": {excluded}" if left_out else ""
        raise InputError(
            "Methods cannot be compared on held-out text, which needs two different texts of the "
            "target that have words of the corpus and are not in it"
            f"{why}. Add other texts to the target."
        )
    if sum(held.left_out.values()) > _WORTH_A_WARNING * np.count_nonzero(held.folds >= 0):
        run.warn(f"Held-out bits do not count all texts: {excluded}.")


def evaluate(run: Run, job: EvaluateBits, held: HeldOut, plans: Sequence[MethodPlan]) -> Evaluation:
    """Evaluate methods on every fold."""
    folds: dict[str, list[FoldBits]] = {}
    unfit: dict[str, str] = {}
    took: dict[str, float] = {}
    pieces = [(plan, fold) for fold in range(held.count) for plan in plans]
    with run.stage("rank", held.count):
        for result in run.engine.map(job, pieces):
            if isinstance(result, Unfit):
                unfit[result.method] = result.why
            else:
                folds.setdefault(result.method, []).append(result)
                took.setdefault(result.method, result.seconds)
            # For an honest ETA, a method advances a fold by its share of the seconds of all, which
            # the first fold measures.
            measured = len(took) >= len(plans) and result.method in took
            share = took[result.method] / sum(took.values()) if measured else 1 / len(plans)
            run.progress.advance(share)
    usable = {method: results for method, results in folds.items() if method not in unfit}
    return Evaluation(held, usable, unfit)


@dataclass(frozen=True)
class Ranked:
    """A method's bits and cost.

    Attributes:
        seconds: seconds to fit and to score the corpus sample, one thread.
        bits: bits per word on held-out target text.
        behind: how many more than the best method, and the ends of the 95 % interval.
        than_random: how many more than `random`, with the interval; negative is better.
        equal: whether the method is not shown worse than the best: its interval includes 0.
        curve: bits by share of the corpus that is selected; None if the sample has too few words.
        score: with a task, the score of word vectors of the selections, the mean over folds and
            halves.
        score_than_random: how much higher than that of `random`, with the 95 % interval over
            samples of the corpus, vectors and test texts.
    """

    method: str
    family: Family
    seconds: float
    bits: float
    behind: tuple[float, float, float]
    than_random: tuple[float, float, float]
    equal: bool
    curve: tuple[tuple[float, float | None], ...]
    score: float | None = None
    score_than_random: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Ranking(Sequence[Ranked]):
    """Methods, those that are not shown worse than the best first.

    Attributes:
        methods: their bits and costs.
        fraction: share of the corpus by which they are ordered.
        likeness: what the corpus has of the target; None for a tiny target.
        metric: of the scores; empty without a task.
        words: of each selection that word vectors are learned from.
        test_texts: number of test texts that they are scored on.
    """

    methods: tuple[Ranked, ...]
    fraction: float
    likeness: Likeness | None = None
    metric: str = ""
    words: int = 0
    test_texts: int = 0

    def __len__(self) -> int:
        """The number of methods."""
        return len(self.methods)

    def __getitem__(self, index: Any) -> Any:
        """A method, or some of them."""
        return self.methods[index]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each method, as for `pandas.DataFrame(rows)`; scores are in points."""
        rows = []
        for each in self.methods:
            row = {name: getattr(each, name) for name in ("method", "family", "seconds", "bits")}
            spreads: dict[str, Sequence[float]] = {
                "than_best": each.behind,
                "than_random": each.than_random,
            }
            if each.score is not None and each.score_than_random is not None:
                row["score"] = 100 * each.score
                spreads["score_than_random"] = [100 * value for value in each.score_than_random]
            for name, (mean, low, high) in spreads.items():
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"equal": each.equal})
        return rows

    def findings(self) -> list[str]:
        """What the ranking shows, in sentences."""
        sentences = []
        if self.likeness is not None:
            likeness = self.likeness
            sentences.append(likeness.warning() if likeness.foreign else str(likeness))
        equal = [each.method for each in self.methods if each.equal and each.method != BASELINE]
        if not equal:
            return sentences
        best = min((m for m in self.methods if m.method in equal), key=lambda m: m.bits)
        if equal[0] != best.method:
            sentences.append(f"{equal[0]} is not shown worse than the best, {best.method}.")
        if best.than_random[2] >= 0:
            sentences.append(
                f"The best method, {best.method}, is not shown better than random text of the "
                f"corpus at {100 * self.fraction:g} %. Rank at a larger `choose.fraction`, add "
                "texts to the target, or look for another corpus."
            )
        elif best.method == DEFAULT_METHOD:
            sentences.append(NONE_BETTER)
        elif any(each.method == DEFAULT_METHOD and not each.equal for each in self.methods):
            sentences.append(f"{best.method} is shown better than the default, {DEFAULT_METHOD}.")
        worse = [m.method for m in self.methods if m.method != BASELINE and m.than_random[1] > 0]
        if worse:
            is_ = "is" if len(worse) == 1 else "are"
            sentences.append(f"{', '.join(worse)} {is_} shown worse than random text.")
        return sentences + self._score_of(equal[0])

    def _score_of(self, name: str) -> list[str]:
        """What the score of a method's selections shows, in a sentence; nothing without a task."""
        (method,) = (each for each in self.methods if each.method == name)
        if method.score is None or method.score_than_random is None:
            return []
        mean, low, high = (100 * value for value in method.score_than_random)
        interval = f"95 % interval {low:+.1f} to {high:+.1f}"
        shown = f"no difference from random text is shown ({mean:+.1f} points, {interval})"
        if low > 0 or high < 0:
            side = "above" if mean > 0 else "below"
            shown = f"{abs(mean):.1f} points {side} random text ({interval})"
        return [
            f"By word vectors of {self.words:,} selected words, {name} scores "
            f"{100 * method.score:.1f} {self.metric} on {self.test_texts:,} test texts: {shown}. "
            "It is a score of word vectors, not of your model."
        ]


def candidates() -> list[str]:
    """The methods that are ranked by default: they score texts, each alone or all together."""
    # Without those that need a name behind a colon, and without those that train a network.
    methods = {n: m for n in method_names() if not (m := registry.load(n)).argument}
    return [n for n, m in methods.items() if issubclass(m, Method | CorpusMethod) and m.exact]


def amounts(held: HeldOut, asked: float) -> list[float]:
    """The shares to evaluate: the one that orders the methods, then the others, increasing."""
    # A share of too few words says nothing: the next larger one orders the methods in its place.
    enough = [share for share in sorted({asked, *CURVE}) if held.measurable(share)]
    first = next((share for share in enough if share >= asked), asked)
    return [first, *(share for share in enough if share != first)]


def rank(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    names: Sequence[str],
    *,
    named: bool,
    task: VectorTask | None = None,
    machine: Machine = HERE,
) -> Ranking:
    """Rank methods on a sample of the user's corpus.

    If the user named them, one that cannot be used here is an error; else it is left out. With a
    task, word vectors of their selections are scored.
    """
    with machine.running() as run:
        resolved = resolve_ranking(run, plan, target, corpus_inputs, names)
        samples = (Sample(run.work, "target"), Sample(run.work, "background"))
        target_texts(run, resolved, samples[0])
        background_texts(run, resolved.plan, resolved.corpus, samples[1])
        if task:
            leave_out(run, task, *samples)
        if resolved.encoder:
            for sample in samples:
                add_vectors(run, sample, resolved.embed)
        return rank_methods(run, resolved.plan, names, *samples, named=named, task=task)


def rank_methods(
    run: Run,
    plan: Plan,
    names: Sequence[str],
    target: Sample,
    background: Sample,
    *,
    named: bool,
    task: VectorTask | None = None,
) -> Ranking:
    """Rank methods by held-out bits."""
    # A method that cannot be fitted on some fold of the target is left out, with a warning; so is
    # one that cannot be used on this machine, unless the user named it. `BASELINE` is always
    # ranked.
    options = plan.method.options if len(names) == 1 else {}
    all_names = list(dict.fromkeys([*names, BASELINE]))
    plans = [
        registry.with_embedder(MethodPlan(n, options if n in names else {}), plan.embed.embedder)
        for n in all_names
    ]
    asked = DEFAULT_FRACTION if plan.choose.fraction is None else plan.choose.fraction
    job = EvaluateBits(target, background, (asked,), plan.seed, plan.fit.normalize, named, task)
    held = job.held()
    require_comparable(run, held)
    shares = amounts(held, asked)
    words = SampleWords.of(background).most(held, shares[0]) if task else 0
    if task and words < FEWEST_WORDS:
        run.warn(
            f"Word vectors are learned from only {words:,} words of each selection. Of fewer than "
            f"{FEWEST_WORDS:,} their scores vary much: raise `fit.background` or "
            "`choose.fraction`, or add texts to the corpus."
        )
    job = dataclasses.replace(job, shares=tuple(shares), words=words)
    evaluation = evaluate(run, job, held, plans)
    for method, why in evaluation.unfit.items():
        if {*evaluation.unfit} >= {*names}:
            raise InputError(why)
        run.warn(f"{method} is left out of the ranking: {why}")
    ranked = ranked_methods(evaluation, shares, sorted({asked, *CURVE}), task)
    measured = run.one(partial(alike, background, plan.seed), target)
    if task is None:
        return Ranking(tuple(ranked), shares[0], measured)
    return Ranking(tuple(ranked), shares[0], measured, task.metric, words, len(task.task.test))


def ranked_methods(
    evaluation: Evaluation,
    shares: Sequence[float],
    curve: Sequence[float],
    task: VectorTask | None = None,
) -> list[Ranked]:
    """The methods in the order of the ranking, which the first of the measured shares decides."""
    by_share = {share: evaluation.comparison(i) for i, share in enumerate(shares)}
    comparison = by_share[shares[0]]
    names = sorted(evaluation.folds, key=lambda name: (comparison.bits(name), name))
    best = next((name for name in names if name != BASELINE), BASELINE)
    ranked = []
    for name in names:
        behind = comparison.difference(name, best)
        score = None
        higher = None
        if task:
            tallies = evaluation.tallies(name)
            score = task.score(tallies)
            higher = dataclasses.astuple(
                score_difference(task, tallies, evaluation.tallies(BASELINE))
            )
        ranked.append(
            Ranked(
                name,
                registry.load(name).family,
                seconds=float(np.mean([fold.seconds for fold in evaluation.folds[name]])),
                bits=comparison.bits(name),
                behind=dataclasses.astuple(behind),
                than_random=dataclasses.astuple(comparison.difference(name, BASELINE)),
                equal=behind.low <= 0,
                curve=tuple(
                    (share, by_share[share].bits(name) if share in by_share else None)
                    for share in curve
                ),
                score=score,
                score_than_random=higher,
            )
        )
    # of those that are not shown worse than the best, the default comes first
    return sorted(ranked, key=lambda each: each.method != DEFAULT_METHOD or not each.equal)
