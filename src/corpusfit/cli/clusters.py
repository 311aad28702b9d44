"""`corpusfit clusters`: which domains a corpus holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.report import write_report
from corpusfit.cli.show import Bar, as_json, one_line, percent, table

EXAMPLE = """Find the domains of a corpus, without labels.

Units are drawn, encoded and clustered; each cluster is shown with its own words, its size and what
it is made of. Where the domains are known (the names of the sources, or a field), the clusters are
held against them.

Example:

\b
  corpusfit clusters --corpus pile/ --out domains/
  corpusfit clusters --corpus pile/ --unit sentence --per-source 2000 --k 5,10,15 --out domains/

With `select --balance cluster --clusters domains/` each cluster gives its quota."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("clusters", help=EXAMPLE)(clusters)


def clusters(
    corpus: Annotated[
        list[str],
        typer.Option("--corpus", help=f"The corpus: {o.INPUTS}.", show_default=False),
    ],
    out: o.Out,
    k: Annotated[
        str | None,
        typer.Option(
            "--k",
            help="How many clusters, or several numbers as 5,10,15, of which BIC keeps one; "
            "BIC chooses from 1 to 30 if not.",
        ),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(
            "--components", help="Principal components to cluster in; 50 if not, 0 for none."
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", help="How many units are drawn; 10,000 if not.")
    ] = None,
    per_source: Annotated[
        int | None, typer.Option("--per-source", help="Draw so many units from each source.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth",
            help="What a unit's domain is known as: source (the default), or a field's name.",
        ),
    ] = None,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines", help="Beside it: assigned at random, LDA, averaged word vectors."
        ),
    ] = None,
    assign: Annotated[
        bool,
        typer.Option(
            "--assign", help="Write the shares of each cluster in every segment of the corpus."
        ),
    ] = False,
    embedder: o.Embedder = None,
    unit: o.Unit = None,
    text_field: o.TextField = None,
    seed: o.Seed = None,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
    plan: o.PlanFile = None,
    settings: o.Settings = None,
    overwrite: o.Overwrite = False,
    no_report: o.NoReport = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    found = api.clusters(
        corpus=corpus,
        out=out,
        assign=assign,
        plan=plan,
        settings=settings or (),
        overwrite=overwrite,
        machine=pipeline.Machine(engine, workers, cache, Bar()),
        k=k,
        components=components,
        sample=sample,
        per_source=per_source,
        truth=truth,
        baselines=baselines,
        embedder=embedder,
        unit=unit,
        text_field=text_field,
        seed=seed,
    )
    if json:
        as_json({"path": str(found.path), **found.manifest})
    else:
        show_clusters(found.manifest)
    if not no_report:
        write_report(found.path, quiet=json)


def show_clusters(found: dict[str, Any]) -> None:
    """The figures of every k, then the clusters that were kept."""
    rows = [["mixture", *_figures(row)] for row in found["tried"]]
    rows += [[row["of"], *_figures(row)] for row in found["baselines"]]
    columns = ["", "k", "purity", "±", "nats a unit", "BIC"]
    table(f"{found['units']:,} units; k = {found['k']} was kept", columns, rows)
    shown = [
        [
            str(cluster["cluster"]),
            percent(cluster["share"], 1),
            ", ".join(one_line(word, 20) for word in cluster["words"]),
            ", ".join(
                f"{one_line(name, 30)} {percent(n, cluster['units'])}"
                for name, n in list(cluster["domains"].items())[:3]
            ),
        ]
        for cluster in found["clusters"]
    ]
    table("Clusters", ["", "share", "words", "made of"], shown, words=["words", "made of"])
    names = list(found["domains"])
    if 1 < len(names) <= _BESIDE:
        rows = [
            [one_line(name, 30), *(f"{cosine:.2f}" for cosine in cosines)]
            for name, cosines in zip(names, found["proximity"], strict=True)
        ]
        table("Cosine between centroids", ["", *(one_line(n, 12) for n in names)], rows)


_BESIDE = 8
"""Domains whose proximity fits on a terminal."""


def _figures(row: dict[str, Any]) -> list[str]:
    """A line of the table; what is not known is a dash."""
    pure = [f"{row[name]:.3f}" if row[name] is not None else "–" for name in _PURE]
    if row["bic"] is None:
        return [str(row["k"]), *pure, "–", "–"]
    return [str(row["k"]), *pure, f"{row['likelihood']:.2f}", f"{row['bic']:,.0f}"]


_PURE = ("purity", "deviation")
