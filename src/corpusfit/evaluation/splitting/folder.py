"""The folder of a split."""

from __future__ import annotations

from pathlib import Path

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder


class SplitFolder(OutFolder):
    """The folder of a split: train, dev, test and rejected rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rejects = path / "rejects.jsonl"

    def part(self, split: str, suffix: str) -> Path:
        """A file of a split."""
        return self.path / f"{split}.{suffix}"

    def _has_work(self) -> bool:
        return (self.work / "files.json").exists() or self.finished() is not None

    def _clear(self) -> None:
        super()._clear()
        self.remove_written()
        remove(self.rejects)
