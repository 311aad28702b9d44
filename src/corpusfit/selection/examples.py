"""Writes `examples.parquet`: texts of a run with their vectors and effects, for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_many, restore
from corpusfit.core.engine import Call
from corpusfit.core.errors import MissingDependencyError, ModelError, UsageError
from corpusfit.core.plan import CutPlan, EmbedPlan, MethodPlan
from corpusfit.core.types import Documents, read_as, take_units, text_array
from corpusfit.embed import load, prepare
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Effect
from corpusfit.scoring.table import write_parquet
from corpusfit.selection.choosing import OverRuns, Parts, ScoredPart
from corpusfit.selection.explaining import effects_of
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.resolving import Resolved
from corpusfit.text.context import Run
from corpusfit.text.reading import cut_units

_EACH = 16
"""Segments per range between two possible thresholds."""

_OF_TARGET = 300
"""Units of the target."""

_CHARACTERS = 2_000
"""Characters kept of a text."""

_ID_CHARACTERS = 200
_EFFECTS = 12
"""Most n-grams that raise the score, and most that lower it."""

_OF_ROW = ("source", "row", "segment", "score", "stage", "selected", "text")
_EFFECT = pa.struct([("part", pa.string()), ("effect", pa.float32())])
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("segment", pa.int32()),
        ("id", pa.string()),
        ("score", pa.float32()),
        ("stage", pa.int8()),
        ("selected", pa.bool_()),
        ("text", pa.string()),
        ("characters", pa.int64()),
        ("effects", pa.list_(_EFFECT)),
        ("vector", pa.list_(pa.float32())),
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
    """Describe the segments that `WriteSelected` has read, and write them beside the selection."""
    paths = [example_path(folder.example_texts, part) for part in sorted(parts)]
    rows = [orjson.loads(line) for data in read_many(paths) for line in data.splitlines()]
    target = Sample(folder.fit, "target")
    units = target.read_texts()
    keys = place_keys(run.plan.seed, 0, len(units))
    places = np.sort(np.argsort(keys, kind="stable")[:_OF_TARGET])
    texts = [row["text"] for row in rows]
    encoder = run.encoder
    job = Describe(
        resolved.plan.method,
        folder.scorer,
        target,
        tuple(places.tolist()),
        run.plan.cut,
        run.pinned(run.plan.embed),
        encoder,
        run.cache,
    )
    with run.stage("describe examples"):
        try:
            described = run.one(Call(job, job.encodes), texts)
        except (ModelError, UsageError, MissingDependencyError) as e:
            if encoder is None:
                raise
            run.warn(f"The map of examples uses TF-IDF vectors instead of embeddings: {e.args[0]}")
            described = run.one(dataclasses.replace(job, encoder=None), texts)
    examples: list[dict[str, Any]] = []
    for i, (row, effects) in enumerate(zip(rows, described.effects, strict=True)):
        strongest = [e for e in effects[:_EFFECTS] if e.effect > 0.0]
        strongest += [e for e in effects[-_EFFECTS:] if e.effect < 0.0]
        example = {name: row[name] for name in _OF_ROW}
        example["kind"] = "corpus"
        example["id"] = None if row["id"] is None else str(row["id"])[:_ID_CHARACTERS]
        example["effects"] = [{"part": e.part, "effect": e.effect} for e in strongest]
        examples.append(example)
        if described.vectors is not None:
            examples[-1]["vector"] = described.vectors[i].tolist()
    for i, position in enumerate(places):
        examples.append({"kind": "target", "text": units[position]})
        if described.target_scores is not None:
            examples[-1]["score"] = float(described.target_scores[i])
        if described.target_vectors is not None:
            examples[-1]["vector"] = described.target_vectors[i].tolist()
    for example in examples:
        example |= {"text": example["text"][:_CHARACTERS], "characters": len(example["text"])}
    write_parquet(folder.examples, pa.Table.from_pylist(examples, schema=SCHEMA))


SHARES: tuple[float, ...] = (
    *(0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08),
    *(0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""Shares of the corpus at which possible thresholds are shown."""

_SAMPLE = 100_000
"""Size of the sample of segments from whose scores the edges are computed."""

_EDGES, _DRAWN = 1, 2  # random streams


def edges(parts: Parts, *, seed: int, also: Iterable[float] = ()) -> NDArray[np.float32]:
    """The scores at which about `SHARES` of the segments would be selected."""
    return _edges([_sample(seed, 1.0, 0, parts())], also)


def _edges(samples: Iterable[WithKeys], also: Iterable[float]) -> NDArray[np.float32]:
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


_UNITS = 2
"""First units of a segment whose mean is its vector, enough to place it on a map."""


@dataclass(frozen=True)
class Described:
    """The description of k segments and m target units."""

    vectors: NDArray[np.float32] | None  # [k, d]; None without embeddings
    # by segment, the effects of its n-grams on its score, in descending order
    effects: list[list[Effect]]
    target_vectors: NDArray[np.float32] | None  # [m, d]; None without embeddings
    # [m]; None for a method that cannot score a single text
    target_scores: NDArray[np.float32] | None


@dataclass(frozen=True)
class Describe:
    """Describe segments, given as their texts."""

    method: MethodPlan  # the run's method and its settings
    scorer: Path
    target: Sample
    places: tuple[int, ...]  # places of the target units to describe
    cut: CutPlan
    embed: EmbedPlan
    encoder: str | None  # its fingerprint; None to encode nothing
    cache: Path

    @property
    def encodes(self) -> bool:
        """Whether texts are encoded."""
        method_encodes = registry.build(self.method.name, self.method.options).encodes
        return method_encodes and self.encoder is not None

    def __call__(self, texts: list[str]) -> Described:
        method = registry.build(self.method.name, self.method.options)
        cut, pieces = cut_units(Documents(np.arange(len(texts)), text_array(texts)), self.cut)
        units: list[list[str]] = [[] for _ in texts]
        for row, unit in zip(cut.row.tolist(), pieces.to_pylist(), strict=True):
            units[row].append(unit)
        vectors = target_vectors = target_scores = None
        places = np.array(self.places, np.int64)
        if self.encodes:
            vectors = self._encoded(units)
            target_vectors = self.target.batch("embedding")[places]
        effects: list[list[Effect]] = [[] for _ in texts]
        if method.scores_texts:
            scorer = restore(self.scorer, registry.scorer_class)
            target = self.target.batch("both" if method.encodes else "text")
            target_scores = scorer.score(read_as(take_units(target, places), method.reads))
            if method.whole_segments:
                units = [["".join(texts_of)] for texts_of in units]
            share = [
                1.0 if method.log_weights else 1.0 / max(1, len(texts_of)) for texts_of in units
            ]
            effects = [effects_of(scorer, *each) for each in zip(units, share, strict=True)]
        return Described(vectors, effects, target_vectors, target_scores)

    def _encoded(self, units: list[list[str]]) -> NDArray[np.float32]:
        if prepare(self.embed, self.cache) != self.encoder:
            raise ModelError(
                f"The model {self.embed.embedder} changed since the corpus was scored with it."
            )
        first = [texts_of[:_UNITS] or [""] for texts_of in units]
        flat = [unit for texts_of in first for unit in texts_of]
        vectors = load(self.embed, self.cache).encode(flat)
        counts = np.array([len(texts_of) for texts_of in first])
        sums = np.add.reduceat(vectors, np.cumsum(counts) - counts, axis=0)
        return np.asarray(sums / counts[:, None], np.float32)
