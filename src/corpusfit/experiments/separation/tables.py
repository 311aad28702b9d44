"""The tables of a recipe with `[separation]`: F1, AUROC, sources that are kept, histograms."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.evaluation.significance import spread
from corpusfit.evaluation.tables import Cell as Shown
from corpusfit.evaluation.tables import Score, Table, with_best
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.costs import Cost
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.grid import Cell
from corpusfit.experiments.results import Result, ScoredCells
from corpusfit.experiments.separation.cells import Cells
from corpusfit.experiments.separation.settings import Separation
from corpusfit.experiments.tables import row_name

Found = Mapping[Cell, list[dict[str, Any]]]
"""By cell, the results of its measurements."""
_TENTHS = 10


def results_of(cells: Cells, failed: Mapping[str, str]) -> tuple[ScoredCells, Found]:
    """The scores of every cell, or its error, and what each measurement found."""
    found: dict[Cell, list[dict[str, Any]]] = {}
    results = []
    for cell, nodes in cells.items():
        error = next((failed[n.out.stem] for n in nodes if n.out.stem in failed), "")
        if error:
            results.append(Result(cell, cell.selector, "F1", error=error))
            continue
        own = found[cell] = [json.loads(node.out.read_bytes()) for node in nodes]
        scores = [of["f1"] for of in own]
        mean, sd = spread(scores)
        more: list[str] = [name for name in ("auroc", "ap", "accuracy") if name in own[0]]
        metrics = {name: float(np.mean([of[name] for of in own])) for name in more}
        results.append(Result(cell, cell.selector, "F1", scores, mean, sd, metrics=metrics))
    return ScoredCells(results, [], []), found


def tables_of(recipe: Recipe, scored: ScoredCells, found: Found) -> list[Table]:
    """The tables that are printed (TADPOLE, Table 1, Figures 4 and 5)."""
    rows = list(dict.fromkeys(r.cell.row for r in scored.results))
    columns = [s.name for s in recipe.selectors]
    tables = [_scores(recipe, rows, columns, scored, found, "f1", "F1")]
    tables.append(_scores(recipe, rows, columns, scored, found, "auroc", "AUROC"))
    tables += _kept(recipe, found)
    tables += _histograms(recipe, rows, found)
    return tables


def _scores(
    recipe: Recipe,
    rows: Sequence[tuple[str, int, str]],
    columns: Sequence[str],
    scored: ScoredCells,
    found: Found,
    key: str,
    name: str,
) -> Table:
    """A figure of every cell in points, and its mean over the rows."""
    errors = {(r.cell.row, r.column): r.error for r in scored.results if r.error}
    values = {(cell.row, cell.selector): [of[key] for of in own] for cell, own in found.items()}
    shown: list[tuple[Shown, ...]] = []
    for row in rows:
        cells: list[Shown] = []
        for column in columns:
            if (row, column) in values:
                cells.append(Score(*spread(values[row, column])))
            else:
                cells.append(f"failed: {errors[row, column][:200]}")
        shown.append((row_name(recipe, row), *cells))
    for group, own in _groups(recipe, rows):
        whole = [c for c in columns if all((row, c) in values for row in own)]
        means = {c: np.mean([values[row, c] for row in own], axis=0).tolist() for c in whole}
        shown.append((group, *(Score(*spread(means[c])) if c in means else None for c in columns)))
    notes = [
        f"{name} in points (higher is better) of separating held-out target units from units of "
        "the "
        f"corpus that the method was not fitted on, mean ± standard deviation over {recipe.seeds} "
        "seeds, which draw the corpus's units and the split.",
    ]
    if key == "f1" and found:
        sizes = next(iter(found.values()))[0]["texts"]
        notes.append(
            f"First row: fitted on {sizes['train']:,} units of the target and {sizes['fit']:,} of "
            f"the corpus; {sizes['test']:,} held-out units, as many of the corpus. The threshold "
            "has the best F1 on the units fitted on against others of the corpus."
        )
    accuracies = [of["accuracy"] for own in found.values() for of in own if "accuracy" in of]
    if key == "auroc" and accuracies:
        share = f"{100 * float(np.mean(accuracies)):.1f} %"
        notes.append(f"Fine-tuned encoders get {share} of the held-out labels right.")
    return with_best(
        Table(f"{recipe.name}: {name}", ("target", *columns), tuple(shown), tuple(notes)), "row"
    )


def _groups(
    recipe: Recipe, rows: Sequence[tuple[str, int, str]]
) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
    """The rows of each corpus, encoder and kind of encoder, where they have several targets."""
    groups: dict[str, list[tuple[str, int, str]]] = {}
    for row in rows:
        _, _, rest = row_name(recipe, row).partition(", ")
        groups.setdefault(", ".join(filter(None, ("mean", rest))), []).append(row)
    yield from ((name, own) for name, own in groups.items() if len(own) > 1)


def _kept(recipe: Recipe, found: Found) -> Iterator[Table]:
    """What is kept of corpora with shares, by source (TADPOLE, Figure 5; DANA, Table 2)."""
    separation = recipe.separation or Separation()
    known = {g for shares in separation.corpora.values() if any(shares.values()) for g in shares}
    found = {c: own for c, own in found.items() if own[0]["scored"].keys() <= known}
    for share in next(iter(found.values()))[0]["kept"] if found else ():
        shown: list[tuple[Shown, ...]] = []
        for row in dict.fromkeys(cell.row for cell in found):
            cells = {c.selector: own for c, own in found.items() if c.row == row}
            first = next(iter(cells.values()))
            names = sorted({name for of in first for name in of["scored"]})
            for name in names:
                before = Score(*spread([_part(of["scored"], name) for of in first]))
                after = [
                    Score(*spread([_part(of["kept"].get(share, {}), name) for of in cells[s.name]]))
                    if s.name in cells
                    else None
                    for s in recipe.selectors
                ]
                shown.append((f"{row_name(recipe, row)}: {name}", before, *after))
        columns = ("target: source", "before", *(s.name for s in recipe.selectors))
        kept = f"{100 * float(share):g} %"
        note = (
            f"Percent of units by source: of all that are scored, and of the {kept} with the "
            "highest scores."
        )
        yield Table(f"Sources of the best {kept}", columns, tuple(shown), (note,))


def _part(counts: Mapping[str, int], name: str) -> float:
    return counts.get(name, 0) / max(1, sum(counts.values()))


def _histograms(
    recipe: Recipe, rows: Iterable[tuple[str, int, str]], found: Found
) -> Iterator[Table]:
    """Scores of the first seed, for rows with and without fine-tuning (TADPOLE, Figure 4)."""
    if recipe.separation is None or len(recipe.separation.finetuned) < 2:
        return
    for row in rows:
        for cell in (c for c in found if c.row == row):
            of = found[cell][0]["histogram"]
            parts = [_tenths(of[k]) for k in ("inside", "outside")]
            shown = tuple(
                (f"{of['edges'][4 * i]:.3f} to {of['edges'][4 * i + 4]:.3f}", Score(a), Score(b))
                for i, (a, b) in enumerate(zip(*parts, strict=True))
            )
            note = "Percent of the held-out target and of the corpus's units by score, first seed."
            columns = ("score", "of the target", "of the corpus")
            title = f"Scores of {cell.selector}, {row_name(recipe, row)}"
            yield Table(title, columns, shown, (note,))


def _tenths(counts: list[int]) -> list[float]:
    """Shares in ten bins; the outer ones have what lies beyond them."""
    n: NDArray[np.float64] = np.array(counts, np.float64)
    bins = n[1:-1].copy()
    bins[0] += n[0]
    bins[-1] += n[-1]
    return [float(v) for v in bins.reshape(_TENTHS, -1).sum(axis=1) / n.sum()]


def costs_of(recipe: Recipe, folder: RecipeFolder, cells: Cells) -> list[Cost]:
    """The cost of each cell; drawing and encoding the units belongs to none."""
    found = []
    for nodes in cells.values():
        paths = [folder.costs / f"{node.out.stem}.json" for node in nodes]
        records = [json.loads(path.read_bytes()) for path in paths if path.exists()]
        took, cpu = (sum(r[k] for r in records) for k in ("seconds", "cpu_seconds"))
        found.append(Cost(took, 0.0, 0.0, 0.0, cpu, cpu * recipe.watts / 3600))
    return found


def as_plain(found: Found) -> list[dict[str, Any]]:
    """What each cell's measurements found, for `table.json`."""
    return [{"cell": dataclasses.asdict(cell), "measured": own} for cell, own in found.items()]
