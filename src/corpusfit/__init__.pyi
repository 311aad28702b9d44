"""Public names; `__init__.py` loads each when it is first used."""

from .adapt.plan import AdaptPlan
from .api.adapting import adapt, contamination, forecast
from .api.composing import compose
from .api.crosslingual import retrieval, tokenizers
from .api.evaluating import evaluate, run
from .api.exploring import clusters
from .api.reporting import report
from .api.selecting import audit, choose, explain, rank, score, select
from .api.splitting import overlaps, split
from .api.tuning import tune
from .errors import CorpusfitError
from .evaluate.plan import EvaluatePlan
from .explore.plan import ClustersPlan
from .pipeline.adapting import Adapted
from .pipeline.auditing import Audit
from .pipeline.clustering import Clustered
from .pipeline.composing import Composition
from .pipeline.contamination.report import Contamination
from .pipeline.evaluating import Evaluated
from .pipeline.explaining import Explanation
from .pipeline.forecasting import Forecast
from .pipeline.overlap import SplitOverlap
from .pipeline.result import Selection
from .pipeline.retrieving import Retrieval
from .pipeline.run import Machine
from .pipeline.splitting import Split
from .pipeline.tokenizer_fertility import Tokenized
from .pipeline.tuning.plan import TunePlan
from .pipeline.tuning.result import Tuned
from .plan import Plan

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
    "TunePlan",
    "Tuned",
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
    "tune",
]
