"""The package's names; `__init__.py` loads each when it is first used."""

from .adaptation.adapting import Adapted, adapt
from .adaptation.dry_run import estimate_adaptation
from .analysis.auditing import Audit, audit
from .analysis.clustering import Clustered, clusters
from .analysis.explaining import Explanation, explain
from .analysis.retrieving import Retrieval, retrieval
from .analysis.tokenizer_fertility import Figure, Tokenized, tokenizers
from .cache import CacheEntry, cache_entries, prune_cache
from .contamination.report import Contamination, report_contamination
from .context import Machine
from .evaluation.dry_run import estimate_evaluation
from .evaluation.evaluating import Evaluated, evaluate
from .evaluation.forecasting import Forecast, forecast
from .experiments.running import Ran, run_recipe
from .experiments.status import Missing, missing
from .health import Health, doctor
from .mixing.composing import Composition, compose, estimate_composition
from .publishing import push_to_hub, require_hub, require_pushable
from .result import Selection
from .selection.commands import choose, rank, score, select
from .selection.dry_run import estimate
from .splitting.overlap import SplitOverlap, overlaps
from .splitting.plan import SplitPlan
from .splitting.splitting import Split, split
from .tuning.dry_run import estimate_tuning
from .tuning.plan import TunePlan
from .tuning.result import Tuned
from .tuning.running import TuneInputs, tune

__all__ = [
    "Adapted",
    "Audit",
    "CacheEntry",
    "Clustered",
    "Composition",
    "Contamination",
    "Evaluated",
    "Explanation",
    "Figure",
    "Forecast",
    "Health",
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
    "cache_entries",
    "choose",
    "clusters",
    "compose",
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
    "overlaps",
    "prune_cache",
    "push_to_hub",
    "rank",
    "report_contamination",
    "require_hub",
    "require_pushable",
    "retrieval",
    "run_recipe",
    "score",
    "select",
    "split",
    "tokenizers",
    "tune",
]
