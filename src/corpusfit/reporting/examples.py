"""Examples of a run from `examples.parquet`: map coordinates and nearest target texts."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from corpusfit.core.languages import word_pattern
from corpusfit.kernels.normal_form import normalized
from corpusfit.scoring.table import columns_of

MAX_MAP_CHARACTERS = 160
"""Most characters of a text on the map."""

_NEAREST = 3
_WORDS = 3_000
"""Vocabulary size of the TF-IDF vectors: the most frequent words that two or more texts share."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """Segments of the corpus and units of the target."""

    # for each segment source, row, segment, id, score, stage, selected, text, characters,
    # effects; highest score first
    corpus: list[dict[str, Any]]
    target: list[dict[str, Any]]  # for each unit score, text, characters
    # for each segment indices of target units and cosines, highest cosine first
    nearest: list[list[tuple[int, float]]]
    of_corpus: Array  # float64 [n, 2], map coordinates of the segments
    of_target: Array  # float64 [m, 2], map coordinates of the target units
    by: str  # `embedding` or `words`: the vectors behind map and nearest texts


def read_examples(path: Path, limit: int) -> Examples:
    """Read the examples of a selection.

    Map and nearest texts use the run's own embeddings, or TF-IDF vectors (Salton and Buckley, 1988)
    where it has none. The map is a PCA to two dimensions, so distant texts may lie together on it.
    """
    rows = []
    if path.exists():
        stored = pq.ParquetFile(io.BytesIO(path.read_bytes()))
        rows = columns_of(stored, stored.schema_arrow.names).to_pylist()
    rows = _fitting(sorted(rows, key=_by_score), limit)
    corpus = [row for row in rows if row["kind"] == "corpus"]
    target = [row for row in rows if row["kind"] == "target"]
    by = "embedding" if rows and rows[0]["vector"] is not None else "words"
    both = [*corpus, *target]
    shown = [row["vector" if by == "embedding" else "text"] for row in both]
    vectors = np.array(shown, np.float64) if by == "embedding" else _of_words(shown)
    places = _flat(vectors)
    return Examples(
        [{k: v for k, v in row.items() if k not in ("kind", "vector")} for row in corpus],
        [{k: row[k] for k in ("score", "text", "characters")} for row in target],
        _nearest(vectors[: len(corpus)], vectors[len(corpus) :]),
        places[: len(corpus)],
        places[len(corpus) :],
        by,
    )


def _by_score(row: dict[str, Any]) -> tuple[Any, ...]:
    """Sort key: segments of the corpus by falling score, then target units in stored order."""
    if row["kind"] == "target":
        return (1,)
    return (0, -row["score"], row["source"], row["row"], row["segment"])


def _fitting(rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Thin out rows and shorten texts until they fit into `limit` bytes."""
    for step, longest in _SMALLER:
        shortened = [{**row, "text": row["text"][:longest]} for row in rows[::step]]
        if sum(map(_bytes, shortened)) <= limit:
            return shortened
    return []


def _bytes(row: dict[str, Any]) -> int:
    """Bytes of a row as JSON, including its copy on the map."""
    plain = {k: v for k, v in row.items() if k != "vector"}
    text = row["text"][:MAX_MAP_CHARACTERS]
    plain["map"] = {"text": text, "group": "not selected", "source": row["source"], "x": 0.12345}
    whole = json.dumps(plain, ensure_ascii=False)
    # the page writes each < as \u003c, which is 5 bytes longer
    return len(whole.encode("utf-8", "replace")) + 5 * whole.count("<")


_SMALLER = ((1, 2_000), (1, 1_000), (1, 500), (2, 500), (4, 400), (8, 300), (16, 200), (64, 100))
"""Step between the rows kept, and most characters of each, from largest to smallest."""


def _of_words(texts: list[str]) -> Array:
    """TF-IDF vectors [n, v] over the most frequent words that two or more texts share."""
    counts = [Counter(word_pattern().findall(normalized(text.lower()))) for text in texts]
    having = Counter(word for count in counts for word in count)
    common = sorted((w for w, n in having.items() if n > 1), key=lambda w: (-having[w], w))
    column_of = {word: i for i, word in enumerate(common[:_WORDS])}
    vectors = np.zeros((len(texts), max(1, len(column_of))))
    for row, count in enumerate(counts):
        for word, n in count.items():
            if word in column_of:
                rarity = math.log(len(texts) / having[word])
                vectors[row, column_of[word]] = (1.0 + math.log(n)) * rarity
    return vectors


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12))


def _nearest(segments: Array, units: Array) -> list[list[tuple[int, float]]]:
    if not len(units):
        return [[] for _ in segments]
    cosines = _unit(segments) @ _unit(units).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST]
    return [
        [(int(i), round(float(cosine[i]), 4)) for i in places if cosine[i] > 0.0]
        for cosine, places in zip(cosines, best, strict=True)
    ]


def _flat(vectors: Array) -> Array:
    """First two principal components of the unit vectors, [n, 2], with fixed signs."""
    if len(vectors) < 2:
        return np.zeros((len(vectors), 2))
    placed = _unit(vectors)
    placed = placed - placed.mean(axis=0)
    _, _, axes = np.linalg.svd(placed, full_matrices=False)
    axes = axes[:2]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    points = placed @ axes.T
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
