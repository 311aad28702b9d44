"""Tables of the clusters of a corpus, and the places of its units on a map, as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.escaping import as_csv
from corpusfit.domains.describe import LabeledUnit

_MAX_CHARACTERS = 300
"""Most characters of an example, and of a text on the map."""


def write_tables(
    folder: Path,
    manifest: dict[str, Any],
    units: Sequence[LabeledUnit],
    cluster_of: NDArray[np.int64],
    places: NDArray[np.float32],
) -> None:
    """Write the tables of a run to its folder.

    Two dimensions of the mixture are on the map, so separate clusters may overlap there.
    Reference: Aharoni and Goldberg (2020), Figures 1 and 3, Table 1.
    """
    tables = {
        "clusters": _clusters(manifest),
        "tried": _tried(manifest),
        "points": _points(units, cluster_of, places),
    }
    for name, (columns, rows) in tables.items():
        write_bytes(folder / f"{name}.csv", as_csv(columns, rows).encode("utf-8", "replace"))


Table = tuple[Sequence[str], list[tuple[Any, ...]]]
"""Headings and rows."""


def _clusters(manifest: dict[str, Any]) -> Table:
    rows = [
        (
            cluster["cluster"],
            round(cluster["share"], 4),
            ", ".join(cluster["words"]),
            ", ".join(
                f"{domain} {n / max(1, cluster['units']):.0%}"
                for domain, n in list(cluster["domains"].items())[:3]
            ),
            (cluster["examples"] or [""])[0][:_MAX_CHARACTERS],
        )
        for cluster in manifest["clusters"]
    ]
    return ("cluster", "share of units", "words", "domains", "example"), rows


def _tried(manifest: dict[str, Any]) -> Table:
    columns = ("k", "fits", "purity", "deviation", "likelihood", "bic")
    rows = [tuple(row[name] for name in columns) for row in manifest["tried"]]
    return columns, rows


def _points(
    units: Sequence[LabeledUnit], cluster_of: NDArray[np.int64], places: NDArray[np.float32]
) -> Table:
    # a mixture of one dimension has one component
    flat = np.pad(places, ((0, 0), (0, 2 - places.shape[1]))).astype(np.float64).round(4)
    rows = [
        (x, y, cluster + 1, unit.domain, unit.text[:_MAX_CHARACTERS])
        for unit, cluster, (x, y) in zip(units, cluster_of.tolist(), flat.tolist(), strict=True)
    ]
    return ("x", "y", "cluster", "domain", "text"), rows
