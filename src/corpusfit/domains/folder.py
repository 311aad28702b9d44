"""The folder of the domains found in a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import remove
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import OutFolder


class ClustersFolder(OutFolder):
    """The folder of the domains found in a corpus."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.domains = path / "domains.safetensors"
        self.sample = path / "sample.parquet"
        self.assigned = path / "assigned"
        self.drawn = self.work / "drawn"
        self.fits = self.work / "fits"

    def _has_work(self) -> bool:
        return self.fits.is_dir() or self.finished() is not None

    def _clear(self) -> None:
        super()._clear()
        remove(self.drawn, self.fits, self.assigned, self.domains, self.sample)

    def require(self) -> dict[str, Any]:
        """The manifest."""
        manifest = self.finished()
        if manifest is None or manifest.get("command") != "clusters" or not self.domains.exists():
            raise InputError(
                f"{self.path} holds no clusters. Run `corpusfit clusters` for this folder first."
            )
        return manifest
