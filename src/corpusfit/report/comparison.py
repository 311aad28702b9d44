"""The part of the page that sets several selections side by side.

What: their figures in one table, what each is made of, and how much of each the others took too.
Why: methods that agree on what to take need not be compared further; where they do not, the
examples of each tell why.
Trade-off: overlap is counted only between selections that cut the same corpus into the same
segments; others have none to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.manifest import RunFolder
from corpusfit.report.charts import overlap_chart, shares_chart
from corpusfit.report.escaping import harmless
from corpusfit.report.page import figure, paragraphs, plain_table
from corpusfit.report.part import Part, Sheet
from corpusfit.report.reading import Found
from corpusfit.score import table

_MOST = 12
"""Sources that are told apart."""


def _figures(run: Found) -> list[Any]:
    """A selection's row in the table."""
    taken, corpus = run.manifest["selected"], run.manifest["counts"]["segments"]
    return [
        run.title,
        run.manifest["method"]["name"],
        taken["segments"],
        round(taken["segments"] / max(1, corpus), 4),
        taken["tokens"],
        taken["threshold"],
        round(sum(run.manifest["seconds"].values()), 1),
    ]


def _by_source(run: Found, what: str) -> dict[str, float]:
    """The share of each source: of `segments`, or of what was `selected`."""
    counts = run.manifest["selected"]["by_source"].items()
    whole = max(1, sum(n[what] for _, n in counts))
    return {source: n[what] / whole for source, n in counts}


def _segments(run: Found) -> dict[str, Any]:
    """What decides which segments there are: the corpus, and how it is read and cut."""
    plan, corpus = run.manifest["plan"], run.manifest["corpus"]
    read = {k: v for k, v in plan["read"].items() if k not in ("strict", "id_field")}
    marks = [(s["name"], s["fingerprint"]) for s in corpus]
    return {"read": read, "cut": plan["cut"], "corpus": marks}


def overlaps(folders: Sequence[Path]) -> NDArray[np.int64]:
    """How many segments each two selections of the same segments share, [k, k].

    On the diagonal stands how many each took. One part of each is held at a time.
    """
    found = np.zeros((len(folders), len(folders)), np.int64)
    columns = [table.parts(RunFolder(folder).scores) for folder in folders]
    for part in zip(*columns, strict=True):
        taken = np.array([table.read_columns(path, "selected")[0] for _, path in part], np.int64)
        found += taken @ taken.T
    return found


def beside_part(name: str, runs: Sequence[Found], *, most: int) -> Part:
    """Two selections or more; the first so many are held against each other, and shown singly."""
    said = []
    if len(runs) > most:
        said.append(f"Here are the first {most} of {len(runs)} selections.")
        runs = runs[:most]
    columns = ["selection", "method", "segments", "share", "word pieces", "lowest score", "s"]
    rows = [_figures(run) for run in runs]
    sheets = [Sheet(f"{name}-runs", "Selections", columns, rows)]
    charts = {f"{name}-shares": shares_chart(_shares(runs))}
    shown = [plain_table(sheets[0]), figure(f"{name}-shares", "What each selection is made of.")]
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
        charts[f"{name}-overlap"] = overlap_chart(pairs)
        words = "Of what the row's selection took, the share that the column's took too."
        shown.append(figure(f"{name}-overlap", words))
        columns = ["selection", "other", "share of it that the other took"]
        sheets.append(
            Sheet(f"{name}-overlap", words, columns, [list(pair.values()) for pair in pairs])
        )
        shown.append(f"<details><summary>as a table</summary>{plain_table(sheets[1])}</details>")
    if len(alike) < len(runs):
        said.append(
            f"{len(runs) - len(alike)} of {len(runs)} selections have another corpus, or cut it in "
            f"another way, than {alike[0].title}: their overlap is not counted."
        )
    return Part(name, "Side by side", said, paragraphs(said) + "".join(shown), charts, sheets)


def _shares(runs: Sequence[Found]) -> list[dict[str, Any]]:
    """The share of each source in each selection, and in the first one's corpus."""
    made = [("corpus", _by_source(runs[0], "segments"))]
    made += [(run.title, _by_source(run, "selected")) for run in runs]
    weight: dict[str, float] = {}
    for _, shares in made:
        for source, share in shares.items():
            weight[source] = weight.get(source, 0.0) + share
    largest = set(sorted(weight, key=lambda source: (-weight[source], source))[:_MOST])
    rows = []
    for title, shares in made:
        known = {source: share for source, share in shares.items() if source in largest}
        if len(shares) > len(known):
            known["other sources"] = sum(shares.values()) - sum(known.values())
        rows += [
            {"run": title, "source": harmless(s), "share": round(n, 5)} for s, n in known.items()
        ]
    return rows
