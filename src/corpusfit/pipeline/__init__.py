"""The commands as functions: `select`, `adapt`, `evaluate` and others; each step is one module."""

from corpusfit.pipeline.adapt_dry_run import estimate_adaptation
from corpusfit.pipeline.adapting import Adapted, adapt
from corpusfit.pipeline.auditing import Audit, audit
from corpusfit.pipeline.clustering import Clustered, clusters
from corpusfit.pipeline.commands import choose, rank, score, select
from corpusfit.pipeline.composing import Composition, compose, estimate_composition
from corpusfit.pipeline.contamination.report import Contamination, report_contamination
from corpusfit.pipeline.evaluate_dry_run import estimate_evaluation
from corpusfit.pipeline.evaluating import Evaluated, evaluate
from corpusfit.pipeline.explaining import Explanation, explain
from corpusfit.pipeline.forecasting import Forecast, forecast
from corpusfit.pipeline.inputs import TASK
from corpusfit.pipeline.overlap import SplitOverlap, overlaps
from corpusfit.pipeline.recipes.running import Ran, run_recipe
from corpusfit.pipeline.recipes.status import Missing, missing
from corpusfit.pipeline.result import Selection
from corpusfit.pipeline.retrieving import Retrieval, retrieval
from corpusfit.pipeline.run import Machine
from corpusfit.pipeline.select_dry_run import estimate
from corpusfit.pipeline.splitting import Split, SplitPlan, split
from corpusfit.pipeline.tokenizer_fertility import Figure, Tokenized, tokenizers

__all__ = [
    "TASK",
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
    "Selection",
    "Split",
    "SplitOverlap",
    "SplitPlan",
    "Tokenized",
    "adapt",
    "audit",
    "choose",
    "clusters",
    "compose",
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
    "report_contamination",
    "retrieval",
    "run_recipe",
    "score",
    "select",
    "split",
    "tokenizers",
]
