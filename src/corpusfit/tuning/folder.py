"""The folder of a tuning."""

from __future__ import annotations

from pathlib import Path

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder


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
        self.tokens = self.work / "cache"

    def _has_work(self) -> bool:
        """Whether there is a trial; scores have an identity of their own."""
        return self.trials.is_dir() or self.schedule.exists()

    def _clear(self) -> None:
        """Delete the results of an earlier search; the scores are kept for the next one."""
        super()._clear()
        self.free()
        remove(self.trials, self.selection, self.model, self.texts, self.ranking, self.schedule)

    def free(self) -> None:
        """Delete what only the search needs."""
        remove(self.selections, self.training, self.tokens)
