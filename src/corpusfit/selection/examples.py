"""Writes `examples.parquet`: texts of a run with their scores, for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_many
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.scoring.table import write_parquet
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.gathering import GatheredPart, read_chosen
from corpusfit.text.context import Run

_EACH = 9
"""Segments of each kind."""

_SAMPLE = 100_000
"""Segments whose scores show how they are spread, about."""

_CHARACTERS = 2_000
"""Characters kept of a text."""

_OF_ROW = ("source", "row", "segment", "score", "selected", "text")
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("segment", pa.int32()),
        ("score", pa.float32()),
        ("selected", pa.bool_()),
        ("text", pa.string()),
        ("characters", pa.int64()),
    ]
)


def example_path(folder: Path, shard: int) -> Path:
    """File of a shard's example segments."""
    return folder / f"part-{shard:05d}.jsonl"


@dataclass(frozen=True)
class Examples:
    """Which segments are shown."""

    places: dict[int, tuple[int, ...]]  # in the stored scores, by part
    drawn: frozenset[tuple[int, int]]  # part and place of those that are drawn


def draw_examples(
    run: Run, seed: int, gathered: Path, runs: Sequence[tuple[int, ...]], segments: int
) -> tuple[Examples, NDArray[np.float32]]:
    """Draw example segments, and the scores of a uniform sample, which the same files have.

    Examples are the selected segments with the highest and the lowest scores, those with the next
    lower ones, and segments that are drawn from the selection.
    """
    share = min(1.0, _SAMPLE / max(1, segments))
    job = partial(_draw, gathered, seed, share)
    found = dict(run.engine.map(job, enumerate(runs)))
    sample = np.concatenate([found[number][0] for number in range(len(runs))])
    kinds = zip(*(found[number][1] for number in range(len(runs))), strict=True)
    *extremes, drawn = (_lowest(of_runs)[1] for of_runs in kinds)
    places: dict[int, tuple[int, ...]] = {}
    for part, place in np.unique(np.concatenate([*extremes, drawn]), axis=0).tolist():
        places[part] = (*places.get(part, ()), place)
    return Examples(places, frozenset((part, place) for part, place in drawn.tolist())), sample


WithKeys = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Keys of some segments, [n], and their parts and places, [n, 2]."""

_NOTHING: WithKeys = np.empty(0), np.empty((0, 2), np.int64)
_SCORES = 1  # random streams
_DRAWN = 2


def _draw(
    gathered: Path, seed: int, share: float, numbered: tuple[int, tuple[int, ...]]
) -> tuple[int, tuple[NDArray[np.float32], list[WithKeys]]]:
    """A share of the scores of a run of parts, and the candidates for each kind of example."""
    number, parts = numbered
    scores = [np.empty(0, np.float32)]
    found = [_NOTHING] * 4
    for part, selected in read_chosen(gathered, parts):
        scores.append(part.scores[~part.copy & (_uniform(seed, _SCORES, part) < share)])
        of_part = _candidates(part, selected, seed)
        found = [_lowest(pair) for pair in zip(found, of_part, strict=True)]
    return number, (np.concatenate(scores), found)


def _candidates(part: GatheredPart, selected: NDArray[np.bool_], seed: int) -> Iterator[WithKeys]:
    """The segments of a part for each kind of example; those with the lowest keys are examples."""
    falling = -part.scores.astype(np.float64)
    # the longer a text, the likelier it is drawn, as a model is trained on words
    # Reference: Efraimidis and Spirakis (2006), weighted random sampling with a reservoir.
    drawn = -np.log(_uniform(seed, _DRAWN, part)) / np.maximum(part.tokens, 1)
    others = ~part.copy & ~selected & ~part.short
    kinds = ((selected, falling), (selected, -falling), (others, falling), (selected, drawn))
    for inside, keys in kinds:
        at = np.flatnonzero(inside)
        yield keys[at], np.column_stack([np.full(len(at), part.index), at])


def _uniform(seed: int, stream: int, part: GatheredPart) -> NDArray[np.float64]:
    of_stream = int(place_keys(seed, stream, 1)[0])
    return uniform(place_keys(of_stream, part.index, len(part.scores)))


def _lowest(found: Iterable[WithKeys]) -> WithKeys:
    """The entries with the lowest keys of all."""
    each_keys, each_places = zip(*found, strict=True)
    keys = np.concatenate(each_keys)
    lowest = np.argsort(keys, kind="stable")[:_EACH]
    return keys[lowest], np.concatenate(each_places)[lowest]


def write_examples(folder: SelectionFolder, examples: Examples) -> None:
    """Write the table of the example segments, whose texts `WriteSelected` has read."""
    places = examples.places
    paths = [example_path(folder.example_texts, part) for part in places]
    shown: list[dict[str, Any]] = []
    for (part, of_part), data in zip(places.items(), read_many(paths), strict=True):
        for place, line in zip(of_part, data.splitlines(), strict=True):
            row = orjson.loads(line)
            kind = "drawn" if (part, place) in examples.drawn else "corpus"
            kept = {name: row[name] for name in _OF_ROW}
            kept["text"] = row["text"][:_CHARACTERS]
            shown.append({"kind": kind, **kept, "characters": len(row["text"])})
    write_parquet(folder.examples, pa.Table.from_pylist(shown, schema=SCHEMA))
