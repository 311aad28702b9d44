"""Compiles the kernels of cutting and of methods on words, in a worker that is idle."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from corpusfit.core.engine import PlainJob
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.plan import CutPlan, MethodPlan
from corpusfit.core.types import Documents, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.text.reading import cut_units

_TEXTS = ("A few words of a text.", "Other words, and a number: 42.", "The third one has words.")


@dataclass(frozen=True)
class CompileKernels(PlainJob[MethodPlan, None]):
    """Cut texts, fit a method on them and score them, so that numba compiles what it calls."""

    def _work(self, plan: MethodPlan) -> None:
        cut_units(Documents(np.arange(len(_TEXTS)), text_array(_TEXTS)), CutPlan())
        method = registry.build(plan.name, plan.options)
        if isinstance(method, Method) and not method.encodes:
            texts = text_array(_TEXTS)
            with contextlib.suppress(CorpusfitError):  # too few texts for it
                method.fit(texts, texts, seed=0).score(texts)
