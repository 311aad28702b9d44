"""The journey as a few calls: `select`, `adapt`, `evaluate` and those around them.

What: the order of the steps; each step is a file beside this one.
Why: this package alone knows every stage.
Trade-off: every step leaves files and begins by asking which are missing; that is what makes a
killed run resumable.
Reference: TADPOLE, Algorithm 1.
"""

from corpusfit.pipeline.adaptestimate import estimate_adaptation
from corpusfit.pipeline.adapting import Adapted, adapt
from corpusfit.pipeline.auditing import Audit, audit
from corpusfit.pipeline.clustering import Clustered, clusters
from corpusfit.pipeline.commands import choose, rank, score, select
from corpusfit.pipeline.estimate import estimate
from corpusfit.pipeline.evaluateestimate import estimate_evaluation
from corpusfit.pipeline.evaluating import Evaluated, evaluate
from corpusfit.pipeline.explaining import Explanation, explain
from corpusfit.pipeline.forecasting import Forecast, forecast
from corpusfit.pipeline.given import TASK
from corpusfit.pipeline.leakage import Contamination, contamination
from corpusfit.pipeline.recipes.outstanding import Missing, missing
from corpusfit.pipeline.recipes.running import Ran, run_recipe
from corpusfit.pipeline.result import Selection
from corpusfit.pipeline.run import Machine

__all__ = [
    "TASK",
    "Adapted",
    "Audit",
    "Clustered",
    "Contamination",
    "Evaluated",
    "Explanation",
    "Forecast",
    "Machine",
    "Missing",
    "Ran",
    "Selection",
    "adapt",
    "audit",
    "choose",
    "clusters",
    "contamination",
    "estimate",
    "estimate_adaptation",
    "estimate_evaluation",
    "evaluate",
    "explain",
    "forecast",
    "missing",
    "rank",
    "run_recipe",
    "score",
    "select",
]
