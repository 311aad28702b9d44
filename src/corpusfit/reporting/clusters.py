"""Section of the page on the domains of a corpus: clusters, map, purity, outliers, proximity."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq

from corpusfit.core.escaping import harmless
from corpusfit.domains.mixture import ClustersFolder
from corpusfit.reporting.charts import Spec, clusters_chart, squares_chart
from corpusfit.reporting.examples import MAX_MAP_CHARACTERS
from corpusfit.reporting.part import Part, Sheet, rounded
from corpusfit.reporting.reading import Found
from corpusfit.scoring.table import columns_of

_MAX_MAP_UNITS = 2_000
"""Most units on the map."""

_MAX_LISTED = 20
"""Most domains and clusters in a heat map (stated in `templates/domains.html`), and pairs."""

_MAX_CHARACTERS = 300
"""Most characters of an example."""


def clusters_part(name: str, run: Found) -> Part:
    """The section on the domains found in one corpus.

    The map shows two of the mixture's dimensions, so separate clusters may overlap on it.
    Reference: Aharoni and Goldberg (2020), Figures 1 to 4, Tables 1 and 2.
    """
    manifest = run.manifest
    charts = {"map": _map(run)}
    sheets = {"clusters": _clusters(manifest), "tried": _tried(manifest)}
    if 1 < len(manifest["domains"]) <= _MAX_LISTED:
        charts["confusion"] = squares_chart(
            _confusion(manifest),
            "Clusters and domains",
            "Share of each domain's units in each cluster.",
            ("domain", "units of"),
            ("cluster", "in cluster"),
        )
        charts["proximity"] = squares_chart(
            _proximity(manifest),
            "Proximity of domains",
            "Cosine between the centroids of each two domains.",
            ("one", None),
            ("other", None),
            "cosine",
            ".2f",
        )
    if manifest["outliers"]:
        sheets |= {"outliers": _traits(manifest), "pairs": _pairs(manifest)}
    title = f"Domains: {run.title}"
    return Part("domains", name, title, _summary(manifest), charts, sheets, manifest)


def _summary(manifest: dict[str, Any]) -> list[str]:
    """The result in sentences."""
    how = "set by the user" if manifest["plan"]["mixture"]["k"] else "chosen by BIC"
    sentences = [f"{manifest['units']:,} units in {manifest['k']} clusters ({how})."]
    (best,) = (row for row in manifest["tried"] if row["k"] == manifest["k"])
    if best["purity"] is not None:
        spread = f" ± {best['deviation']:.3f}" if best["deviation"] is not None else ""
        others = ", ".join(
            f"{row['of']} {row['purity']:.3f}"
            for row in manifest["baselines"]
            if row["k"] == manifest["k"]
        )
        beside = f" ({others})" if others else ""
        sentences.append(
            f"Purity against {len(manifest['domains'])} known domains (higher is better): "
            f"{best['purity']:.3f}{spread}{beside}."
        )
    return [*sentences, *manifest["warnings"]]


def _clusters(manifest: dict[str, Any]) -> Sheet:
    rows = [
        [
            str(cluster["cluster"]),
            round(cluster["share"], 4),
            ", ".join(cluster["words"]),
            ", ".join(
                f"{domain} {n / max(1, cluster['units']):.0%}"
                for domain, n in list(cluster["domains"].items())[:3]
            ),
            (cluster["examples"] or [""])[0][:_MAX_CHARACTERS],
        ]
        for cluster in manifest["clusters"]
    ]
    columns = ["cluster", "share of units", "words", "domains", "example"]
    return Sheet("Clusters", columns, rows)


def _tried(manifest: dict[str, Any]) -> Sheet:
    columns = ["model", "k", "fits", "purity", "sd", "nats per unit", "BIC"]
    rows = [
        [
            row.get("of", "mixture"),
            row["k"],
            row["fits"],
            rounded(row["purity"], 4),
            rounded(row["deviation"], 4),
            rounded(row["likelihood"], 2),
            rounded(row["bic"], None),
        ]
        for row in [*manifest["tried"], *manifest["baselines"]]
    ]
    return Sheet(
        "Number of clusters: higher purity and likelihood, lower BIC are better", columns, rows
    )


def _map(run: Found) -> Spec:
    """The map: evenly spaced units of the sample, and the ellipses."""
    data = ClustersFolder(run.path).sample.read_bytes()
    columns = ["x", "y", "cluster", "domain", "text"]
    units = columns_of(pq.ParquetFile(io.BytesIO(data)), columns).to_pylist()
    rows = [
        {
            "x": round(unit["x"], 4),
            "y": round(unit["y"], 4),
            "cluster": unit["cluster"],
            "domain": harmless(unit["domain"]),
            "text": harmless(unit["text"][:MAX_MAP_CHARACTERS]),
        }
        for unit in units[:: -(-len(units) // _MAX_MAP_UNITS)]
    ]
    outlines = [
        {"x": x, "y": y, "cluster": number, "step": step}
        for number, points in enumerate(run.manifest["ellipses"][:_MAX_LISTED], 1)
        for step, (x, y) in enumerate(points)
    ]
    return clusters_chart(rows, outlines)


def _confusion(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "domain": harmless(domain),
            "cluster": cluster["cluster"],
            "share": round(cluster["domains"].get(domain, 0) / max(1, size), 4),
        }
        for domain, size in manifest["domains"].items()
        for cluster in manifest["clusters"][:_MAX_LISTED]
    ]


def _proximity(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    names = list(map(harmless, manifest["domains"]))
    return [
        {"one": one, "other": other, "cosine": cosine}
        for one, cosines in zip(names, manifest["proximity"], strict=True)
        for other, cosine in zip(names, cosines, strict=True)
    ]


def _traits(manifest: dict[str, Any]) -> Sheet:
    outliers = manifest["outliers"]
    lines = [("all", outliers["all"]), ("in another domain's cluster", outliers["outliers"])]
    lines += [(f"in the cluster of {row['domain']}", row) for row in outliers["attracted"]]
    columns = ["units", "count", "words", "numbers", "pronouns", "questions", "either"]
    keys = ("words", "numbers", "pronouns", "questions", "pronouns_or_questions")
    rows = [[name, row["texts"], *(round(row[key], 3) for key in keys)] for name, row in lines]
    caption = (
        "Mean number of words, and share of units with a number, an English personal pronoun, a "
        "question mark, either of the last two"
    )
    return Sheet(caption, columns, rows)


def _pairs(manifest: dict[str, Any]) -> Sheet:
    """Outliers by domain and by the domain of their cluster, with an example."""
    rows = [
        [
            pair["domain"],
            pair["taken_for"],
            pair["texts"],
            pair["examples"][0][:_MAX_CHARACTERS],
        ]
        for pair in manifest["outliers"]["pairs"][:_MAX_LISTED]
    ]
    columns = ["domain", "cluster of", "units", "example"]
    return Sheet("Outliers by domain", columns, rows)
