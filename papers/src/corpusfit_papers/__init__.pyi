"""Public names; `__init__.py` loads each when it is first used."""

from .auditing import Audit, audit
from .forecasting import Forecast, forecast
from .retrieving import Retrieval, retrieval
from .tokenizer_gap import Tokenized, tokenizers

__all__ = [
    "Audit",
    "Forecast",
    "Retrieval",
    "Tokenized",
    "audit",
    "forecast",
    "retrieval",
    "tokenizers",
]
