"""Writes `examples.parquet`: texts of a run with their scores, for the report."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_many, restore
from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import read_as, take_units
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring import registry
from corpusfit.scoring.table import write_parquet
from corpusfit.selection.choosing import OverRuns, ScoredPart
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.resolving import Resolved
from corpusfit.text.context import Run

_EACH = 16
"""Segments per range between two possible thresholds."""

_OF_TARGET = 300
"""Units of the target."""

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


def draw_examples(
    run: Run, over: OverRuns, segments: int, threshold: float | None
) -> tuple[NDArray[np.float32], dict[int, NDArray[np.int64]]]:
    """Draw example segments, selected or not; returns thresholds, and places by part."""
    also = [] if threshold is None else [threshold]
    share = min(1.0, 1.5 * _SAMPLE / max(1, segments))  # a run has its part of the sample, and more
    at = _edges(over(partial(_sample, run.plan.seed, share)), also)
    return at, places_of(over(partial(draw, run.plan.seed, at, _EACH)), _EACH)


def write_examples(run: Run, folder: SelectionFolder, resolved: Resolved, parts: list[int]) -> None:
    """Write the segments that `WriteSelected` has read, and units of the target with scores."""
    paths = [example_path(folder.example_texts, part) for part in sorted(parts)]
    rows = [orjson.loads(line) for data in read_many(paths) for line in data.splitlines()]
    target = Sample(folder.fit, "target")
    units = target.read_texts()
    keys = place_keys(run.plan.seed, 0, len(units))
    places = np.sort(np.argsort(keys, kind="stable")[:_OF_TARGET])
    score = partial(_target_scores, resolved.plan.method, folder.scorer, target)
    with run.stage("score target"):
        scores = run.one(score, places)
    examples: list[dict[str, Any]] = [
        {"kind": "corpus", **{name: row[name] for name in _OF_ROW}} for row in rows
    ]
    for i, place in enumerate(places):
        of_unit = {} if scores is None else {"score": float(scores[i])}
        examples.append({"kind": "target", "text": units[place], **of_unit})
    for example in examples:
        example |= {"text": example["text"][:_CHARACTERS], "characters": len(example["text"])}
    write_parquet(folder.examples, pa.Table.from_pylist(examples, schema=SCHEMA))


def _target_scores(
    plan: MethodPlan, scorer: Path, target: Sample, places: NDArray[np.int64]
) -> NDArray[np.float32] | None:
    """The scores of some target units; None for a method that cannot score a single text."""
    method = registry.build(plan.name, plan.options)
    if not method.scores_texts:
        return None
    batch = target.batch("both" if method.encodes else "text")
    scores = restore(scorer, registry.scorer_class).score
    return scores(read_as(take_units(batch, places), method.reads))


SHARES: tuple[float, ...] = (
    *(0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08),
    *(0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""Shares of the corpus at which possible thresholds are shown."""

_SAMPLE = 100_000
"""Size of the sample of segments from whose scores the edges are computed."""

_EDGES, _DRAWN = 1, 2  # random streams


def _edges(samples: Iterable[WithKeys], also: Iterable[float]) -> NDArray[np.float32]:
    """The scores at which about `SHARES` of the segments would be selected."""
    # The scores are those of a uniform sample (all segments up to a bound), so the share above an
    # edge is close to the requested share.
    sample = np.sort(_lowest(_SAMPLE, samples, np.empty(0, np.float32))[1])[::-1]
    if not len(sample):
        return np.empty(0, np.float32)
    places = [min(len(sample), max(1, round(share * len(sample)))) - 1 for share in SHARES]
    candidates = np.concatenate([sample[places], np.array(list(also), np.float32)])
    return np.unique(candidates)[::-1]


WithKeys = tuple[NDArray[Any], NDArray[Any]]
"""Keys of some segments, random or by score, [n], and what belongs to them, [n, …]."""


def _sample(seed: int, share: float, run: int, parts: Iterable[ScoredPart]) -> WithKeys:
    """The scores with the lowest keys, of about this share of the segments."""
    highest = np.uint64(min(2**64 - 1, int(share * 2**64)))
    found = np.empty(0, np.uint64), np.empty(0, np.float32)
    for part in parts:
        keys = _keys(seed, _EDGES, part)
        low = keys <= highest
        found = _joined([found, (keys[low], part.scores[low])])
        if len(found[0]) > 2 * _SAMPLE:
            found = _lowest(_SAMPLE, [found], found[1][:0])
    return _lowest(_SAMPLE, [found], found[1][:0])


def _keys(seed: int, stream: int, part: ScoredPart) -> NDArray[np.uint64]:
    return place_keys(int(place_keys(seed, stream, 1)[0]), part.index, len(part.scores))


def _joined(found: Iterable[WithKeys]) -> WithKeys:
    keys, values = zip(*found, strict=True)
    return np.concatenate(keys), np.concatenate(values)


def _lowest(count: int, found: Iterable[WithKeys], nothing: NDArray[Any]) -> WithKeys:
    """The entries with the lowest keys of all."""
    keys, values = _joined([(np.empty(0, np.uint64), nothing), *found])
    lowest = np.argsort(keys, kind="stable")[:count]
    return keys[lowest], values[lowest]


def draw(
    seed: int, at: NDArray[np.float32], each: int, run: int, parts: Iterable[ScoredPart]
) -> list[WithKeys]:
    """Part and place of the segments with the lowest keys of each stretch between two edges.

    The last ones are those with the highest scores.
    """
    # A uniform sample would hold almost none of the best hundredth. Segments are drawn by bottom-k
    # sampling of hashed positions (`kernels/chance.py`).
    found = [(np.empty(0, np.uint64), _NO_PLACES) for _ in range(len(at) + 2)]
    for part in parts:
        drawn = _keys(seed, _DRAWN, part)
        stretch = np.searchsorted(-at, -part.scores, side="left")
        within = [(int(n), np.flatnonzero(stretch == n), drawn) for n in np.unique(stretch)]
        by_score = (-1, np.arange(len(drawn)), -part.scores.astype(np.float64))
        for number, inside, keys in (*within, by_score):
            nearest = inside[np.argsort(keys[inside], kind="stable")[:each]]
            places = np.column_stack([np.full(len(nearest), part.index), nearest])
            candidates = [found[number], (keys[nearest], places)]
            found[number] = _lowest(each, candidates, _NO_PLACES)
    return found


_NO_PLACES = np.empty((0, 2), np.int64)


def places_of(runs: Iterable[list[WithKeys]], each: int) -> dict[int, NDArray[np.int64]]:
    """The places of the segments with the lowest keys of each stretch, by part."""
    stretches = zip(*runs, strict=True)
    drawn = np.concatenate([_lowest(each, found, _NO_PLACES)[1] for found in stretches])
    drawn = np.unique(drawn, axis=0)
    return {int(index): drawn[drawn[:, 0] == index, 1] for index in np.unique(drawn[:, 0])}
