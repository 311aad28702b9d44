"""The package's names; `__init__.py` loads each when it is first used."""

from .adapting import adapt, contamination, estimate_adaptation, forecast
from .composing import compose, estimate_composition
from .crosslingual import retrieval, tokenizers
from .evaluating import estimate_evaluation, evaluate, missing, run
from .exploring import clusters
from .maintaining import cache, doctor, prune_cache
from .opening import open
from .plans import build_adapt_plan, build_evaluate_plan, build_plan, build_tune_plan
from .reporting import report
from .selecting import audit, choose, estimate, explain, rank, score, select
from .splitting import overlaps, split
from .tuning import estimate_tuning, tune

__all__ = [
    "adapt",
    "audit",
    "build_adapt_plan",
    "build_evaluate_plan",
    "build_plan",
    "build_tune_plan",
    "cache",
    "choose",
    "clusters",
    "compose",
    "contamination",
    "doctor",
    "estimate",
    "estimate_adaptation",
    "estimate_composition",
    "estimate_evaluation",
    "estimate_tuning",
    "evaluate",
    "explain",
    "forecast",
    "missing",
    "open",
    "overlaps",
    "prune_cache",
    "rank",
    "report",
    "retrieval",
    "run",
    "score",
    "select",
    "split",
    "tokenizers",
    "tune",
]
