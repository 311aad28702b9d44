"""Tables of the clusters of a corpus, and the places of its units on a map, as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.domains.describe import LabeledUnit
from corpusfit.evaluation.tables import Cell, Table, csv

_MAX_CHARACTERS = 300
"""Most characters of an example, and of a text on the map."""


def write_tables(
    folder: Path,
    manifest: dict[str, Any],
    units: Sequence[LabeledUnit],
    cluster_of: NDArray[np.int64],
    places: NDArray[np.float32],
) -> None:
    """Write the tables of a run to its folder; four of them where several domains are known.

    Two dimensions of the mixture are on the map, so separate clusters may overlap there.
    Reference: Aharoni and Goldberg (2020), Figures 1 to 4, Tables 1 and 2.
    """
    tables = [_clusters(manifest), _tried(manifest), _points(units, cluster_of, places)]
    if len(manifest["domains"]) > 1:
        tables += _of_domains(manifest)
    for table in tables:
        write_bytes(folder / f"{table.title}.csv", csv(table).encode("utf-8", "replace"))


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
    columns = ("cluster", "share of units", "words", "domains", "example")
    return Table("clusters", columns, tuple(rows))


def _tried(manifest: dict[str, Any]) -> Table:
    columns = ("k", "fits", "purity", "deviation", "likelihood", "bic")
    rows = [
        (row.get("of", "mixture"), *(row[name] for name in columns))
        for row in [*manifest["tried"], *manifest["baselines"]]
    ]
    return Table("tried", ("model", *columns), tuple(rows))


def _points(
    units: Sequence[LabeledUnit], cluster_of: NDArray[np.int64], places: NDArray[np.float32]
) -> Table:
    # a mixture of one dimension has one component
    flat = np.pad(places, ((0, 0), (0, 2 - places.shape[1]))).astype(np.float64).round(4)
    rows = [
        (x, y, cluster + 1, unit.domain, unit.text[:_MAX_CHARACTERS])
        for unit, cluster, (x, y) in zip(units, cluster_of.tolist(), flat.tolist(), strict=True)
    ]
    return Table("points", ("x", "y", "cluster", "domain", "text"), tuple(rows))


def _of_domains(manifest: dict[str, Any]) -> Iterator[Table]:
    """Clusters beside known domains: shares, cosines of centroids, and outliers."""
    shares = [
        (domain, cluster["cluster"], round(cluster["domains"].get(domain, 0) / size, 4))
        for domain, size in manifest["domains"].items()
        for cluster in manifest["clusters"]
    ]
    yield Table("confusion", ("domain", "cluster", "share of its units"), tuple(shares))
    cosines = [
        (one, other, cosine)
        for one, row in zip(manifest["domains"], manifest["proximity"], strict=True)
        for other, cosine in zip(manifest["domains"], row, strict=True)
    ]
    yield Table("proximity", ("domain", "other", "cosine of centroids"), tuple(cosines))

    outliers = manifest["outliers"]
    lines = [("all", outliers["all"]), ("in another domain's cluster", outliers["outliers"])]
    lines += [(f"in the cluster of {row['domain']}", row) for row in outliers["attracted"]]
    traits = ("texts", "words", "numbers", "pronouns", "questions", "pronouns_or_questions")
    rows: list[tuple[Cell, ...]] = [(name, *(line[key] for key in traits)) for name, line in lines]
    yield Table("outliers", ("units", *traits), tuple(rows))
    pairs = [
        (pair["domain"], pair["taken_for"], pair["texts"], pair["examples"][0][:_MAX_CHARACTERS])
        for pair in outliers["pairs"]
    ]
    yield Table("pairs", ("domain", "cluster of", "units", "example"), tuple(pairs))
