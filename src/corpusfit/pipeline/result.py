"""What a finished run left, for programs.

What: the manifest, the scores as an Arrow table, the selected texts as an iterator.
Why: the files are the result; this only saves the caller from opening them by hand.
Trade-off: nothing is cached, so it is as flat in memory as the files allow.
"""

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
from corpusfit.manifest import RunFolder
from corpusfit.score import registry, table
from corpusfit.score.contract import Scorer


@dataclass(frozen=True)
class Selection:
    """A finished run.

    Attributes:
        path: its folder.
        manifest: what `manifest.json` says.
    """

    path: Path
    manifest: dict[str, Any]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The selected segments, in the corpus's order: text, source, row, segment, score …."""
        for part in sorted((self.path / "selected").glob("part-*.jsonl.zst"), key=_number):
            with part.open("rb") as f:
                lines = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(f))
                yield from map(orjson.loads, lines)

    def scorer(self) -> Scorer[Any]:
        """The fitted scorer: `score(batch)` for any texts or embeddings.

        Raises:
            ModelError: the method scores a corpus and leaves no scorer.
        """
        path = RunFolder(self.path).fit / "scorer.safetensors"
        scorer: Scorer[Any] = restore(path, registry.scorer_class)
        return scorer

    def scores(self) -> Iterator[pa.Table]:
        """The scores, one Arrow table a shard, one row a segment."""
        for _, path in table.parts(self.path / "scores"):
            yield table.read(path)


def _number(part: Path) -> int:
    return int(part.name[len("part-") :].split(".", 1)[0])
