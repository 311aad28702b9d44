"""Public names; `__init__.py` loads each when it is first used."""

from .auditing import Audit, audit
from .augmenting import Augmented, augment
from .baselines import Baselines, baselines
from .experiments.api import run
from .experiments.running import Ran
from .forecasting import Forecast, forecast
from .mixing.api import compose
from .mixing.composing import Composition
from .outliers import Outliers, outliers
from .retrieving import Retrieval, retrieval
from .tokenizer_gap import Tokenized, tokenizers

__all__ = [
    "Audit",
    "Augmented",
    "Baselines",
    "Composition",
    "Forecast",
    "Outliers",
    "Ran",
    "Retrieval",
    "Tokenized",
    "audit",
    "augment",
    "baselines",
    "compose",
    "forecast",
    "outliers",
    "retrieval",
    "run",
    "tokenizers",
]
