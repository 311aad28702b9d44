"""Public names; `__init__.py` loads each when it is first used."""

from .adapt.plan import AdaptPlan
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
from .errors import CorpusfitError, CorpusfitWarning
from .evaluate.plan import EvaluatePlan
from .explore.plan import ClustersPlan
from .plan import Plan
from .workflows.adaptation.adapting import Adapted
from .workflows.analysis.auditing import Audit
from .workflows.analysis.clustering import Clustered
from .workflows.analysis.explaining import Explanation
from .workflows.analysis.retrieving import Retrieval
from .workflows.analysis.tokenizer_fertility import Tokenized
from .workflows.cache import CacheEntry
from .workflows.contamination.report import Contamination
from .workflows.context import Machine
from .workflows.evaluation.evaluating import Evaluated
from .workflows.evaluation.forecasting import Forecast
from .workflows.health import Health
from .workflows.mixing.composing import Composition
from .workflows.result import Selection
from .workflows.splitting.overlap import SplitOverlap
from .workflows.splitting.plan import SplitPlan
from .workflows.splitting.splitting import Split
from .workflows.tuning.plan import TunePlan
from .workflows.tuning.result import Tuned

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
