"""The folder of an adapted model."""

from __future__ import annotations

from pathlib import Path

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder
from corpusfit.embed.folders import POOLING

_MODEL_FILES = (
    *("*.safetensors", "*.json", "losses.jsonl", "vocab.txt", "merges.txt", "*.model"),
    f"{POOLING}/config.json",
)
"""Files that `adapt` writes; others in the folder are the user's."""


class AdaptFolder(OutFolder):
    """An adapted model's folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tokenizer = self.work / "tokenizer.json"
        self.pair_tokenizer = self.work / "tokenizer"
        self.general = self.work / "general.jsonl"
        self.settled = self.work / "settled.json"
        self.guard = self.work / "guard.safetensors"
        self.checkpoints = self.work / "checkpoints"
        self.best = self.work / "best.safetensors"
        self.first = self.work / "first"

    def _has_work(self) -> bool:
        """Whether a phase of the training has a checkpoint or is finished."""
        if self.checkpoints.is_dir() or self.finished() is not None:
            return True
        return self.first.is_dir() and AdaptFolder(self.first)._has_work()

    def _clear(self) -> None:
        super()._clear()
        self.free()
        remove(*(path for pattern in _MODEL_FILES for path in self.path.glob(pattern)))

    def free(self) -> None:
        """Delete what only resuming needs."""
        remove(self.checkpoints, self.first, self.work / "tokens", self.pair_tokenizer)
        remove(self.best, self.tokenizer, self.general, self.guard, self.settled)
