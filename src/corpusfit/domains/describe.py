"""Describe clusters: purity, words and typical units."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.languages import word_pattern
from corpusfit.kernels.word_form import word_form
from corpusfit.scoring.table import write_parquet

_EXAMPLES = 5  # units shown for a cluster
_MAX_CHARACTERS = 2_000  # characters shown of each unit
_JOINED = "'’-"  # within a word
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LabeledUnit:
    """A sampled unit, with its known domain as its label."""

    text: str
    source: str
    row: int
    domain: str


def confusion(clusters: Ints, labels: Ints, k: int, t: int) -> Ints:
    """The number of texts of each domain in each cluster: int64 [k, t]."""
    return np.bincount(clusters * t + labels, minlength=k * t).reshape(k, t)


def purity(counts: Ints) -> float:
    """The fraction of texts whose domain is the most frequent one of their cluster.

    Reference: Manning, Raghavan and Schütze (2008), section 16.3; Aharoni and Goldberg (2020),
    sections 2.4 and 2.6, Figure 2.
    """
    # More clusters are purer, so purities are comparable only at the same k.
    return float(counts.max(axis=1).sum() / max(1, counts.sum()))


def characteristic_words(
    texts: Iterable[str], clusters: NDArray[np.int64], k: int, max_words: int = 8
) -> list[list[str]]:
    """The most characteristic words of each of k clusters, in descending order."""
    # A word is ranked by its term p log(p / q) in the Kullback-Leibler divergence, where p and q
    # are its relative frequencies in the cluster and in all texts. A word counts once per text.
    counts = [Counter[str]() for _ in range(k)]
    for text, cluster in zip(texts, clusters.tolist(), strict=True):
        words = word_pattern(_JOINED).findall(word_form(text))
        counts[cluster].update({word.lower() for word in words if len(word) > 1})
    whole = sum(counts, Counter[str]())
    total = whole.total()
    ranked = []
    for cluster_counts in counts:
        size = cluster_counts.total()
        divergence = {
            word: n / size * math.log(n / size / (whole[word] / total))
            for word, n in cluster_counts.items()
            if n > 1
        }
        ranked.append(sorted(divergence, key=lambda word: (-divergence[word], word))[:max_words])
    return ranked


def describe_clusters(
    units: Sequence[LabeledUnit],
    cluster_of: NDArray[np.int64],
    shares: NDArray[np.float32],
    counts: NDArray[np.int64],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Describe each cluster: size, domains, characteristic words and typical units."""
    k = len(counts)
    words = characteristic_words((unit.text for unit in units), cluster_of, k)
    clusters = []
    for number in range(k):
        inside = np.flatnonzero(cluster_of == number)
        # examples: the longest of the units that most certainly belong to the cluster
        surest = inside[np.argsort(-shares[inside, number], kind="stable")]
        typical = sorted(surest[: 40 * _EXAMPLES].tolist(), key=lambda i: -len(units[i].text))
        named = zip(names, counts[number].tolist(), strict=True)
        clusters.append(
            {
                "cluster": number + 1,
                "units": len(inside),
                "share": len(inside) / max(1, len(units)),
                "words": words[number],
                "domains": dict(Counter({name: n for name, n in named if n}).most_common()),
                "examples": [units[i].text[:_MAX_CHARACTERS] for i in typical[:_EXAMPLES]],
            }
        )
    return clusters


def write_sample(
    path: Path,
    units: Sequence[LabeledUnit],
    cluster_of: NDArray[np.int64],
    shares: NDArray[np.float32],
    coordinates: NDArray[np.float32],
) -> None:
    """Write the units with their clusters (from 1), shares and map coordinates."""
    coordinates = np.pad(coordinates, ((0, 0), (0, 2 - coordinates.shape[1])))
    rows = [
        {
            **dataclasses.asdict(unit),
            "cluster": int(cluster) + 1,
            "shares": share.tolist(),
            "x": float(x),
            "y": float(y),
        }
        for unit, cluster, share, (x, y) in zip(units, cluster_of, shares, coordinates, strict=True)
    ]
    write_parquet(path, pa.Table.from_pylist(rows))
