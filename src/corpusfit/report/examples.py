"""The examples of a run: their place on a map, and the target texts most like each.

What: reads `examples.parquet`; two coordinates for every text, the nearest target texts for every
segment of the corpus.
Why: what was taken and what was left is seen at a glance, and then read.
Trade-off: a projection to two dimensions (PCA of the run's own vectors, or of TF-IDF vectors where
it made none) keeps what varies most and loses the rest; texts that lie together may differ.
Reference: Pearson (1901); Salton and Buckley (1988) for TF-IDF.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

ON_MAP = 160
"""Characters of a text that the map shows."""

_NEAREST = 3
_WORDS = 3_000
"""Words that TF-IDF vectors are made of: the commonest that several texts have."""

_WORD = re.compile(r"\w+")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """Segments of the corpus and units of the target.

    Attributes:
        corpus: of each segment source, row, segment, id, score, stage, selected, text, characters,
            effects; the highest score first.
        target: of each unit score, text, characters.
        nearest: of each segment the target's places and cosines, the most alike first.
        of_corpus: float64 [n, 2], the segments' places on the map.
        of_target: float64 [m, 2].
        by: `embedding` or `words`: what map and nearest texts go by.
    """

    corpus: list[dict[str, Any]]
    target: list[dict[str, Any]]
    nearest: list[list[tuple[int, float]]]
    of_corpus: Array
    of_target: Array
    by: str


def read_examples(path: Path, room: int) -> Examples:
    """Read the examples that a selection left.

    Args:
        path: the file; without it there are none.
        room: bytes that they may take as JSON: texts are shortened, and then examples left out.
    """
    rows = pq.read_table(io.BytesIO(path.read_bytes())).to_pylist() if path.exists() else []
    rows = _fitting(sorted(rows, key=_by_score), room)
    corpus = [row for row in rows if row["kind"] == "corpus"]
    target = [row for row in rows if row["kind"] == "target"]
    by = "embedding" if rows and rows[0]["vector"] is not None else "words"
    both = [*corpus, *target]
    vectors = _stored(both) if by == "embedding" else _of_words([row["text"] for row in both])
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
    """Segments of the corpus first, from the best; the target as it stands."""
    if row["kind"] == "target":
        return (1,)
    return (0, -row["score"], row["source"], row["row"], row["segment"])


def _fitting(rows: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """The rows with their texts as long as room allows; of many, every second, and so on."""
    for step, longest in _SMALLER:
        kept = [{**row, "text": row["text"][:longest]} for row in rows[::step]]
        if sum(map(_bytes, kept)) <= room:
            return kept
    return []


def _bytes(row: dict[str, Any]) -> int:
    """What a row takes as JSON, on the map too."""
    plain = {k: v for k, v in row.items() if k != "vector"}
    text = row["text"][:ON_MAP]
    plain["map"] = {"text": text, "group": "not selected", "source": row["source"], "x": 0.12345}
    whole = json.dumps(plain, ensure_ascii=False)
    return len(whole.encode("utf-8", "replace")) + 5 * whole.count("<")  # written as \\u003c


_SMALLER = ((1, 2_000), (1, 1_000), (1, 500), (2, 500), (4, 400), (8, 300), (16, 200), (64, 100))
"""Every which row, and how many characters of it, until there is room."""


def _stored(rows: list[dict[str, Any]]) -> Array:
    return np.array([row["vector"] for row in rows], np.float64)


def _of_words(texts: list[str]) -> Array:
    """TF-IDF vectors [n, v] of the commonest words that two texts have at least."""
    counts = [Counter(_WORD.findall(text.lower())) for text in texts]
    having = Counter(word for own in counts for word in own)
    common = sorted((w for w, n in having.items() if n > 1), key=lambda w: (-having[w], w))
    place = {word: i for i, word in enumerate(common[:_WORDS])}
    found = np.zeros((len(texts), max(1, len(place))))
    for row, own in enumerate(counts):
        for word, n in own.items():
            if word in place:
                rarity = math.log(len(texts) / having[word])
                found[row, place[word]] = (1.0 + math.log(n)) * rarity
    return found


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12))


def _nearest(segments: Array, units: Array) -> list[list[tuple[int, float]]]:
    if not len(units):
        return [[] for _ in segments]
    cosines = _unit(segments) @ _unit(units).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST]
    return [
        [(int(i), round(float(own[i]), 4)) for i in places if own[i] > 0.0]
        for own, places in zip(cosines, best, strict=True)
    ]


def _flat(vectors: Array) -> Array:
    """The first two principal components of directions, [n, 2], with signs that do not vary."""
    if len(vectors) < 2:
        return np.zeros((len(vectors), 2))
    placed = _unit(vectors)
    placed = placed - placed.mean(axis=0)
    _, _, axes = np.linalg.svd(placed, full_matrices=False)
    axes = axes[:2]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    found = placed @ axes.T
    return np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
