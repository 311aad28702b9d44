"""Public names; `__init__.py` loads each when it is first used."""

from .api.adapting import adapt, contamination, forecast
from .api.composing import compose
from .api.crosslingual import retrieval, tokenizers
from .api.estimator import Scorer
from .api.evaluating import evaluate, run
from .api.exploring import clusters
from .api.maintaining import cache, doctor, prune_cache
from .api.opening import open
from .api.reporting import report
from .api.selecting import audit, choose, explain, rank, score, select
from .api.splitting import overlaps, split
from .api.tuning import tune
from .core.errors import CorpusfitError, CorpusfitWarning
from .core.plan import Plan
from .domains.clustering import Clustered
from .domains.plan import ClustersPlan
from .evaluation.contamination.report import Contamination
from .evaluation.evaluating import Evaluated
from .evaluation.forecast import Forecast
from .evaluation.plan import EvaluatePlan
from .evaluation.retrieval import Retrieval
from .evaluation.splitting.overlap import SplitOverlap
from .evaluation.splitting.plan import SplitPlan
from .evaluation.splitting.splitting import Split
from .evaluation.tokenizers import Tokenized
from .mixing.composing import Composition
from .selection.audit import Audit
from .selection.explain import Explanation
from .selection.health import Health
from .selection.result import Selection
from .text.cache_entries import CacheEntry
from .text.context import Machine
from .training.adapting import Adapted
from .training.plan import AdaptPlan
from .tuning.plan import TunePlan
from .tuning.result import Tuned

__version__: str

__all__ = [
    "AdaptPlan",
    "Adapted",
    "Audit",
    "CacheEntry",
    "Clustered",
    "ClustersPlan",
    "Composition",
    "Contamination",
    "CorpusfitError",
    "CorpusfitWarning",
    "EvaluatePlan",
    "Evaluated",
    "Explanation",
    "Forecast",
    "Health",
    "Machine",
    "Plan",
    "Retrieval",
    "Scorer",
    "Selection",
    "Split",
    "SplitOverlap",
    "SplitPlan",
    "Tokenized",
    "TunePlan",
    "Tuned",
    "adapt",
    "audit",
    "cache",
    "choose",
    "clusters",
    "compose",
    "contamination",
    "doctor",
    "evaluate",
    "explain",
    "forecast",
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
