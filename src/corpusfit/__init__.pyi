"""Public names; `__init__.py` loads each when it is first used."""

from .core.errors import CorpusfitError, CorpusfitWarning
from .core.plan import Plan
from .domains.api import clusters
from .domains.clustering import Clustered
from .domains.plan import ClustersPlan
from .evaluation.api import (
    contamination,
    evaluate,
    split,
)
from .evaluation.contamination import Contamination
from .evaluation.evaluating import Evaluated
from .evaluation.plan import EvaluatePlan, SplitPlan
from .evaluation.splitting import Split
from .fitting.api import fit
from .fitting.fitting import Fitted
from .ranking.api import rank
from .reporting.api import open, report
from .selection.api import choose, explain, select
from .selection.estimator import Scorer
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
    "Machine",
    "PackedDataset",
    "Plan",
    "Scorer",
    "Selection",
    "Split",
    "SplitPlan",
    "adapt",
    "cache",
    "choose",
    "clear_cache",
    "clusters",
    "contamination",
    "evaluate",
    "explain",
    "fit",
    "open",
    "rank",
    "report",
    "select",
    "split",
]
