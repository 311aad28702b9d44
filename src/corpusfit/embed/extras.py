"""Which extras of the package are installed."""

from __future__ import annotations

import importlib.util

from corpusfit.core.errors import MissingDependencyError
from corpusfit.embed.minilm import MINILM, WHEEL

LIBRARIES = {"models": "torch", "train": "accelerate", "pyod": "pyod", MINILM: WHEEL}
"""A library of each extra, without which the extra is not installed."""


def require_extras(feature: str, extra: str, *models: str, otherwise: str = "") -> None:
    """Require an extra, and that of `minilm` if a model has that name."""
    wanted = [MINILM] * (MINILM in models) + [extra]
    missing = [name for name in wanted if importlib.util.find_spec(LIBRARIES[name]) is None]
    if missing[:1] == [MINILM] and extra == "models":
        missing = [MINILM]  # which brings the other
    if missing:
        raise MissingDependencyError(feature, ",".join(missing), otherwise)
