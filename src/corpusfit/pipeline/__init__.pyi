"""The package's names; `__init__.py` loads each when it is first used."""

from .adapt_dry_run import estimate_adaptation
from .adapting import Adapted, adapt
from .auditing import Audit, audit
from .clustering import Clustered, clusters
from .commands import choose, rank, score, select
from .composing import Composition, compose, estimate_composition
from .contamination.report import Contamination, report_contamination
from .evaluate_dry_run import estimate_evaluation
from .evaluating import Evaluated, evaluate
from .explaining import Explanation, explain
from .forecasting import Forecast, forecast
from .overlap import SplitOverlap, overlaps
from .recipes.running import Ran, run_recipe
from .recipes.status import Missing, missing
from .result import Selection
from .retrieving import Retrieval, retrieval
from .run import Machine
from .select_dry_run import estimate
from .splitting import Split, SplitPlan, split
from .tokenizer_fertility import Figure, Tokenized, tokenizers
from .tuning.dry_run import estimate_tuning
from .tuning.plan import TunePlan
from .tuning.result import Tuned
from .tuning.running import TuneInputs, tune

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
    "Selection",
    "Split",
    "SplitOverlap",
    "SplitPlan",
    "Tokenized",
    "TuneInputs",
    "TunePlan",
    "Tuned",
    "adapt",
    "audit",
    "choose",
    "clusters",
    "compose",
    "estimate",
    "estimate_adaptation",
    "estimate_composition",
    "estimate_evaluation",
    "estimate_tuning",
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
    "tune",
]
