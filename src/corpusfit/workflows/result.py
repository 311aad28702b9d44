"""A finished run: its manifest, its scores as Arrow tables, its selected texts as an iterator."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import zstandard

from corpusfit.artifacts import restore
from corpusfit.manifest import Finished
from corpusfit.score import registry, table
from corpusfit.score.contract import Scorer
from corpusfit.workflows.selection_folder import SelectionFolder


class Selection(Finished):
    """A finished run of `select`, `score` or `choose`."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The selected segments in the corpus's order, as dicts: text, source, row, score …."""
        parts = (self.path / "selected").glob("part-*.jsonl.zst")
        for part in sorted(parts, key=lambda p: int(p.name[len("part-") :].split(".", 1)[0])):
            with part.open("rb") as f:
                lines = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(f))
                yield from map(orjson.loads, lines)

    def scorer(self) -> Scorer[Any]:
        """The fitted scorer: `score(batch)` of units, as texts or as embeddings float32 [n, d].

        `corpusfit.Scorer` cuts and embeds texts itself.

        Raises:
            ModelError: the method has no scorer.
        """
        path = SelectionFolder(self.path).fit / "scorer.safetensors"
        return restore(path, registry.scorer_class)

    def scores(self) -> Iterator[pa.Table]:
        """The scores: one Arrow table per shard, one row per segment."""
        for _, path in table.parts(self.path / "scores"):
            yield table.read(path)
