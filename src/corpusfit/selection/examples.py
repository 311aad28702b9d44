"""Writes `examples.parquet`: texts of a run with their vectors and effects, for the report."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.errors import MissingDependencyError, ModelError, UsageError
from corpusfit.core.plan import MethodPlan
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring.contract import Effect
from corpusfit.scoring.table import write_parquet
from corpusfit.selection.cascade_stages import stages_of
from corpusfit.selection.choosing import Parts
from corpusfit.selection.examples_job import Describe, Described
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.strata import drawn_between, edges
from corpusfit.selection.write_job import looked_at_path
from corpusfit.text.context import Run

_EACH = 16
"""Segments per range between two possible thresholds."""

_OF_TARGET = 300
"""Units of the target."""

_LONGEST = 2_000
"""Characters kept of a text."""

_LONGEST_ID = 200
_EFFECTS = 12
"""Most n-grams that raise the score, and most that lower it."""

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


def draw_examples(run: Run, parts: Parts, threshold: float | None) -> dict[int, NDArray[np.int64]]:
    """Draw example segments, selected or not; returns their places by part."""
    also = [] if threshold is None else [threshold]
    at = edges(parts, seed=run.plan.seed, also=also)
    return drawn_between(parts, at, _EACH, seed=run.plan.seed)


def write_examples(run: Run, folder: SelectionFolder, method: MethodPlan, parts: list[int]) -> None:
    """Describe the segments that `WriteSelected` has read, and write them beside the selection."""
    paths = [looked_at_path(folder.looked_at, part) for part in sorted(parts)]
    rows = [orjson.loads(line) for path in paths for line in path.read_bytes().splitlines()]
    target = Sample(folder.fit, "target")
    units = target.read_texts()
    keys = place_keys(run.plan.seed, 0, len(units))
    places = np.sort(np.argsort(keys, kind="stable")[:_OF_TARGET])
    scorer = folder.fit / "scorer.safetensors"
    texts = [row["text"] for row in rows]
    chosen = tuple(places.tolist())
    plan, encoder = run.plan, run.encoder
    job = Describe(method, scorer, target, chosen, plan.cut, plan.embed, encoder, run.cache)
    with run.stage("describe examples"):
        try:
            described = run.one(job, texts)
        except (ModelError, UsageError, MissingDependencyError) as e:
            if encoder is None:
                raise
            run.warn(f"The map of examples uses TF-IDF vectors instead of embeddings: {e.args[0]}")
            described = run.one(dataclasses.replace(job, encoder=None), texts)
    last = len(stages_of(plan)) if plan.cascade.stages else 1
    for row, effects in zip(rows, described.effects, strict=True):
        if row["stage"] < last:  # its score is not the last stage's
            effects.clear()
    target_rows = _of_target([units[i] for i in places], described)
    table = pa.Table.from_pylist([*_of_corpus(rows, described), *target_rows], schema=SCHEMA)
    write_parquet(folder.examples, table)


def _of_corpus(rows: list[dict[str, Any]], described: Described) -> list[dict[str, Any]]:
    found = []
    for i, (row, effects) in enumerate(zip(rows, described.effects, strict=True)):
        known = {name: row[name] for name in ("source", "row", "segment", "score", "stage")}
        identity = None if row["id"] is None else str(row["id"])[:_LONGEST_ID]
        found.append(
            {
                **known,
                "kind": "corpus",
                "id": identity,
                "selected": row["selected"],
                **_shown(row["text"]),
                "effects": _strongest(effects),
                "vector": _vector(described.vectors, i),
            }
        )
    return found


def _of_target(units: list[str], described: Described) -> list[dict[str, Any]]:
    scores = described.target_scores
    return [
        {
            "kind": "target",
            **_shown(unit),
            "score": None if scores is None else float(scores[i]),
            "vector": _vector(described.target_vectors, i),
        }
        for i, unit in enumerate(units)
    ]


def _shown(text: str) -> dict[str, Any]:
    return {"text": text[:_LONGEST], "characters": len(text)}


def _vector(vectors: NDArray[np.float32] | None, i: int) -> list[float] | None:
    return None if vectors is None else vectors[i].tolist()


def _strongest(effects: list[Effect]) -> list[dict[str, Any]]:
    """The strongest effects that raise and lower the score, in descending order."""
    strongest = [e for e in effects[:_EFFECTS] if e.effect > 0.0]
    strongest += [e for e in effects[-_EFFECTS:] if e.effect < 0.0]
    return [{"part": e.part, "effect": e.effect} for e in strongest]
