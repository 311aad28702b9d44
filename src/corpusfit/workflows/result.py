"""A finished run: its manifest, its scores as Arrow tables, its selected texts as an iterator."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import zstandard

from corpusfit.artifacts import restore
from corpusfit.score import registry, table
from corpusfit.score.contract import Scorer
from corpusfit.workflows.selection_folder import SelectionFolder


@dataclass(frozen=True)
class Selection:
    """A finished run.

    Attributes:
        path: its folder.
        manifest: the content of `manifest.json`.
    """

    path: Path
    manifest: dict[str, Any]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The selected segments in the corpus's order, as dicts: text, source, row, score …."""
        for part in sorted((self.path / "selected").glob("part-*.jsonl.zst"), key=_number):
            with part.open("rb") as f:
                lines = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(f))
                yield from map(orjson.loads, lines)

    def scorer(self) -> Scorer[Any]:
        """The fitted scorer: `score(batch)` for any texts or embeddings.

        Raises:
            ModelError: the method has no scorer.
        """
        path = SelectionFolder(self.path).fit / "scorer.safetensors"
        scorer: Scorer[Any] = restore(path, registry.scorer_class)
        return scorer

    def scores(self) -> Iterator[pa.Table]:
        """The scores: one Arrow table per shard, one row per segment."""
        for _, path in table.parts(self.path / "scores"):
            yield table.read(path)


def _number(part: Path) -> int:
    return int(part.name[len("part-") :].split(".", 1)[0])
