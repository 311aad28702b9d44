"""The Python API: each command as a function, with the options' names as keywords."""

from corpusfit.api.adapting import adapt, contamination, estimate_adaptation, forecast
from corpusfit.api.composing import compose, estimate_composition
from corpusfit.api.crosslingual import retrieval, tokenizers
from corpusfit.api.evaluating import estimate_evaluation, evaluate, missing, run
from corpusfit.api.exploring import clusters
from corpusfit.api.plans import build_adapt_plan, build_evaluate_plan, build_plan
from corpusfit.api.reporting import report
from corpusfit.api.selecting import audit, choose, estimate, explain, rank, score, select
from corpusfit.api.splitting import overlaps, split
from corpusfit.pipeline import (
    Adapted,
    Audit,
    Clustered,
    Composition,
    Contamination,
    Evaluated,
    Explanation,
    Figure,
    Forecast,
    Machine,
    Missing,
    Ran,
    Retrieval,
    Split,
    SplitOverlap,
    Tokenized,
)

__all__ = [
    "Adapted",
    "Audit",
    "Clustered",
    "Composition",
    "Contamination",
    "Evaluated",
    "Explanation",
    "Figure",
    "Forecast",
    "Machine",
    "Missing",
    "Ran",
    "Retrieval",
    "Split",
    "SplitOverlap",
    "Tokenized",
    "adapt",
    "audit",
    "build_adapt_plan",
    "build_evaluate_plan",
    "build_plan",
    "choose",
    "clusters",
    "compose",
    "contamination",
    "estimate",
    "estimate_adaptation",
    "estimate_composition",
    "estimate_evaluation",
    "evaluate",
    "explain",
    "forecast",
    "missing",
    "overlaps",
    "rank",
    "report",
    "retrieval",
    "run",
    "score",
    "select",
    "split",
    "tokenizers",
]
