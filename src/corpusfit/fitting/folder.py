"""The folder of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder


class FitFolder(OutFolder):
    """The folder of a fit: one folder for each step's public function."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.texts = path / "task"
        self.general = self.texts / "general.jsonl"
        self.selection = path / "selection"
        self.random = path / "random"
        self.models = path / "models"
        self.probe = path / "probe"
        self.score = path / "score"
        self.schedule = self.work / "schedule.json"
        self.clock = self.work / "seconds.json"
        self.vectors = self.work / "vectors.json"
        self.data = path / "data"
        self.logs = path / "logs"
        self.trained = self.work / "trained.json"

    def model(self, name: str, seed: int | str) -> Path:
        """The model after `selection` or `random` text, by the seed of its replicate."""
        return self.models / f"{name}-{seed}"

    def begin(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin or resume; `overwrite` replaces the run, also where only corpus files changed."""
        super().begin(identity, overwrite=overwrite)  # refuses a folder of another command
        if overwrite:
            self._clear()
            self._write_identity(identity)

    def _has_work(self) -> bool:
        return self.schedule.exists()

    def _clear(self) -> None:
        super()._clear()
        remove(self.texts, self.selection, self.random, self.models, self.probe, self.score)
        remove(self.schedule, self.clock, self.vectors, self.data, self.logs, self.trained)

    def _cure(self, differing: list[str]) -> str:
        if any(each.startswith("train_with") for each in differing):
            again = "Trainings by a program go on only with `train_with`, which is never stored to"
            return f"{again} be run. {super()._cure(differing)}"
        return super()._cure(differing)
