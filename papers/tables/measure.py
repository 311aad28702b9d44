"""Fitting a method, scoring the documents, and comparing the scores with the true domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import Paired, read_as
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod

Variant = tuple[str, tuple[tuple[str, Any], ...]]
"""A method's name and its non-default settings."""

COMPARED: tuple[Variant, ...] = (
    ("consensus", ()),
    ("domain_cosine", (("centered", True),)),
    ("domain_cosine", (("centered", False),)),
    ("domain_classifier", ()),
    ("cluster_ratio", ()),
    ("knn", ()),
    ("isolation_forest", ()),
    ("dsir", ()),
)
"""Methods of tables that do not include all."""


@dataclass(frozen=True, eq=False)
class Scored:
    """What a method says of n documents.

    Attributes:
        scores: float32 [n].
        share: estimated share of the target's domain; None without an estimate.
    """

    scores: NDArray[np.float32]
    share: float | None


def shown(variant: Variant) -> str:
    """A method's name with its settings."""
    name, settings = variant
    return f"{name} ({', '.join(f'{k}={v}' for k, v in settings)})" if settings else name


def scored(
    variant: Variant, target: Paired, background: Paired, units: Paired, *, embedder: str, seed: int
) -> Scored:
    """Fit a method on target and background, and score n units."""
    plan = registry.with_embedder(MethodPlan(variant[0], dict(variant[1])), embedder or "minilm")
    method = registry.build(plan.name, plan.options)
    learned = read_as(target, method.fits_on), read_as(background, method.fits_on)
    read = read_as(units, method.reads)
    if isinstance(method, CorpusMethod):
        _, scores = next(iter(method.score_corpus([(0, read)], *learned, seed=seed)))
        return Scored(scores, None)
    scorer = registry.unit_method(plan.name, plan.options).fit(*learned, seed=seed)
    return Scored(scorer.score(read), getattr(scorer, "share", None))


def average_precision(found: Scored, truth: NDArray[np.bool_]) -> float:
    """Over all units."""
    return float(average_precision_score(truth, found.scores))


def best(scores: NDArray[np.float32], amount: int) -> NDArray[np.int64]:
    """Indices of the given number of best scores; the first of equal ones."""
    return np.argsort(-scores, kind="stable")[:amount]
