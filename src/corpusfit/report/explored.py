"""Section of the page on the domains of a corpus: clusters, map, purity, outliers, proximity."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq

from corpusfit.explore.folder import ClustersFolder
from corpusfit.report.charts import clusters_chart, confusion_chart, proximity_chart
from corpusfit.report.escaping import harmless
from corpusfit.report.examples import ON_MAP
from corpusfit.report.page import figure, plain_table, repeated
from corpusfit.report.part import Part, Sheet, Spec
from corpusfit.report.reading import Found

_POINTS = 2_000
"""Most units on the map."""

_MOST = 20
"""Most domains and clusters in a heat map, and most pairs in a table."""

_LONG = 300
"""Most characters of an example."""


def explored_part(name: str, run: Found) -> Part:
    """The section on the domains found in one corpus.

    The map shows two of the mixture's dimensions, so separate clusters may overlap on it.
    Reference: Aharoni and Goldberg (2020), Figures 1 to 4, Tables 1 and 2.
    """
    manifest = run.manifest
    charts: dict[str, Spec] = {f"{name}-map": _map(run)}
    tables = [_clusters(name, manifest), _tried(name, manifest)]
    shown = [
        plain_table(tables[0]),
        figure(f"{name}-map", "Each point is a unit; point at it to read its text."),
        plain_table(tables[1]),
    ]
    if 1 < len(manifest["domains"]) <= _MOST:
        charts[f"{name}-confusion"] = confusion_chart(_confusion(manifest))
        charts[f"{name}-proximity"] = proximity_chart(_proximity(manifest))
        shown += [
            figure(
                f"{name}-confusion",
                f"Share of each domain's units in each cluster; at most the {_MOST} largest "
                "clusters.",
            ),
            figure(
                f"{name}-proximity",
                "Cosine between the centroids of the domains (1: same direction).",
            ),
        ]
    if manifest["outliers"]:
        tables += [_traits(name, manifest), _pairs(name, manifest)]
        shown += ["<h3>Units in a cluster of another domain</h3>", *map(plain_table, tables[2:])]
    shown.append(repeated(name, manifest.get("repeat", []), manifest["plan"]))
    return Part(name, f"Domains: {run.title}", _summary(manifest), "".join(shown), charts, tables)


def _summary(manifest: dict[str, Any]) -> list[str]:
    """The result in sentences."""
    how = "set by --k" if manifest["plan"]["mixture"]["k"] else "chosen by BIC"
    sentences = [f"{manifest['units']:,} units in {manifest['k']} clusters ({how})."]
    best = next(row for row in manifest["tried"] if row["k"] == manifest["k"])
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


def _clusters(name: str, manifest: dict[str, Any]) -> Sheet:
    rows = [
        [
            str(cluster["cluster"]),
            round(cluster["share"], 4),
            ", ".join(cluster["words"]),
            ", ".join(
                f"{domain} {n / max(1, cluster['units']):.0%}"
                for domain, n in list(cluster["domains"].items())[:3]
            ),
            (cluster["examples"] or [""])[0][:_LONG],
        ]
        for cluster in manifest["clusters"]
    ]
    columns = ["cluster", "share of units", "words", "domains", "example"]
    return Sheet(f"{name}-clusters", "Clusters", columns, rows)


def _tried(name: str, manifest: dict[str, Any]) -> Sheet:
    columns = ["model", "k", "fits", "purity", "sd", "nats per unit", "BIC"]
    rows = [
        [
            row.get("of", "mixture"),
            row["k"],
            row["fits"],
            *(None if row[f] is None else round(row[f], 4) for f in ("purity", "deviation")),
            None if row["likelihood"] is None else round(row["likelihood"], 2),
            None if row["bic"] is None else round(row["bic"]),
        ]
        for row in [*manifest["tried"], *manifest["baselines"]]
    ]
    return Sheet(
        f"{name}-tried",
        "Number of clusters: higher purity and likelihood, lower BIC are better",
        columns,
        rows,
    )


def _map(run: Found) -> Spec:
    """The map: evenly spaced units of the sample, and the ellipses."""
    data = ClustersFolder(run.path).sample.read_bytes()
    columns = ["x", "y", "cluster", "domain", "text"]
    units = pq.read_table(io.BytesIO(data), columns=columns).to_pylist()
    rows = [
        {
            "x": round(unit["x"], 4),
            "y": round(unit["y"], 4),
            "cluster": unit["cluster"],
            "domain": harmless(unit["domain"]),
            "text": harmless(unit["text"][:ON_MAP]),
        }
        for unit in units[:: -(-len(units) // _POINTS)]
    ]
    outlines = [
        {"x": x, "y": y, "cluster": number, "step": step}
        for number, points in enumerate(run.manifest["ellipses"][:_MOST], 1)
        for step, (x, y) in enumerate(points)
    ]
    return clusters_chart(rows, outlines, "Domains")


def _confusion(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "domain": harmless(domain),
            "cluster": cluster["cluster"],
            "share": round(cluster["domains"].get(domain, 0) / max(1, size), 4),
        }
        for domain, size in manifest["domains"].items()
        for cluster in manifest["clusters"][:_MOST]
    ]


def _proximity(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    names = list(map(harmless, manifest["domains"]))
    return [
        {"one": one, "other": other, "cosine": cosine}
        for one, cosines in zip(names, manifest["proximity"], strict=True)
        for other, cosine in zip(names, cosines, strict=True)
    ]


def _traits(name: str, manifest: dict[str, Any]) -> Sheet:
    """Traits of the outliers and of all units."""
    outliers = manifest["outliers"]
    lines = [("all", outliers["all"]), ("in another domain's cluster", outliers["outliers"])]
    lines += [(f"in the cluster of {row['domain']}", row) for row in outliers["attracted"]]
    columns = ["units", "count", "words", "numbers", "pronouns", "questions", "either"]
    keys = ("words", "numbers", "pronouns", "questions", "pronouns_or_questions")
    rows = [[of, row["texts"], *(round(row[key], 3) for key in keys)] for of, row in lines]
    caption = (
        "Mean number of words, and share of units with a number, an English personal pronoun, a "
        "question mark, either of the last two"
    )
    return Sheet(f"{name}-outliers", caption, columns, rows)


def _pairs(name: str, manifest: dict[str, Any]) -> Sheet:
    """Outliers by domain and by the domain of their cluster, with an example."""
    rows = [
        [pair["domain"], pair["taken_for"], pair["texts"], pair["examples"][0][:_LONG]]
        for pair in manifest["outliers"]["pairs"][:_MOST]
    ]
    columns = ["domain", "cluster of", "units", "example"]
    return Sheet(f"{name}-pairs", "Outliers by domain", columns, rows)
