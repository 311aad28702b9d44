"""The folder of a composition."""

from __future__ import annotations

from pathlib import Path

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder


class ComposeFolder(OutFolder):
    """A composition's folder: the text, and the survey of the sources."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.composed = path / "composed"
        self.surveyed = self.work / "surveyed"
        self.counted = self.work / "surveyed.json"
        self.surveyed_as = self.work / "surveyed.txt"
        self.relevance = self.work / "relevance"
        self.written = self.work / "written"

    def _has_work(self) -> bool:
        return self.written.is_dir()

    def _clear(self) -> None:
        """Delete all but the survey of the sources, which has an identity of its own."""
        super()._clear()
        remove(self.written, self.composed, self.path / "rejects.jsonl")
