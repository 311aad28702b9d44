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
    contamination,
    evaluate,
    explain,
    forecast,
    rank,
    report,
    run,
    score,
    select,
)
from corpusfit.errors import CorpusfitError
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.explore.plan import ClustersPlan
from corpusfit.pipeline import (
    Adapted,
    Audit,
    Clustered,
    Contamination,
    Evaluated,
    Explanation,
    Forecast,
    Machine,
    Selection,
)
from corpusfit.plan import Plan

__all__ = [
    "AdaptPlan",
    "Adapted",
    "Audit",
    "Clustered",
    "ClustersPlan",
    "Contamination",
    "CorpusfitError",
    "EvaluatePlan",
    "Evaluated",
    "Explanation",
    "Forecast",
    "Machine",
    "Plan",
    "Selection",
    "adapt",
    "audit",
    "choose",
    "clusters",
    "contamination",
    "evaluate",
    "explain",
    "forecast",
    "rank",
    "report",
    "run",
    "score",
    "select",
]
