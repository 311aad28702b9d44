"""Evaluates methods by held-out bits, on every fold of the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import Job
from corpusfit.core.plan import MethodPlan
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.heldout_bits import Bits, HeldOut, compare
from corpusfit.scoring.rank import Trial
from corpusfit.selection.bits_job import EvaluateBits, FoldBits
from corpusfit.selection.fit import Unfit
from corpusfit.text.context import Run

R = TypeVar("R", FoldBits, Trial)


@dataclass(frozen=True)
class Evaluation:
    """Methods evaluated by held-out bits.

    Attributes:
        held: what they were evaluated on; None without a verdict.
        folds: each method's results on all folds.
        unfit: why the other methods cannot be fitted, by name.
    """

    held: HeldOut | None
    folds: Mapping[str, Sequence[FoldBits]]
    unfit: Mapping[str, str]

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
        folds = {m: found for m, found in self.folds.items() if m not in methods}
        return Evaluation(self.held, folds, self.unfit)


def evaluate(
    run: Run, job: EvaluateBits, held: HeldOut, plans: Sequence[MethodPlan], took: dict[str, float]
) -> Evaluation:
    """Evaluate methods on every fold, within a stage; warns of texts that are left out."""
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in held.left_out.items())
    of = f"of the target's {np.count_nonzero(held.folds >= 0):,} units, {left_out}"
    if not held.usable:
        run.warn(
            "Methods and amounts cannot be compared on held-out text, which needs two different "
            f"texts of the target that are not in the corpus{f': {of}' * bool(left_out)}. Add "
            "other texts to the target."
        )
        whole = [p.name for p in plans if issubclass(registry.load(p.name), CorpusMethod)]
        return Evaluation(None, {}, dict.fromkeys(whole, "only held-out bits can rank it."))
    if left_out:
        run.warn(f"Held-out bits do not count all texts: {of}.")
    pieces = [(plan, fold) for fold in range(held.count) for plan in plans]
    found, unfit = in_rounds(run, job, pieces, took, 1.0)
    folds: dict[str, list[FoldBits]] = {}
    for fold in found:
        folds.setdefault(fold.method, []).append(fold)
    return Evaluation(held, folds, unfit).without(unfit)


def in_rounds(
    run: Run,
    job: Job[tuple[MethodPlan, int], R | Unfit],
    pieces: Sequence[tuple[MethodPlan, int]],
    took: dict[str, float],
    weight: float,
) -> tuple[list[R], dict[str, str]]:
    """Run a job on pieces in rounds over methods; returns results, and why methods are unfit.

    A round advances the progress by `weight`. For a true time left, each method advances it by its
    share of the seconds that the methods `took`, once they are known of all; the first round notes
    them.
    """
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
        known = len(took) >= methods and result.method in took
        share = took[result.method] / sum(took.values()) if known else 1 / methods
        run.machine.progress.advance(weight * share)
    return results, unfit
