"""Section of the page that compares selections: counts, composition, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.escaping import harmless
from corpusfit.reporting.charts import shares_chart, squares_chart
from corpusfit.reporting.part import Part, Sheet
from corpusfit.reporting.reading import Found
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder

_MAX_SOURCES = 12
"""Most sources shown one by one."""

_COLUMNS = (
    "selection",
    "method",
    "segments",
    "share of words",
    "word pieces",
    "lowest score",
    "seconds",
)


def _figures(run: Found) -> list[Any]:
    selected = run.manifest["selected"]
    return [
        run.title,
        run.manifest["method"]["name"],
        selected["segments"],
        round(selected["tokens"] / max(1, selected["of_tokens"]), 4),
        selected["tokens"],
        selected["threshold"],
        round(sum(run.manifest["seconds"].values()), 1),
    ]


def _by_source(run: Found, what: str) -> dict[str, float]:
    """The share of each source among the word pieces selected (`tokens`), or all (`of_tokens`)."""
    counts = run.manifest["selected"]["by_source"].items()
    whole = max(1, sum(n.get(what, 0) for _, n in counts))
    return {source: n.get(what, 0) / whole for source, n in counts}


def _segments(run: Found) -> dict[str, Any]:
    """What decides the segments: the corpus, and how it is read and cut into units."""
    plan, corpus = run.manifest["plan"], run.manifest["corpus"]
    read = {k: v for k, v in plan["read"].items() if k not in ("strict", "id_field")}
    marks = [(s["name"], s["fingerprint"]) for s in corpus]
    return {"read": read, "cut": plan["cut"], "corpus": marks}


def overlaps(folders: Sequence[Path]) -> NDArray[np.int64]:
    """Segments that each two selections of the same corpus share, [k, k].

    The diagonal holds the size of each selection. Memory holds one part of each at a time.
    """
    shared = np.zeros((len(folders), len(folders)), np.int64)
    columns = [table.parts(SelectionFolder(folder).scores) for folder in folders]
    for part in zip(*columns, strict=True):
        selected = np.array([table.read_columns(path, "selected")[0] for _, path in part], np.int64)
        shared += selected @ selected.T
    return shared


def beside_part(name: str, runs: Sequence[Found], *, max_runs: int) -> Part:
    """A comparison of the first `max_runs` of two or more selections.

    Overlap is counted between selections of the same corpus cut into the same segments.
    """
    sentences = []
    if len(runs) > max_runs:
        sentences.append(f"This page shows the first {max_runs} of {len(runs)} selections.")
        runs = runs[:max_runs]
    charts = {"shares": shares_chart(_shares(runs))}
    sheets = {"runs": Sheet("Selections", _COLUMNS, [_figures(run) for run in runs])}
    groups = [[run for run in runs if _segments(run) == _segments(one)] for one in runs]
    alike = max(groups, key=len)
    if len(alike) > 1:
        common = overlaps([run.path for run in alike])
        shares = common / np.maximum(1, np.diag(common))[:, None]
        pairs = [
            {"one": a.title, "other": b.title, "share": round(float(shares[i, j]), 4)}
            for i, a in enumerate(alike)
            for j, b in enumerate(alike)
        ]
        caption = "Share of the row's segments that the column's selection also contains."
        charts["overlap"] = squares_chart(
            pairs, "Overlap of selections", caption, ("one", "segments of"), ("other", "also in")
        )
        sheets["overlap"] = Sheet(
            caption,
            ["selection", "other", "share of its segments in the other"],
            [list(pair.values()) for pair in pairs],
        )
    if len(alike) < len(runs):
        sentences.append(
            f"Overlap is counted for {len(alike)} of {len(runs)} selections: the others have "
            f"another corpus, or other settings for reading and units, than {alike[0].title}."
        )
    return Part("beside", name, "Comparison of selections", sentences, charts, sheets)


def _shares(runs: Sequence[Found]) -> list[dict[str, Any]]:
    """The share of each source in each selection, and in the first one's corpus."""
    columns = [("corpus", _by_source(runs[0], "of_tokens"))]
    columns += [(run.title, _by_source(run, "tokens")) for run in runs]
    weight: dict[str, float] = {}
    for _, shares in columns:
        for source, share in shares.items():
            weight[source] = weight.get(source, 0.0) + share
    largest = set(sorted(weight, key=lambda source: (-weight[source], source))[:_MAX_SOURCES])
    rows = []
    for title, shares in columns:
        shown = {source: share for source, share in shares.items() if source in largest}
        if len(shares) > len(shown):
            shown["other sources"] = sum(shares.values()) - sum(shown.values())
        rows += [
            {"run": title, "source": harmless(s), "share": round(n, 5)} for s, n in shown.items()
        ]
    return rows
