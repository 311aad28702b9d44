"""Public names; `__init__.py` loads each when it is first used."""

from .core.errors import CorpusfitError, CorpusfitWarning
from .core.plan import Plan
from .domains.api import clusters
from .domains.clustering import Clustered
from .domains.plan import ClustersPlan
from .evaluation.api import (
    contamination,
    evaluate,
    forecast,
    overlaps,
    retrieval,
    split,
    tokenizers,
)
from .evaluation.decontamination.report import Contamination
from .evaluation.evaluating import Evaluated
from .evaluation.forecasting import Forecast
from .evaluation.overlap import SplitOverlap
from .evaluation.plan import EvaluatePlan, SplitPlan
from .evaluation.retrieving import Retrieval
from .evaluation.splitting import Split
from .evaluation.tokenizer_gap import Tokenized
from .fitting.api import fit
from .fitting.fitting import Fitted
from .reporting.api import open, report
from .selection.api import audit, choose, explain, rank, select
from .selection.auditing import Audit
from .selection.estimator import SavedScorer, Scorer
from .selection.explaining import Explanation
from .selection.result import Selection
from .text.api import cache, clear_cache
from .text.cache_entries import CacheEntry
from .text.context import Machine
from .training.adapting import Adapted
from .training.api import adapt
from .training.packed_dataset import PackedDataset
from .training.plan import AdaptPlan

__version__: str

__all__ = [
    "AdaptPlan",
    "Adapted",
    "Audit",
    "CacheEntry",
    "Clustered",
    "ClustersPlan",
    "Contamination",
    "CorpusfitError",
    "CorpusfitWarning",
    "EvaluatePlan",
    "Evaluated",
    "Explanation",
    "Fitted",
    "Forecast",
    "Machine",
    "PackedDataset",
    "Plan",
    "Retrieval",
    "SavedScorer",
    "Scorer",
    "Selection",
    "Split",
    "SplitOverlap",
    "SplitPlan",
    "Tokenized",
    "adapt",
    "audit",
    "cache",
    "choose",
    "clear_cache",
    "clusters",
    "contamination",
    "evaluate",
    "explain",
    "fit",
    "forecast",
    "open",
    "overlaps",
    "rank",
    "report",
    "retrieval",
    "select",
    "split",
    "tokenizers",
]
