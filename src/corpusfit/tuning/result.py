"""A finished tuning: the winner's selection, and every trial with its losses and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corpusfit.core.manifest import Finished
from corpusfit.selection.result import Selection
from corpusfit.training.adapting import Adapted
from corpusfit.tuning.grid import Setting


@dataclass(frozen=True)
class Tuned(Finished):
    """A finished tuning.

    Attributes:
        selection: the winner's selection, for `corpusfit adapt --data`.
        model: the winner's adapted model; None unless it was asked for.
    """

    selection: Selection
    model: Adapted | None = None

    @property
    def winner(self) -> dict[str, Any]:
        """The winning setting: method, fraction and weights."""
        winner: dict[str, Any] = self.manifest["winner"]["setting"]
        return winner

    def trials(self) -> list[dict[str, Any]]:
        """One flat row per trial, for `pandas.DataFrame`: setting, loss, change and cost."""
        return rows_of(self.manifest)


def rows_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """One flat row per trial, last rung first, each rung in order of its outcome.

    `change` is the loss minus that of the model before adaptation, in nats per token; `bits` are
    the method's held-out bits per word, if they are known.
    """
    base = manifest["base"]
    return [
        {
            "label": Setting(**trial["setting"]).label,
            **trial["setting"],
            "rung": trial["rung"],
            "steps": trial["losses"][-1][0] if trial["losses"] else 0,
            "loss": None if trial["error"] else trial["losses"][-1][1],
            "change": None if trial["error"] else round(trial["losses"][-1][1] - base, 6),
            "bits": manifest["bits"].get(trial["setting"]["method"]),
            "stopped": trial["stopped"],
            "tokens": trial["tokens"],
            "seconds": trial["seconds"],
            "error": trial["error"],
        }
        for trial in manifest["trials"]
    ]
