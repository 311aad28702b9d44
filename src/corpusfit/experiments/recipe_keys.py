"""Which tables of a recipe have the settings of its plans."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from corpusfit.core.errors import CorpusfitError

ELSEWHERE: dict[str, dict[str, str]] = {
    "select": {
        "method.name": "selectors",
        "method": "selector.NAME.method",
        "choose.fraction": "fractions",
        "choose.policy": "weights",
        "seed": "seed",
    },
    "adapt": {
        "model.name": "models",
        "model.init": "models",
        "weights.policy": "weights",
        "adapter.kind": "adapters",
        "read": "select.read",
        "seed": "seed",
    },
    "evaluate": {
        "model.name": "models",
        "model.adapter": "adapters",
        "model.reduction": "adapt.adapter.reduction",
        "model.rank": "adapt.adapter.rank",
        "task.metric": "tasks.metric",
        "augment.kind": "augment",
        "seed": "seed",
    },
}
"""Settings of the plans that a recipe sets elsewhere, with their keys."""


@contextlib.contextmanager
def in_table(table: str) -> Iterator[None]:
    """A block in which errors begin with the table of the recipe that has the settings."""
    try:
        yield
    except CorpusfitError as e:
        e.args = (f"In [{table}] of the recipe: {e}",)
        raise
