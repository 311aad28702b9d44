"""Describes clusters by their units: sizes, domains, words, typical units, outliers."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.domains.clusters_job import Known
from corpusfit.domains.domains import Domains
from corpusfit.domains.purity import majority
from corpusfit.domains.traits import own_words, traits
from corpusfit.scoring.table import write_parquet

_EXAMPLES, _LONGEST = 5, 2_000
"""Example units per cluster or pair of domains, and characters of each."""


def described(
    units: Sequence[Known],
    of: NDArray[np.int64],
    shares: NDArray[np.float32],
    domains: Domains,
    counts: NDArray[np.int64],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Each cluster: its size, domains, words and most typical units."""
    words = own_words((unit.text for unit in units), of, domains.k)
    found = []
    for number in range(domains.k):
        inside = np.flatnonzero(of == number)
        surest = inside[np.argsort(-shares[inside, number], kind="stable")]
        typical = sorted(surest[: 40 * _EXAMPLES].tolist(), key=lambda i: -len(units[i].text))
        named = zip(names, counts[number], strict=True)
        by_domain = Counter({name: int(n) for name, n in named if n})
        found.append(
            {
                "cluster": number + 1,
                "units": len(inside),
                "share": len(inside) / max(1, len(units)),
                "words": words[number],
                "domains": dict(by_domain.most_common()),
                "examples": [units[i].text[:_LONGEST] for i in typical[:_EXAMPLES]],
            }
        )
    return found


def outliers(
    units: Sequence[Known],
    of: NDArray[np.int64],
    known: NDArray[np.int64],
    counts: NDArray[np.int64],
    names: Sequence[str],
) -> dict[str, Any] | None:
    """Units in a cluster of another domain, and their common traits (Table 2)."""
    if len(names) < 2:
        return None
    taken_for = majority(counts)[of]
    outside = np.flatnonzero(taken_for != known)
    texts = [unit.text for unit in units]
    pairs: dict[tuple[int, int], list[str]] = {}
    attracted: dict[int, list[str]] = {}
    for place, own, other in zip(
        outside.tolist(), known[outside].tolist(), taken_for[outside].tolist(), strict=True
    ):
        pairs.setdefault((own, other), []).append(texts[place])
        attracted.setdefault(other, []).append(texts[place])
    return {
        "all": dataclasses.asdict(traits(texts)),
        "outliers": dataclasses.asdict(traits([texts[i] for i in outside])),
        "attracted": [
            {"domain": names[other], **dataclasses.asdict(traits(attracted[other]))}
            for other in sorted(attracted)
        ],
        "pairs": [
            {
                "domain": names[own],
                "taken_for": names[other],
                "texts": len(found),
                "examples": [text[:_LONGEST] for text in found[:_EXAMPLES]],
            }
            for (own, other), found in sorted(pairs.items(), key=lambda p: (-len(p[1]), p[0]))
        ],
    }


def write_sample(
    path: Path,
    units: Sequence[Known],
    of: NDArray[np.int64],
    shares: NDArray[np.float32],
    places: NDArray[np.float32],
) -> None:
    """Write the units with their clusters (from 1), shares and places on the map."""
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    rows = [
        {
            **dataclasses.asdict(unit),
            "cluster": int(cluster) + 1,
            "shares": own.tolist(),
            "x": float(place[0]),
            "y": float(place[1]),
        }
        for unit, cluster, own, place in zip(units, of, shares, places, strict=True)
    ]
    write_parquet(path, pa.Table.from_pylist(rows))
