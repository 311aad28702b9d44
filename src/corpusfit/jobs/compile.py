"""Compiles the kernels of methods on words, in a worker that is idle."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from corpusfit.engine import PlainJob
from corpusfit.errors import CorpusfitError
from corpusfit.plan import MethodPlan
from corpusfit.score import registry
from corpusfit.score.contract import Method
from corpusfit.types import text_array

_TEXTS = ("A few words of a text.", "Other words, and a number: 42.", "The third one has words.")


@dataclass(frozen=True)
class CompileKernels(PlainJob[MethodPlan, None]):
    """Fit a method on texts and score them, so that numba compiles what it calls.

    Meanwhile the first process compiles reading and cutting, which takes as long.
    """

    def _work(self, plan: MethodPlan) -> None:
        method = registry.build(plan.name, plan.options)
        if isinstance(method, Method) and not method.encodes:
            texts = text_array(_TEXTS)
            with contextlib.suppress(CorpusfitError):  # too few texts for it
                method.fit(texts, texts, seed=0).score(texts)
