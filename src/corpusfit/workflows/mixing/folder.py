"""The folder of a composition."""

from __future__ import annotations

from pathlib import Path

from corpusfit.artifacts import remove
from corpusfit.manifest import OutFolder


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
        """Whether text was written."""
        return self.written.is_dir()

    def _clear(self) -> None:
        """Delete the text of an earlier composition, completion marks first.

        The survey of the sources stays; it has an identity of its own.
        """
        super()._clear()
        for folder in (self.written, self.composed):
            remove(folder)
        (self.path / "rejects.jsonl").unlink(missing_ok=True)
