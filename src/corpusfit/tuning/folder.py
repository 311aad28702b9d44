"""The output folder and the result of `tune`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import Finished, OutFolder
from corpusfit.selection.result import Selection
from corpusfit.training.adapting import Adapted
from corpusfit.tuning.schedule import Setting


class TuneFolder(OutFolder):
    """A tuning's folder: the scores of each method, every trial's record, the winner's results."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.scores = path / "scores"
        self.trials = path / "trials"
        self.selection = path / "selection"
        self.model = path / "model"
        self.texts = self.work / "texts"
        self.ranking = self.work / "ranking.json"
        self.schedule = self.work / "schedule.json"
        self.selections = self.work / "selections"
        self.training = self.work / "training"
        self.token_cache = self.work / "cache"

    def _has_work(self) -> bool:
        """Whether a search has begun. Scores do not count: other searches can reuse them."""
        return self.trials.is_dir() or self.schedule.exists()

    def _clear(self) -> None:
        """Delete the results of an earlier search; the scores are kept for the next one."""
        super()._clear()
        self.free()
        remove(self.trials, self.selection, self.model, self.texts, self.ranking, self.schedule)

    def free(self) -> None:
        """Delete intermediate files of the search."""
        remove(self.selections, self.training, self.token_cache)


@dataclass(frozen=True)
class Tuned(Finished):
    """A finished tuning.

    Attributes:
        selection: the winner's selection, for `corpusfit adapt --data`.
        model: the winner's adapted model; None if `tune` ran without the option `train`.
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
    """One flat row per trial, last rung first, within a rung the best first.

    `change` is the loss minus that of the model before adaptation, in nats per token; `bits` are
    the method's held-out bits per word, or None.
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
