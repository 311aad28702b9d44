"""The job that evaluates a method by held-out bits, on one fold of the target."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.engine import Job
from corpusfit.core.errors import InputError, MissingDependencyError, UsageError
from corpusfit.core.plan import MethodPlan, Plan
from corpusfit.core.types import taken_of, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.heldout_bits import SHARE, HeldOut, fit_to_sample, held_out
from corpusfit.selection.fit import Sample, Unfit


@dataclass(frozen=True)
class FoldBits:
    """A method on one fold.

    Attributes:
        bits: float64 [amounts, n], bits of each target text by amount; 0 for texts that are not
            evaluated on.
        fit_s, score_s: seconds to fit it, and to score the sample.
        units: number of units in the sample.
    """

    method: str
    bits: NDArray[np.float64]
    fit_s: float
    score_s: float
    units: int


@dataclass(frozen=True)
class EvaluateBits(Job[tuple[MethodPlan, int], FoldBits | Unfit]):
    """Fit a method on all folds but one, score the corpus sample, and evaluate what it takes.

    Attributes:
        target, background: target and corpus sample.
        shares: words to take, as shares of the sample's words; one or more amounts.
        seed: random seed of folds and fits.
        normalised: whether the target's texts are normalised; else they are to evaluate.
        named: whether the user named the methods; then a method that cannot be used is an error.
    """

    target: Sample
    background: Sample
    shares: tuple[float, ...]
    seed: int
    normalised: bool
    named: bool

    @classmethod
    def of(
        cls,
        plan: Plan,
        target: Sample,
        background: Sample,
        shares: tuple[float, ...] = (SHARE,),
        *,
        named: bool,
    ) -> EvaluateBits:
        """The job for a run's samples."""
        return cls(target, background, shares, plan.seed, plan.fit.normalise, named)

    def held(self) -> HeldOut:
        """The folds."""
        texts = self.target.batch("text")
        if not self.normalised:
            texts = text_array([corpus.normalise(text) for text in texts.to_pylist()])
        sample, documents = self.background.batch("text"), self.target.documents()
        return held_out(texts, sample, seed=self.seed, documents=documents)

    def start(self) -> Callable[[tuple[MethodPlan, int]], FoldBits | Unfit]:
        """Number the words of target and sample once."""
        held = self.held()
        return lambda piece: self._work(held, *piece)

    def _work(self, held: HeldOut, plan: MethodPlan, fold: int) -> FoldBits | Unfit:
        try:
            method = registry.build(plan.name, plan.options)
            target, sample = (s.batch(method.fits_on) for s in (self.target, self.background))
            started = time.perf_counter()
            fitted = taken_of(target, held.fitted(fold))
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
