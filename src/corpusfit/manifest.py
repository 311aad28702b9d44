"""What a run began with, what it did, and whether its folder may be used.

What: the identity of a run (plan and content fingerprints), the output folder that refuses to
mix two runs, and the manifest that is written last.
Why: resuming is only safe when nothing changed; a user has to be told what did.
Trade-off: identity is content, so every input file is hashed once at the start; that costs about
a second a gigabyte and is worth never serving a stale result.
Reference: OLMo-core's source fingerprints; datatrove's completion marks.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.errors import ChangedInputError, InputError, OutputFolderError
from corpusfit.types import Source

__all__ = ["RunFolder", "digest", "source_identity", "versions"]

FORMAT = 1
_LIBRARIES = ("numpy", "pyarrow", "numba", "torch", "transformers", "model2vec", "scikit-learn")


def digest(thing: Any) -> str:
    """Hex fingerprint of plain nested values; equal values, equal digest."""
    text = json.dumps(thing, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def versions() -> dict[str, str]:
    """Versions of everything that can change a number."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("corpusfit", *_LIBRARIES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def source_identity(sources: Sequence[Source]) -> dict[str, str]:
    """Content fingerprint by source name."""
    return {s.name: s.fingerprint for s in sources}


class RunFolder:
    """A run's output folder.

    Args:
        path: the folder; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scores = path / "scores"
        self.selected = path / "selected"
        self.work = path / ".corpusfit"

    def open(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin or resume a run in this folder.

        Args:
            identity: nested plain values; a run is resumed only under the same ones.
            overwrite: throw away an earlier corpusfit run that differs.

        Raises:
            OutputFolderError: the folder holds something else.
            ChangedInputError: it holds a run with another identity; names what differs.
        """
        begun = self.work / "run.json"
        wanted = json.loads(json.dumps({"format": FORMAT, **identity}, default=str))
        if begun.exists():
            differing = _differences(json.loads(begun.read_text("utf-8")), wanted)
            if differing and not overwrite:
                raise ChangedInputError(
                    f"{self.path} holds a run that began with other inputs or settings: "
                    f"{'; '.join(differing[:5])}. Use another --out, or --overwrite to start anew."
                )
            if differing:
                self._clear()
        elif self.path.exists() and (not self.path.is_dir() or any(self._foreign())):
            raise OutputFolderError(
                f"--out must be a new or empty folder, or one that corpusfit wrote; {self.path} "
                "holds something else. Name another folder."
            )
        write_bytes(begun, json.dumps(wanted, indent=1, sort_keys=True).encode())

    def _foreign(self) -> list[Path]:
        return [p for p in self.path.iterdir() if p != self.work]

    def _clear(self) -> None:
        for name in ("scores", "selected", ".corpusfit/scored", ".corpusfit/written"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        for file in ("manifest.json", "rejects.jsonl"):
            (self.path / file).unlink(missing_ok=True)
        for file in self.work.glob("*.safetensors"):
            file.unlink()

    def finished(self) -> dict[str, Any] | None:
        """The manifest, if the run is complete."""
        path = self.path / "manifest.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest: the mark that all else is there."""
        data = json.dumps(manifest, indent=2, ensure_ascii=False, default=str)
        write_bytes(self.path / "manifest.json", data.encode())

    def reopen(self) -> None:
        """Take the completion mark away while the selection is changed."""
        (self.path / "manifest.json").unlink(missing_ok=True)

    def require(self) -> dict[str, Any]:
        """The manifest of a complete run.

        Raises:
            InputError: the folder is not a finished run.
        """
        manifest = self.finished()
        if manifest is None:
            raise InputError(
                f"{self.path} is not a finished corpusfit run. Run `corpusfit select` or "
                "`corpusfit score` with --out there first."
            )
        return manifest


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    """What changed between two nested values, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in sorted({*before, *now}):
            found += _differences(before.get(key), now.get(key), f"{path}.{key}".strip("."))
        return found
    if before == now:
        return []
    if path.startswith("inputs."):
        name = path.removeprefix("inputs.")
        what = "is new" if before is None else "is gone" if now is None else "has changed"
        return [f"{name} {what}"]
    return [f"{path} was {before!r}, is {now!r}"]
