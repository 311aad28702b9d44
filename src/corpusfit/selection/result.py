"""A finished selection: a sequence of segments, a table, a data frame, and its scores."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, overload

import orjson
import pyarrow as pa

from corpusfit.core.artifacts import restore
from corpusfit.core.errors import InputError, importing
from corpusfit.core.manifest import Finished
from corpusfit.core.zstandard import zstd
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import Scorer
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.labels import labeled_scores
from corpusfit.text.context import Machine, machine_of


def read_selected(path: Path) -> Iterator[dict[str, Any]]:
    """The texts of a file of selected text, in order."""
    with path.open("rb") as file, zstd.open(file) as lines:
        try:
            yield from map(orjson.loads, lines)
        except (zstd.ZstdError, EOFError, ValueError) as e:
            raise InputError(
                f"{path} is damaged ({e}). Run the selection again, with another `out`."
            ) from e


class Selection(Finished, Sequence[dict[str, Any]]):
    """A finished run of `select` or `choose`: a sequence of its selected texts.

    A text is one selected segment, or neighboring ones of a row, joined. It is a dict: text,
    source, row, segment (the first), score, weight, segments (how many), id; for aligned pairs also
    its translation; the row's fields of `choose.keep`; and where a template or a chat makes the
    text, the fields that it is made of. Texts stand in the corpus's order, and are read from the
    folder at each use; `best` has those with the highest scores, the highest first. `row` is the
    position in its source, from 0. `path` is the folder,
    `manifest` the content of its `manifest.json`.
    """

    def __len__(self) -> int:
        """Number of selected texts."""
        selected = self.manifest["selected"]
        return int(selected["rows"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The selected texts."""
        parts = (self.path / "selected").glob("part-*.jsonl.zst")
        for part in sorted(parts, key=lambda p: int(p.name[len("part-") :].split(".", 1)[0])):
            yield from read_selected(part)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """A text by its number, or several by a slice; reads the texts before it."""
        places = range(len(self))[at]
        if isinstance(places, int):
            return next(islice(self, places, None))
        wanted = set(places)
        texts = {i: text for i, text in enumerate(self) if i in wanted}
        return [texts[i] for i in places]

    def best(self, n: int = 10) -> list[dict[str, Any]]:
        """The n selected texts with the highest scores, the highest first; ties in order."""
        return heapq.nlargest(n, self, key=lambda text: text["score"])

    def to_arrow(self) -> pa.Table:
        """The selected texts as an Arrow table, in memory."""
        rows = list(self)
        names = list(dict.fromkeys(name for row in rows for name in row)) or list(_EMPTY.names)
        columns = {name: [row.get(name) for row in rows] for name in names}
        types = {field.name: field.type for field in _EMPTY}
        return pa.table({n: _column(values, types.get(n)) for n, values in columns.items()})

    def to_pandas(self) -> Any:
        """The selected texts as a `pandas.DataFrame`."""
        with importing("to_pandas", "hub", "Or pandas alone: pip install pandas"):
            import pandas as pd  # noqa: F401 (pyarrow's own error names no cure)
        return self.to_arrow().to_pandas()

    def scorer(self) -> Scorer[Any]:
        """The fitted scorer of units: `score(texts)`, or of embeddings float32 [n, d]."""
        # `corpusfit.Scorer.load(selection)` scores whole texts by any method: it cuts and embeds
        # them itself.
        path = SelectionFolder(self.path).scorer
        return restore(path, registry.scorer_class)

    def scores(self) -> Iterator[pa.Table]:
        """The scores: one Arrow table per shard, one row per segment."""
        for _, path in table.parts(self.path / "scores"):
            yield table.read(path)

    def labeled_scores(self, field: str, *, machine: Machine | None = None) -> Iterator[pa.Table]:
        """`scores` with a column `label`: the value of a field of each segment's row.

        The corpus is read again. A row without the field has the label `(none)`.

        Raises:
            UsageError: no row has the field.
            ChangedInputError: the corpus changed since it was scored.
        """
        return labeled_scores(self.path, field, machine_of(machine, {}))

    def samples(self) -> dict[str, list[str]]:
        """The different texts of the task by `target`, and a sample of the corpus by `corpus`.

        They are what the method was fitted on, in units; a method that reads neither the corpus's
        text nor its embeddings keeps no sample of it.
        """
        fit = SelectionFolder(self.path).fit
        stored = {"target": Sample(fit, "target"), "corpus": Sample(fit, "background")}
        return {
            name: sample.read_texts() for name, sample in stored.items() if sample.texts.exists()
        }

    def __repr__(self) -> str:
        segments = f"{self.manifest['counts']['segments']:,}"
        facts = f"{self.manifest['selected']['segments']:,} of {segments} segments"
        return f"Selection({str(self.path)!r}, {facts}, {self.manifest['method']['name']})"


_EMPTY = pa.schema(
    [
        *((name, pa.string()) for name in ("text", "source")),
        *((name, pa.int64()) for name in ("row", "segment")),
        *((name, pa.float64()) for name in ("score", "weight")),
        ("segments", pa.int64()),
        ("id", pa.null()),
    ]
)
"""The columns of a selection; the type of `id` is that of the corpus."""


def _column(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """A column; values of several types become strings, as in JSON."""
    try:
        return pa.array(values, None if kind == pa.null() else kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        plain = (str, type(None))
        return pa.array([v if isinstance(v, plain) else orjson.dumps(v).decode() for v in values])
