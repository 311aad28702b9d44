"""The folder of an evaluation."""

from __future__ import annotations

from pathlib import Path

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder


class EvaluateFolder(OutFolder):
    """An evaluation's folder: the outcome of every fine-tuning."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.outcomes = path / "outcomes"
        self.task = self.work / "task.json"
        self.accompanied = self.work / "companions"

    def companions(self, size: int) -> Path:
        """Augmented examples of the first `size` training examples, 0 for all."""
        return self.accompanied / f"{size}.json"

    def outcome(self, model: str, size: int, seed: int) -> Path:
        """Outcome of a fine-tuning, by the model's fingerprint, training size (0: all), seed."""
        return self.outcomes / f"{model}-{size}-{seed}.json"

    def _has_work(self) -> bool:
        return self.outcomes.is_dir()

    def _clear(self) -> None:
        super()._clear()
        remove(self.outcomes, self.task, self.accompanied)
