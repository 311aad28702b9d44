"""`corpusfit clusters`, `split` and `contamination`: domains, splits and copies of test texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import EVERYWHERE, command
from corpusfit.cli.show import one_line, percent, say, say_result, table

if TYPE_CHECKING:
    from corpusfit.domains.clustering import Clustered
    from corpusfit.evaluation.contamination import Contamination
    from corpusfit.evaluation.splitting import Split


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


@command(machine=("workers",))
def split(result: Split) -> None:
    """Split a corpus into train, dev and test without overlap.

    Example:
      corpusfit split --data pair:koran.de,koran.en --dev 2000 --test 2000 --near --out split/

    Keeps all copies of a text in one split. Case, white space, ordinary punctuation and the Unicode
    form make no difference. Of rows with several texts, aligned pairs or those of several fields,
    keeps no text twice. Writes train, dev and test to --out in the input's format.

    Options:
        --data INPUT: Texts to split: {INPUTS}
        --out FOLDER: Folder for train, dev and test
    """
    out = result.path
    counts = result.manifest["counts"]
    splits = result.manifest["splits"]
    parts = ", ".join(f"{split['rows']:,} {name}" for name, split in splits.items())
    say(
        f"{counts['rows']:,} rows read: {parts}, {counts['rejected']:,} rejected, "
        f"{counts['dropped']:,} dropped."
    )
    for why, n in counts["reasons"].items():
        say(f"  {n:,} rows: {why} (see {out / 'rejects.jsonl'})")
    say("No text is in two splits; copies within one may stay there.")
    files = [str(out / name) for split in splits.values() for name in split["files"]]
    say(f"Written: {', '.join(files)}.")


_SOURCES = 4
_MAX_CHARACTERS = 300


@command()
def contamination(result: Contamination) -> None:
    """Find a task's dev and test texts in training text.

    Example:
      corpusfit contamination --task imdb/ --data out/

    Counts exact copies and near-duplicates, even inside longer texts, and prints examples. Writes
    nothing. To leave such texts out of training, use `corpusfit adapt --guard`.

    Options:
        --task INPUT: Held-out texts: a task's folder or hub:NAME (its dev and test splits), or
            files; labels are not read; repeatable
        --data INPUT: Training texts: folder of a selection, or {INPUTS}
        --task-field NAME: Text field of the task's files (default: --text-field)
    """
    rows = []
    for name, split in result.splits.items():
        sources = [f"{source} ({n:,})" for source, n in split.sources.items()]
        more = [f"{len(sources) - _SOURCES} more"] if len(sources) > _SOURCES else []
        rows.append(
            [
                name,
                f"{split.texts:,}",
                f"{split.found:,}",
                percent(split.found, split.texts),
                f"{split.holders:,}",
                ", ".join([*sources[:_SOURCES], *more]) or "–",
            ]
        )
    columns = ["split", "texts", "found", "share found", "training texts", "sources"]
    table("Held-out texts found in the training texts", columns, rows, words=["sources"])
    from corpusfit.decontamination.finder import found_as_copy_only

    for example in result.examples:
        found = f"{percent(example.containment, 1)} of its 5-grams"
        if found_as_copy_only(example.text):
            found = "the same text"
        say_result(
            f"{example.split} text, {found} in {example.source}, row {example.row}:\n"
            f"  task: {one_line(example.text, _MAX_CHARACTERS)}\n"
            f"  data: {one_line(example.excerpt, _MAX_CHARACTERS)}\n"
        )
    say(
        f"{result.holders:,} of {result.texts:,} texts contain a held-out text."
        + (" To train without them: corpusfit adapt --guard …" if result.holders else "")
    )
