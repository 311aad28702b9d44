"""Find the part of a corpus that is like your task, and show that it is.

import corpusfit

run = corpusfit.select(target="task.jsonl", corpus="pile/", out="out/", fraction=0.1)
for segment in run:
    print(segment["score"], segment["source"], segment["text"][:80])
"""

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.api import (
    adapt,
    audit,
    choose,
    clusters,
    compose,
    contamination,
    evaluate,
    explain,
    forecast,
    overlaps,
    rank,
    report,
    retrieval,
    run,
    score,
    select,
    split,
    tokenizers,
)
from corpusfit.errors import CorpusfitError
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.explore.plan import ClustersPlan
from corpusfit.pipeline import (
    Adapted,
    Audit,
    Clustered,
    Composition,
    Contamination,
    Evaluated,
    Explanation,
    Forecast,
    Machine,
    Retrieval,
    Selection,
    Split,
    SplitOverlap,
    Tokenized,
)
from corpusfit.plan import Plan

__all__ = [
    "AdaptPlan",
    "Adapted",
    "Audit",
    "Clustered",
    "ClustersPlan",
    "Composition",
    "Contamination",
    "CorpusfitError",
    "EvaluatePlan",
    "Evaluated",
    "Explanation",
    "Forecast",
    "Machine",
    "Plan",
    "Retrieval",
    "Selection",
    "Split",
    "SplitOverlap",
    "Tokenized",
    "adapt",
    "audit",
    "choose",
    "clusters",
    "compose",
    "contamination",
    "evaluate",
    "explain",
    "forecast",
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
