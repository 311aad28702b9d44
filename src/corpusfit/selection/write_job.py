"""The job that writes the selected segments' text and the example segments."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import PlainJob
from corpusfit.core.errors import changed_input
from corpusfit.core.plan import SECOND, ReadPlan
from corpusfit.core.types import Document, Shard, file_of, in_file
from corpusfit.scoring import table
from corpusfit.text import rows
from corpusfit.text.reading import Tally

_COLUMNS = ("row", "segment", "start", "end", "score", "stage", "weight", "selected")


def selected_path(folder: Path, shard: int) -> Path:
    """File of a shard's selected text."""
    return folder / f"part-{shard:05d}.jsonl.zst"


def read_selected(path: Path) -> Iterator[dict[str, Any]]:
    """The segments of a file of selected text, in order."""
    with path.open("rb") as file:
        lines = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
        yield from map(orjson.loads, lines)


def looked_at_path(folder: Path, shard: int) -> Path:
    """File of a shard's example segments."""
    return folder / f"part-{shard:05d}.jsonl"


@dataclass(frozen=True)
class WriteSelected(PlainJob[Shard, int]):
    """Read a shard again and write its selected segments; returns their number.

    Attributes:
        scores: folder of the stored scores.
        selected: folder of the selected text.
        looked_at: folder of the example segments.
        places: places of the example segments in the stored scores, by shard.
    """

    read: ReadPlan
    names: tuple[str, ...]
    scores: Path
    selected: Path
    looked_at: Path
    places: dict[int, tuple[int, ...]]

    def _work(self, shard: Shard) -> int:
        path = table.part_path(self.scores, shard.index)
        columns = dict(zip(_COLUMNS, table.read_columns(path, *_COLUMNS), strict=True))
        columns["row"] = table.read_rows(path, Tally.of(shard).sources(self.names))
        places = np.array(self.places.get(shard.index, ()), np.int64)
        taken = np.flatnonzero(columns["selected"])
        files = set(file_of(columns["row"][np.concatenate([places, taken])]).tolist())
        read = rows(shard, self.read, files)
        documents = {d.row: d for d in read if isinstance(d, Document)}
        if len(places):
            lines = self._lines(shard, documents, columns, places, ("stage", "selected"))
            write_bytes(looked_at_path(self.looked_at, shard.index), b"\n".join(lines))
        if len(taken):
            lines = self._lines(shard, documents, columns, taken, ("weight",), whole=True)
            data = zstandard.ZstdCompressor(level=3).compress(b"\n".join(lines) + b"\n")
            write_bytes(selected_path(self.selected, shard.index), data)
        return len(taken)

    def _lines(
        self,
        shard: Shard,
        documents: dict[int, Document],
        columns: dict[str, NDArray[Any]],
        places: NDArray[np.int64],
        more: tuple[str, ...],
        *,
        whole: bool = False,
    ) -> list[bytes]:
        """JSON lines of the segments at some places, with text and provenance.

        With `whole` as they are written: pairs with their first side as the text, and with the
        fields that the text is made of, if it is of several or of a chat.
        """
        lines = []
        for at in places:
            here = {name: column[at] for name, column in columns.items()}
            document = documents.get(int(here["row"]))
            source = self.names[shard.source + int(file_of(here["row"]))]
            if document is None or here["end"] > len(document.text):
                raise changed_input(source, "`overwrite`")
            here["row"] = in_file(here["row"])
            text, other = document.text[int(here["start"]) : int(here["end"])], document.translation
            if other is not None and whole and self.read.side == SECOND:
                text, other = other, text
            line = {
                "text": text,
                **({} if other is None else {"translation": other}),
                "source": source,
                **{name: here[name] for name in ("row", "segment", "score", *more)},
                "id": document.id,
            }
            for name, value in (document.fields or {}).items() if whole else ():
                line[f"row_{name}" if name in line else name] = value
            lines.append(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY))
        return lines
