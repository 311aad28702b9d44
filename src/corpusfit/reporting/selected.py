"""Section of the page on a selection: what it is, its texts, its scores and its counts."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq

from corpusfit.core.plan import Plan
from corpusfit.reporting.charts import scores_chart, shares_chart
from corpusfit.reporting.part import Example, Part, Sheet
from corpusfit.scoring import registry
from corpusfit.scoring.table import columns_of
from corpusfit.selection.copies import copies_in_words
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.result import Selection
from corpusfit.selection.spread import read_spread

_SHOWN = 3
"""Examples shown of the highest scores, of the lowest selected ones, and of those below."""

_SOURCES = 12
"""Most sources of a chart; the table below it has 30, and its file all."""

_MOST_VALUES = 1_000
"""Most values of a column that are counted; one with more, such as an id, says nothing."""
_MOST_TEXTS = 1_000_000
"""Texts of a selection, more than which are not read again to count columns."""
_OF_SHARES = f"Gray: the corpus; blue: the selection. At most its {_SOURCES} largest sources."
_OF_SCORES = (
    "in full color at or above the threshold, which is dashed. The outermost bars also count all "
    "scores beyond them."
)

Rows = list[dict[str, Any]]


def selected_part(path: Path, manifest: dict[str, Any]) -> Part:
    """The section on the selection in a folder."""
    folder = SelectionFolder(path)
    spread = read_spread(folder.spread)
    examples = _examples(folder.examples)
    choose = manifest["plan"]["choose"]
    by_score = choose["policy"] == "top" and not choose.get("balance")
    # a drawn or balanced selection has no single threshold to show
    threshold = manifest["selected"]["threshold"] if by_score else None
    sheets = _counts(manifest) | _by_column(path, manifest)
    charts = {"shares": (shares_chart(_shares(manifest["selected"])), _OF_SHARES)}
    if spread is not None and spread.heights.any():
        higher = registry.higher(manifest["method"]["name"])
        caption = f"{spread.heights.sum():,} segments by score (higher: {higher}), "
        bars = spread.bins.astype(float).tolist(), spread.heights.tolist()
        charts["scores"] = (scores_chart(*bars, threshold), caption + _OF_SCORES)
    return Part(
        "selection",
        f"Selection: {path.name or path.resolve().name}",
        _summary(manifest),
        manifest,
        charts,
        {name: sheet for name, sheet in sheets.items() if sheet.rows},
        _texts(examples, threshold),
        _steps(path, manifest),
    )


def _by_column(path: Path, manifest: dict[str, Any]) -> dict[str, Sheet]:
    """What was selected, by the values of each column that it keeps; a URL counts by its host."""
    names = Plan.from_dict({"choose": manifest["plan"]["choose"]}).choose.kept_fields()
    if names and manifest["selected"]["rows"] > _MOST_TEXTS:
        names = ()
    texts = {name: Counter[str]() for name in names}
    sizes = {name: Counter[str]() for name in names}
    for text in Selection(path, manifest) if names else ():
        for name in names:
            value = str(text.get(name))
            value = urlsplit(value).hostname or value if "://" in value else value
            texts[name][value] += 1
            sizes[name][value] += len(text["text"])
    return {
        f"column {name}": Sheet(
            f"By {name}",
            [name, "texts", "characters", "share of characters"],
            [
                (value, texts[name][value], size, round(size / max(1, of_all.total()), 4))
                for value, size in sorted(of_all.items(), key=lambda item: (-item[1], item[0]))
            ],
        )
        for name, of_all in sizes.items()
        if len(of_all) <= _MOST_VALUES
    }


def _examples(path: Path) -> Rows:
    """The stored examples by falling score."""
    if not path.exists():
        return []
    names = ("kind", "source", "row", "segment", "score", "selected", "text", "characters")
    rows: Rows = columns_of(pq.ParquetFile(io.BytesIO(path.read_bytes())), names).to_pylist()
    rows.sort(key=lambda row: (-row["score"], row["source"], row["row"], row["segment"]))
    return rows


def _shares(selected: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """The shares of the sources, the largest of the selection, in the corpus and in it."""
    by_source = selected["by_source"]
    of_corpus, selected_tokens = (
        max(1, sum(n.get(which, 0) for n in by_source.values()))
        for which in ("of_tokens", "tokens")
    )
    largest = sorted(by_source, key=lambda name: (-by_source[name]["tokens"], name))[:_SOURCES]
    return {
        name: (
            by_source[name].get("of_tokens", 0) / of_corpus,
            by_source[name]["tokens"] / selected_tokens,
        )
        for name in largest
    }


def _texts(corpus: Rows, threshold: float | None) -> dict[tuple[str, str], list[Example]]:
    """Examples of the selection, and of what is just not in it."""
    chosen = [row for row in corpus if row["selected"]]
    others = [row for row in corpus if not row["selected"]]
    shown = {
        ("Its highest scores", "The very best are often unusual texts."): chosen[:_SHOWN],
        (
            "A sample of the selection",
            "What a model is trained on: texts that are drawn from it, long ones more often.",
        ): [row for row in corpus if row["kind"] == "drawn"],
        ("Its lowest scores", ""): chosen[_SHOWN:][-_SHOWN:],
        ("Not selected, with the next lower scores", ""): others[:_SHOWN],
    }
    if threshold is None:
        del shown["Not selected, with the next lower scores", ""]
    return {
        heading: [
            Example(f"{row['source']}:{row['row']}:{row['segment']}", row["score"], row["text"])
            for row in rows
        ]
        for heading, rows in shown.items()
        if rows
    }


def _steps(path: Path, manifest: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """What to do with a selection next."""
    other = "0.05" if manifest["plan"]["choose"]["fraction"] == 0.1 else "0.1"
    adapt = ["corpusfit", "adapt", "--model", "MODEL", "--data", path.as_posix()]
    name = manifest["method"]["name"]
    rank = ["corpusfit", "rank", "--target", "TASK", "--corpus", "CORPUS", "--method", name]
    external = registry.load(name).family == "external"
    first = "These scores know nothing of your task. See first whether they beat random text on it:"
    return [
        *([(first, [*rank, "--method", "moore_lewis"])] if external else []),
        (
            "Train a model on it, without the texts that you test on. The result says how far the "
            "loss on the target's text falls:",
            [*adapt, "--guard", "TASK", "--out", "adapted"],
        ),
        (
            "Select another amount from the same scores:",
            ["corpusfit", "choose", path.as_posix(), "--fraction", other, "--out", "chosen"],
        ),
    ]


def _summary(manifest: dict[str, Any]) -> list[str]:
    """The result of a selection, in sentences; that the corpus has little of the domain first."""
    counts = manifest["counts"]
    selected = manifest["selected"]
    whole = selected["of_tokens"]
    percent = 100 * selected["tokens"] / max(1, whole)
    without = " without copies" if copies_in_words(selected.get("copies")) else ""
    share = f", {percent:.1f} % of the words{without}"
    sentences = [
        f"{manifest['method']['name']} selected {selected['segments']:,} of "
        f"{counts['segments']:,} segments: about {selected['tokens']:,} word pieces{share}."
    ]
    foreign = (manifest.get("likeness") or {}).get("foreign")
    warnings = manifest["warnings"]
    sentences = [*warnings, *sentences] if foreign else [*sentences, *warnings]
    rows = selected["rows"]
    if rows < selected["segments"]:
        copies = sum((selected["copies"] or {}).get(kind, 0) for kind in ("exact", "near"))
        documents = max(1, counts["documents"] - copies)
        sentences.append(
            f"Neighbors are joined to {rows:,} texts of {selected['tokens'] / rows:,.0f} word "
            f"pieces on average; documents of the corpus have {whole / documents:,.0f}."
        )
    sentences += _sources_in_words(selected)
    copies = copies_in_words(selected.get("copies"))
    left_out = f", {counts['left_out']:,} left out by `read.where`" if "left_out" in counts else ""
    sentences.append(
        f"Rows read: {counts['rows']:,}, of which {counts['documents']:,} documents scored and "
        f"{counts['rejected']:,} rows rejected{left_out}." + (f" {copies}." if copies else "")
    )
    return [*sentences, *filter(None, [manifest["remark"]])]


def _sources_in_words(selected: dict[str, Any]) -> list[str]:
    """Where most of the words are from, a sentence; nothing of a corpus of one source."""
    by_source = selected["by_source"]
    largest = sorted(by_source, key=lambda name: (-by_source[name]["tokens"], name))[:3]
    of_corpus = max(1, sum(n["of_tokens"] for n in by_source.values()))
    phrases = []
    for name in largest:
        n = by_source[name]
        if n["selected"]:
            whole = f", which is {100 * n['of_tokens'] / of_corpus:.0f} % of the corpus"
            percent = 100 * n["tokens"] / max(1, selected["tokens"])
            phrases.append(f"{percent:.0f} % of it comes from {name}{whole}")
    return [f"{'; '.join(phrases)}."] if phrases and len(by_source) > 1 else []


_COPIES = {
    "exact": "exact copies of other rows",
    "near": "near copies of other rows",
    "repeats": "segments whose words other segments repeat",
    "segments": "segments in all",
}
"""What the counts of what is left out are of."""


def _counts(manifest: dict[str, Any]) -> dict[str, Sheet]:
    """What was read, rejected and selected."""
    counts = manifest["counts"]
    selected = manifest["selected"]
    by_source = sorted(selected["by_source"].items(), key=lambda kv: (-kv[1]["tokens"], kv[0]))
    of_corpus = sum(n["of_tokens"] for _, n in by_source)
    selected_tokens = max(1, selected["tokens"])
    quotas = selected.get("quota") or []
    clusters = zip(selected.get("by_cluster", []), quotas, strict=True)
    groups = selected.get("groups") or [str(i) for i in range(1, len(quotas) + 1)]
    read = ("rows", "documents", "rejected", "left_out", "units", "segments")
    items = [(k.replace("_", " "), counts[k]) for k in read if k in counts]
    copies = [(_COPIES[kind], n) for kind, n in (selected.get("copies") or {}).items() if n]
    return {
        "read": Sheet("Input", ["item", "count"], items),
        "copies": Sheet("Copies and repeats left out", ["kind", "number"], copies),
        "rejects": Sheet("Rejected rows", ["reason", "rows"], list(counts["reasons"].items())),
        "sources": Sheet(
            "By source",
            [
                *("source", "segments", "words of corpus"),
                *("selected", "word pieces", "words of selection"),
            ],
            [
                (
                    source,
                    n["segments"],
                    round(n["of_tokens"] / max(1, of_corpus), 4) if of_corpus else None,
                    n["selected"],
                    n["tokens"],
                    round(n["tokens"] / selected_tokens, 4),
                )
                for source, n in by_source
            ],
        ),
        "clusters": Sheet(
            "By group" if "groups" in selected else "By cluster",
            [
                "group" if "groups" in selected else "cluster",
                "segments",
                "quota",
                "selected",
                "word pieces",
            ],
            [
                (groups[i], n["segments"], round(quota, 4), n["selected"], n["tokens"])
                for i, (n, quota) in enumerate(clusters)
            ],
        ),
    }
