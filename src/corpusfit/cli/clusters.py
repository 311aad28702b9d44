"""`corpusfit clusters`: the domains of a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import EVERYWHERE, command
from corpusfit.cli.show import one_line, percent, say_result, table

if TYPE_CHECKING:
    from corpusfit.domains.clustering import Clustered


@command(machine=EVERYWHERE)
def clusters(result: Clustered) -> None:
    """Find the domains of a corpus, without labels.

    Samples units of text, encodes them and clusters their embeddings. Prints each cluster's size
    and typical words, and the purity of the clusters by --truth. Writes the clusters to --out, with
    these tables and the places of the units on a map (points.csv).

    Example:
      corpusfit clusters --corpus corpus/ --out domains/
      corpusfit clusters --corpus corpus/ --unit sentence --k 5,10,15 --out domains/

    To balance a selection across the clusters:
    `corpusfit select --balance cluster --clusters domains/`.

    Options:
        --corpus INPUT: Texts of the corpus: {INPUTS}
        --assign: Also write, for every segment of the corpus, the share of each cluster
    """
    show_clusters(result.manifest)


def show_clusters(manifest: dict[str, Any]) -> None:
    """Print the figures for each k, then the clusters of the best k."""
    rows = [_figures(row) for row in manifest["tried"]]
    columns = ["k", "purity", "± sd", "log-likelihood (nats per unit)", "BIC"]
    title = f"Clusterings of {manifest['units']:,} units; lowest BIC at k = {manifest['k']}"
    table(title, columns, rows)
    bic = {row["k"]: row["bic"] for row in manifest["tried"]}
    if len(bic) > 2:  # of two the better one has the range to itself
        say_result(near_in_words(bic))
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
        for cluster in manifest["clusters"]
    ]
    columns = ["cluster", "share of units", "words", "domains (share of cluster)"]
    table(f"Clusters (k = {manifest['k']})", columns, shown, words=columns[2:])


_NEAR = 0.01
"""Share of the range of BIC within which a number of clusters is nearly as good as the best."""


def near_in_words(bic: dict[int, float]) -> str:
    """Which numbers of clusters are nearly as good as the one with the lowest BIC, a sentence."""
    best = min(bic, key=lambda k: bic[k])
    allowed = _NEAR * (max(bic.values()) - min(bic.values()))
    near = [str(k) for k in sorted(bic) if k != best and bic[k] <= bic[best] + allowed]
    near_ks = f"k = {', '.join(near)}" if near else "no other k"
    return f"By BIC nearly as good as k = {best} (within {_NEAR:.0%} of its range): {near_ks}."


def _figures(row: dict[str, Any]) -> list[str]:
    """A row of the table, with a dash for an unknown figure."""
    purity = (row["purity"], row["deviation"])
    pure = ["–" if figure is None else f"{figure:.3f}" for figure in purity]
    return [str(row["k"]), *pure, f"{row['likelihood']:.2f}", f"{row['bic']:,.0f}"]
