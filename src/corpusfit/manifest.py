"""Output folders: the identity of a run, what a folder contains, and its manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from corpusfit.artifacts import remove, sweep, write_bytes
from corpusfit.errors import ChangedInputError, InputError, OutputFolderError
from corpusfit.settings import with_new_names
from corpusfit.types import Source

FORMAT = 1
_LIBRARIES = (
    *("numpy", "pyarrow", "numba", "torch", "transformers", "model2vec", "scikit-learn"),
    *("tokenizers", "accelerate", "peft"),
    *("sentencex", "py3langid", "langcodes", "transliterate"),
)


def digest(thing: Any) -> str:
    """Hex digest of plain nested values; equal values have equal digests."""
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


def source_as_dict(source: Source) -> dict[str, Any]:
    """A source as the manifest has it: without its cells, which can be found again."""
    names = (f.name for f in dataclasses.fields(source) if f.name != "cells")
    return {name: getattr(source, name) for name in names}


def source_identity(sources: Sequence[Source]) -> dict[str, str]:
    """Content fingerprint by source name."""
    return {s.name: s.fingerprint for s in sources}


class OutFolder:
    """A folder that one command writes to, and resumes in.

    Args:
        path: the folder, on this machine or in a store; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / ".corpusfit"
        self.report = path / "report.html"

    def claim(self) -> None:
        """Check that the command can write to the folder.

        Raises:
            OutputFolderError: the folder holds something that corpusfit did not write.
        """
        if (self.work / "run.json").exists() or not self.path.exists():
            return
        if not self.path.is_dir() or any(p.name != self.work.name for p in self.path.iterdir()):
            raise OutputFolderError(
                f"<.out> must be a new or empty folder, or one that corpusfit wrote; {self.path} "
                "holds something else. Choose another <.out>."
            )

    def begin(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin or resume a run in this folder.

        Args:
            identity: nested plain values; a run is resumed only with the same ones.
            overwrite: delete an earlier corpusfit run that differs.

        Raises:
            ChangedInputError: the folder holds a run with another identity; names what differs.
            OutputFolderError: the folder holds what another command wrote.
        """
        if self.differs(identity, overwrite=overwrite):
            self._clear()
        self._write_identity(identity)

    def differs(self, identity: Mapping[str, Any], *, overwrite: bool) -> bool:
        """Whether `begin` would delete an earlier run; raises as `begin` does, writes nothing."""
        begun = self.work / "run.json"
        if not begun.exists():
            return False
        before = with_new_names(json.loads(begun.read_text("utf-8")))
        wanted = _plain(identity)
        if before.get("command") != wanted.get("command"):
            raise OutputFolderError(
                f"<.out> must be a new or empty folder; {self.path} holds what another command "
                "wrote. Choose another <.out>."
            )
        differing = _differences(before, wanted)
        if differing and not overwrite and self._has_work():
            raise ChangedInputError(
                f"<.out={self.path}> holds a run with other inputs or settings: "
                f"{'; '.join(differing[:5])}. {self._cure(differing)}"
            )
        return bool(differing)

    def _cure(self, differing: list[str]) -> str:
        """What the user can do about a run that differs."""
        return "Choose another <.out>, or pass <.overwrite=true> to replace the run."

    def _has_work(self) -> bool:
        """Whether the run has results; without any, it can begin again with other settings."""
        return True

    def _write_identity(self, identity: Mapping[str, Any]) -> None:
        data = json.dumps(_plain(identity), indent=1, sort_keys=True)
        write_bytes(self.work / "run.json", data.encode())

    def _clear(self) -> None:
        """Delete an earlier run: completion marks first, then the files they mark."""
        self.reopen()

    def will_write(self, names: Sequence[str]) -> None:
        """Note file names that depend on the inputs, before the files are written."""
        write_bytes(self.work / "files.json", json.dumps(list(names)).encode())

    def remove_written(self) -> None:
        """Delete the files that `will_write` noted, and none of the user's."""
        listed = self.work / "files.json"
        for name in json.loads(listed.read_text("utf-8")) if listed.exists() else ():
            (self.path / name).unlink(missing_ok=True)
        listed.unlink(missing_ok=True)

    def reopen(self) -> None:
        """Delete the completion mark and the report."""
        for stale in (self.path / "manifest.json", self.report):
            stale.unlink(missing_ok=True)

    def finished(self) -> dict[str, Any] | None:
        """The manifest, if the run is complete."""
        path = self.path / "manifest.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, which marks the run as finished; deletes an older report."""
        sweep(self.path)
        self.report.unlink(missing_ok=True)
        data = json.dumps(manifest, indent=2, ensure_ascii=False, default=str)
        write_bytes(self.path / "manifest.json", data.encode(errors="backslashreplace"))


_MODEL_FILES = ("*.safetensors", "*.json", "losses.jsonl", "vocab.txt", "merges.txt", "*.model")
"""Files that `adapt` writes; others in the folder are the user's."""


class AdaptFolder(OutFolder):
    """An adapted model's folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tokenizer = self.work / "tokenizer.json"
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
        """Delete an earlier training and its model."""
        super()._clear()
        self.free()
        for file in (p for pattern in _MODEL_FILES for p in self.path.glob(pattern)):
            file.unlink()

    def free(self) -> None:
        """Delete what only resuming needs."""
        for folder in (self.checkpoints, self.first, self.work / "tokens"):
            remove(folder)
        for file in (self.best, self.tokenizer, self.general, self.guard, self.settled):
            file.unlink(missing_ok=True)


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

    def is_composition(self) -> bool:
        """Whether the folder holds a composition, finished or not."""
        begun = self.work / "run.json"
        if not begun.exists():
            return False
        return bool(json.loads(begun.read_text("utf-8")).get("command") == "compose")

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
        """Whether a model was fine-tuned."""
        return self.outcomes.is_dir()

    def _clear(self) -> None:
        """Delete the outcomes of an earlier evaluation."""
        super()._clear()
        remove(self.outcomes)
        self.task.unlink(missing_ok=True)
        remove(self.accompanied)


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
        """Whether something was fitted."""
        return self.fits.is_dir() or self.finished() is not None

    def _clear(self) -> None:
        """Delete the results of an earlier run."""
        super()._clear()
        for folder in (self.drawn, self.fits, self.assigned):
            remove(folder)
        for written in (self.domains, self.sample):
            written.unlink(missing_ok=True)

    def require(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            InputError: the folder holds no domains.
        """
        manifest = self.finished()
        if manifest is None or manifest.get("command") != "clusters" or not self.domains.exists():
            raise InputError(
                f"{self.path} holds no clusters. Run `corpusfit clusters` with --out {self.path} "
                "first."
            )
        return manifest


class RunFolder(OutFolder):
    """A selection's folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.scores = path / "scores"
        self.selected = path / "selected"
        self.examples = path / "examples.parquet"
        self.scored = self.work / "scored"
        self.fit = self.work / "fit"
        self.stages = self.work / "stages"
        self.rounds = self.work / "rounds"
        self.looked_at = self.work / "examples"
        self.balanced = self.work / "clusters"

    def aligned(self, side: str) -> Path:
        """The file of one side of the selected pairs."""
        return self.path / f"selected.{side}"

    def _cure(self, differing: list[str]) -> str:
        """What the user can do about a run that differs."""
        if all(d.startswith("choose.") for d in differing) and self.scored_so_far() is not None:
            return (
                f"To choose again from its scores, run `corpusfit choose {self.path}` with the new "
                "settings."
            )
        return super()._cure(differing)

    def _has_work(self) -> bool:
        """Whether a shard was scored."""
        marks = (self.scored.glob("part-*.json"), self.stages.glob("*/part-*.safetensors"))
        return self.scored_so_far() is not None or any(map(any, marks))

    def _clear(self) -> None:
        """Delete an earlier run: completion marks first, then the files they mark."""
        super()._clear()
        for file in ("scored.json", "chosen.json"):
            (self.work / file).unlink(missing_ok=True)
        for folder in (self.scored, self.stages, self.scores, self.selected, self.fit):
            remove(folder)
        for folder in (self.rounds, self.looked_at, self.balanced):
            remove(folder)
        self.remove_written()
        for written in (self.examples, self.path / "rejects.jsonl"):
            written.unlink(missing_ok=True)

    def amend(self, identity: Mapping[str, Any]) -> None:
        """Delete the completion mark, and continue with another selection."""
        self.reopen()
        self._write_identity(identity)

    def keep_scored(self, manifest: Mapping[str, Any]) -> None:
        """Mark the whole corpus as scored, and store the manifest so far."""
        write_bytes(self.work / "scored.json", json.dumps(manifest, default=str).encode())

    def scored_so_far(self) -> dict[str, Any] | None:
        """The manifest that `keep_scored` stored; None before scoring is finished."""
        path = self.work / "scored.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def require_scored(self) -> dict[str, Any]:
        """The manifest that `keep_scored` stored.

        Raises:
            InputError: the folder holds no scored corpus.
        """
        manifest = self.scored_so_far()
        if manifest is None or not self.scores.is_dir():
            raise InputError(
                f"{self.path} holds no scored corpus. Name the --out folder of a finished "
                "`corpusfit select` or `corpusfit score`."
            )
        return manifest


class SplitFolder(OutFolder):
    """The folder of a split: train, dev, test and rejected rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rejects = path / "rejects.jsonl"

    def part(self, split: str, suffix: str) -> Path:
        """A file of a split."""
        return self.path / f"{split}.{suffix}"

    def _clear(self) -> None:
        """Delete an earlier split."""
        super()._clear()
        self.remove_written()
        self.rejects.unlink(missing_ok=True)


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
        """Whether a method was scored or ranked."""
        return self.scores.is_dir() or self.ranking.exists()

    def _clear(self) -> None:
        """Delete the results of an earlier search."""
        super()._clear()
        self.free()
        for folder in (self.scores, self.trials, self.selection, self.model, self.texts):
            remove(folder)
        for file in (self.ranking, self.schedule):
            file.unlink(missing_ok=True)

    def free(self) -> None:
        """Delete what only the search needs."""
        for folder in (self.selections, self.training, self.tokens):
            remove(folder)


class RecipeFolder(OutFolder):
    """The folder of a recipe's steps and tables; a step's files are named by its digest."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tasks = path / "tasks"
        self.selections = path / "selections"
        self.models = path / "models"
        self.companions = path / "companions"
        self.scores = path / "scores"
        self.forecasts = path / "forecasts"
        self.comparisons = path / "comparisons"
        self.costs = path / "costs"
        self.failures = path / "failures"

    def task(self, key: str) -> Path:
        """A stored task."""
        return self.tasks / f"{key}.json"

    def texts(self, key: str, split: str) -> Path:
        """The texts of a stored task's split, without their labels."""
        return self.tasks / key / f"{split}.jsonl"

    def outcome(self, key: str, seed: int) -> Path:
        """Outcome of a fine-tuning."""
        return self.scores / f"{key}-{seed}.json"

    def _has_work(self) -> bool:
        """Whether a step was begun."""
        return any(f.is_dir() for f in (self.selections, self.models, self.companions, self.scores))

    def _clear(self) -> None:
        """Delete the steps and the tables of an earlier recipe."""
        super()._clear()
        for folder in (self.tasks, self.selections, self.models, self.companions, self.scores):
            remove(folder)
        for folder in (self.forecasts, self.comparisons, self.costs, self.failures):
            remove(folder)
        for file in self.path.glob("table.*"):
            file.unlink()


def _plain(identity: Mapping[str, Any]) -> Any:
    """The identity with the types that JSON gives back."""
    return json.loads(json.dumps({"format": FORMAT, **identity}, default=str))


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    """The differences between two nested values, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        if path in _FILES:
            return _changed_files(_FILES[path], before, now)
        found = []
        for key in sorted({*before, *now}):
            found += _differences(before.get(key), now.get(key), f"{path}.{key}".strip("."))
        return found
    if before == now:
        return []
    return [f"{path} was {before!r}, is {now!r}"]


_FILES = {
    **{role: role for role in ("target", "corpus", "data", "task", "replay")},
    "files": "method",
}
"""Entries of an identity that map files to fingerprints, and their names in messages."""


def _changed_files(role: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The differences between two maps of files to fingerprints, in words."""
    gone, new = (sorted(one.keys() - other.keys()) for one, other in ((before, now), (now, before)))
    same = sorted(before.keys() & now.keys())
    found = [f"{role} file {name} has changed" for name in same if before[name] != now[name]]
    if gone and new:
        return [*found, f"{role} was {_few(gone)}, is {_few(new)}"]
    found += [f"{role} file {name} is only in that run" for name in gone]
    return found + [f"{role} file {name} is not in that run" for name in new]


def _few(names: list[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
