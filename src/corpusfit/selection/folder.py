"""The folder of a selection: its layout, and which steps are finished."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import (
    copy,
    read_many,
    remove,
    write_bytes,
)
from corpusfit.core.errors import InputError, OutputFolderError, StorageError, near_name
from corpusfit.core.manifest import OutFolder, as_json, read_object, undamaged
from corpusfit.scoring import table
from corpusfit.text.reading import Tally
from corpusfit.text.same_text import FORM


def mark_path(marks: Path, shard: int) -> Path:
    """Completion mark of a shard; it holds the tally."""
    return marks / f"part-{shard:05d}.json"


class SelectionFolder(OutFolder):
    """A selection's folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.scores = path / "scores"
        self.selected = path / "selected"
        self.examples = path / "examples.parquet"
        self.pieces = self.work / "pieces"  # the selected text by shard, until it is merged
        self.parts = self.work / "parts.json"  # the shards of each part of `selected`
        self.scored = self.work / "scored"
        self.fit = self.work / "fit"
        self.scorer = self.fit / "scorer.safetensors"
        self.warnings = self.work / "warnings.json"
        self.rounds = self.work / "rounds"
        self.example_texts = self.work / "examples"
        self.balanced = self.work / "clusters"
        # keys of another version are left alone
        self.keys = self.work / f"keys-{FORM}"
        self.near = self.work / f"near-{FORM}"
        self.copies = self.work / "marks"
        self.gathered = self.work / "gathered"
        self.spread = self.work / "spread.safetensors"

    def _cure(self, differing: list[str]) -> str:
        if all(d.startswith("choose.") for d in differing) and self.scored_so_far() is not None:
            named = shlex.quote(str(self.path))
            return (
                f"To choose again from its scores, run `corpusfit choose {named}` (in Python "
                f"corpusfit.choose({str(self.path)!r})) with the new settings."
            )
        return super()._cure(differing)

    def _has_work(self) -> bool:
        return self.scored_so_far() is not None or any(self.scored.glob("part-*.json"))

    def _clear(self) -> None:
        super()._clear()
        remove(self.work / "scored.json", self.work / "chosen.json", self.parts, self.warnings)
        remove(self.scored, self.scores, self.selected, self.fit)
        remove(self.rounds, self.example_texts, self.balanced, self.keys, self.near, self.copies)
        remove(self.pieces, self.gathered, self.spread)
        self.remove_written()
        remove(self.examples, self.path / "rejects.jsonl")

    def scores_copied(self, into: Path) -> SelectionFolder:
        """Copy the scores, and what `choose` and `explain` need, to another folder."""
        # Local files are hard-linked, as none is ever changed in place.
        scored = self.require_scored()
        last = self.work / "scored.json"
        needed = [self.scores, self.scored, self.fit, self.balanced]
        needed += [self.keys, self.near, self.copies]
        files = [file for folder in needed if folder.is_dir() for file in sorted(folder.rglob("*"))]
        other = SelectionFolder(into)
        other.claim()
        if other.finished() or other.scored_so_far() not in (None, scored):
            raise OutputFolderError(
                f"`out` must be a new or empty folder; {into} holds a selection. Choose another "
                "`out`."
            )
        begun = self.work / "run.json"  # written first, so that an interrupted copy can continue
        for file in [begun, *files, self.path / "rejects.jsonl", last]:
            if file.is_file():
                copy(file, into / file.relative_to(self.path))
        return other

    def amend(self, identity: Mapping[str, Any]) -> None:
        """Delete the completion mark, and continue with another selection."""
        self.reopen()
        if self.differs(identity, overwrite=True):  # the warnings were of the earlier selection
            remove(self.warnings)
        self._write_identity(identity)

    def keep_scored(self, manifest: Mapping[str, Any]) -> None:
        """Mark the whole corpus as scored, and store the manifest so far."""
        write_bytes(self.work / "scored.json", as_json(manifest))

    def scored_so_far(self) -> dict[str, Any] | None:
        """The manifest that `keep_scored` stored; None before scoring is finished."""
        path = self.work / "scored.json"
        return read_object(path) if path.exists() else None

    def require_scored(self) -> dict[str, Any]:
        """The manifest that `keep_scored` stored."""
        manifest = self.scored_so_far()
        self.identity()
        if not self.path.exists():
            raise InputError(
                f"There is no folder {self.path}{near_name(self.path)}. Name the folder of a "
                "finished `corpusfit select`."
            )
        if manifest is None or not self.scores.is_dir():
            raise InputError(
                f"{self.path} holds no scored corpus. Name the folder of a finished "
                "`corpusfit select`."
            )
        return manifest


def read_tallies(marks: Path, shards: Sequence[int]) -> Iterator[Tally]:
    """What the completion marks of some shards say, in their order."""
    paths = [mark_path(marks, shard) for shard in shards]
    for path, data in zip(paths, read_many(paths), strict=True):
        with undamaged(path):
            tally = Tally.stored(json.loads(data))
        yield tally


def require_all(folder: Path, numbers: Sequence[int], shards: int) -> None:
    """Check that the numbers of the files in a folder are those of all shards, at least of so many.

    A store may list new files late, and a user may remove files.
    """
    missing = next((i for i, number in enumerate(numbers) if i != number), len(numbers))
    if missing < max(len(numbers), shards):
        raise StorageError(
            f"{folder} lacks the file of shard {missing}, which was written. If it is in a store "
            "that lists new files late, run the same command again; else score the corpus again "
            "with another `out`."
        )


def tallies(folder: SelectionFolder) -> Iterator[tuple[int, Tally]]:
    """(shard, tally) of every scored shard, in order."""
    shards = sorted(int(mark.stem[5:]) for mark in folder.scored.glob("part-*.json"))
    yield from zip(shards, read_tallies(folder.scored, shards), strict=True)


_MOST_RUNS = 1_024
_FEW_RUNS = 64
_SHORT = 16  # parts; work on them takes much longer than a message to a worker


def runs_of_parts(folder: SelectionFolder, shards: int = 0) -> list[tuple[int, ...]]:
    """The numbers of all parts, at least of so many shards, divided into runs; at least one."""
    parts = [index for index, _ in table.parts(folder.scores)]
    require_all(folder.scores, parts, shards)
    length = max(1, min(_SHORT, len(parts) // _FEW_RUNS), -(-len(parts) // _MOST_RUNS))
    return [tuple(parts[i : i + length]) for i in range(0, len(parts), length)] or [()]
