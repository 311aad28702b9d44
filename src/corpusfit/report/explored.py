"""The part of the page that shows which domains a corpus holds.

What: the clusters with their words, a map of the units with an ellipse a cluster, how they agree
with what is known, the units that lie with another domain, and how near domains are.
Why: a corpus is looked at before it is chosen from.
Trade-off: the map has two of the mixture's dimensions, so clusters that lie apart may overlap on
it.
Reference: Aharoni and Goldberg (2020), Figures 1 to 4, Tables 1 and 2.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq

from corpusfit.manifest import ClustersFolder
from corpusfit.report.charts import clusters_chart, confusion_chart, proximity_chart
from corpusfit.report.escaping import harmless
from corpusfit.report.examples import ON_MAP
from corpusfit.report.page import figure, plain_table, repeated
from corpusfit.report.part import Part, Sheet, Spec
from corpusfit.report.reading import Found

_POINTS = 2_000
"""Units on the map."""

_MOST = 20
"""Domains and clusters that are told apart in squares, and pairs that are shown."""

_LONG = 300
"""Characters of an example."""


def explored_part(name: str, run: Found) -> Part:
    """The domains that were found in one corpus."""
    said = run.manifest
    charts: dict[str, Spec] = {f"{name}-map": _map(run)}
    tables = [_clusters(name, said), _tried(name, said)]
    shown = [
        plain_table(tables[0]),
        figure(f"{name}-map", "Each point is a unit; its text is shown on hover."),
        plain_table(tables[1]),
    ]
    if 1 < len(said["domains"]) <= _MOST:
        charts[f"{name}-confusion"] = confusion_chart(_confusion(said))
        charts[f"{name}-proximity"] = proximity_chart(_proximity(said))
        shown += [
            figure(
                f"{name}-confusion",
                f"Where the units of each domain lie; of many clusters the {_MOST} largest.",
            ),
            figure(f"{name}-proximity", "Cosine between the domains' centroids."),
        ]
    if said["outliers"]:
        tables += [_traits(name, said), _pairs(name, said)]
        shown += ["<h3>Units that lie with another domain</h3>", *map(plain_table, tables[2:])]
    shown.append(repeated(name, said.get("repeat", []), said["plan"]))
    return Part(name, f"Domains: {run.title}", _summary(said), "".join(shown), charts, tables)


def _summary(said: dict[str, Any]) -> list[str]:
    """What was found, in sentences."""
    how = "asked for" if said["plan"]["mixture"]["k"] else "chosen by BIC"
    sentences = [f"{said['units']:,} units lie in {said['k']} clusters ({how})."]
    best = next(row for row in said["tried"] if row["k"] == said["k"])
    if best["purity"] is not None:
        spread = f" ± {best['deviation']:.3f}" if best["deviation"] is not None else ""
        others = ", ".join(
            f"{row['of']} {row['purity']:.3f}" for row in said["baselines"] if row["k"] == said["k"]
        )
        beside = f" ({others})" if others else ""
        sentences.append(
            f"Purity against {len(said['domains'])} known domains: {best['purity']:.3f}{spread}"
            f"{beside}."
        )
    return [*sentences, *said["warnings"]]


def _clusters(name: str, said: dict[str, Any]) -> Sheet:
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
        for cluster in said["clusters"]
    ]
    columns = ["cluster", "share", "words", "made of", "for instance"]
    return Sheet(f"{name}-clusters", "Clusters", columns, rows)


def _tried(name: str, said: dict[str, Any]) -> Sheet:
    columns = ["", "k", "fits", "purity", "deviation", "nats a unit", "BIC"]
    rows = [
        [
            row.get("of", "mixture"),
            row["k"],
            row["fits"],
            *(None if row[f] is None else round(row[f], 4) for f in ("purity", "deviation")),
            None if row["likelihood"] is None else round(row["likelihood"], 2),
            None if row["bic"] is None else round(row["bic"]),
        ]
        for row in [*said["tried"], *said["baselines"]]
    ]
    return Sheet(f"{name}-tried", "How many clusters", columns, rows)


def _map(run: Found) -> Spec:
    """Every so-manyeth unit, and the ellipses."""
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


def _confusion(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "domain": harmless(domain),
            "cluster": cluster["cluster"],
            "share": round(cluster["domains"].get(domain, 0) / max(1, size), 4),
        }
        for domain, size in said["domains"].items()
        for cluster in said["clusters"][:_MOST]
    ]


def _proximity(said: dict[str, Any]) -> list[dict[str, Any]]:
    names = list(map(harmless, said["domains"]))
    return [
        {"one": one, "other": other, "cosine": cosine}
        for one, cosines in zip(names, said["proximity"], strict=True)
        for other, cosine in zip(names, cosines, strict=True)
    ]


def _traits(name: str, said: dict[str, Any]) -> Sheet:
    """What those units have in common, beside all."""
    outliers = said["outliers"]
    lines = [("all units", outliers["all"]), ("with another domain", outliers["outliers"])]
    lines += [(f"with {row['domain']}", row) for row in outliers["attracted"]]
    columns = ["units", "number", "words", "numbers", "pronouns", "questions", "either"]
    keys = ("words", "numbers", "pronouns", "questions", "pronouns_or_questions")
    rows = [[of, row["texts"], *(round(row[key], 3) for key in keys)] for of, row in lines]
    caption = (
        "The mean number of words, and the share with a number, an English personal pronoun, a "
        "question mark, either of the last two."
    )
    return Sheet(f"{name}-outliers", caption, columns, rows)


def _pairs(name: str, said: dict[str, Any]) -> Sheet:
    """From which domain to which, with an example (Table 2)."""
    rows = [
        [pair["domain"], pair["taken_for"], pair["texts"], pair["examples"][0][:_LONG]]
        for pair in said["outliers"]["pairs"][:_MOST]
    ]
    columns = ["domain", "lies with", "units", "for instance"]
    return Sheet(f"{name}-pairs", "From one domain to another", columns, rows)
