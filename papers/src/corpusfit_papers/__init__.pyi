"""Public names; `__init__.py` loads each when it is first used."""

from .auditing import Audit, audit
from .experiments.api import run
from .experiments.running import Ran
from .forecasting import Forecast, forecast
from .mixing.api import compose
from .mixing.composing import Composition
from .retrieving import Retrieval, retrieval
from .tokenizer_gap import Tokenized, tokenizers

__all__ = [
    "Audit",
    "Composition",
    "Forecast",
    "Ran",
    "Retrieval",
    "Tokenized",
    "audit",
    "compose",
    "forecast",
    "retrieval",
    "run",
    "tokenizers",
]
