"""Which cells of a recipe are compared, with Holm's correction, and the average gains."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from corpusfit.evaluation.significance import Comparison, average_gain, holm, spread, verdict
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.grid import Cell, columns_of
from corpusfit.experiments.results import AugmentedMean, Gain, Pair, Result


def comparison_pairs(recipe: Recipe, cells: list[Cell]) -> Iterator[tuple[Cell, Cell, bool]]:
    """The comparisons of a row: ours, the other, and whether `pairs` asks for it.

    Every column is compared with the column of `compare` without augmentation (T + Data-Aug
    against T), and each pair of the recipe's `pairs`. A pair compares two selectors, so both cells
    have the same augmentation and adapter. Where the other selector has several columns, the one
    that differs least is used. Each further comparison makes the tests of all others weaker, so
    nothing else is compared.

    Reference: TADPOLE, Table 3.
    """
    base = [c for c in cells if c.selector == recipe.compare]
    if base:
        for cell in cells:
            other = _nearest(cell, base, augment="")
            if other != cell:
                yield cell, other, False
    for ours, theirs in recipe.pairs:
        for cell in (c for c in cells if c.selector == ours):
            same = cell.augment, cell.adapter
            others = [c for c in cells if c.selector == theirs and (c.augment, c.adapter) == same]
            if others:
                yield cell, _nearest(cell, others, augment=cell.augment), True


def _nearest(cell: Cell, others: list[Cell], augment: str) -> Cell:
    """The cell that differs least: by augmentation, then adapter, weights and fraction."""

    def differing(other: Cell) -> tuple[bool, ...]:
        return (
            other.augment != augment,
            other.adapter != cell.adapter,
            other.weights != cell.weights,
            other.fraction != cell.fraction,
        )

    return min(others, key=differing)


def adjusted_pairs(
    compared: list[tuple[Cell, Cell, bool, Comparison]], columns: Mapping[Cell, str], *, named: bool
) -> list[Pair]:
    """The comparisons of one kind, with p adjusted over them (Holm, 1979)."""
    own = [c for c in compared if c[2] == named]
    found = []
    for (ours, base, _, figures), p in zip(own, holm([c[3].p for c in own]), strict=True):
        adjusted = figures.p if p is None else p  # never None: every comparison has a p
        names = columns[ours], columns[base]
        alike = ours.adapter == base.adapter and base.augment in ("", ours.augment)
        text = verdict(figures, adjusted)
        found.append(Pair(ours.row, *names, named, alike, figures, adjusted, text))
    return found


def average_gains(recipe: Recipe, results: list[Result]) -> list[Gain]:
    """Average gains of the columns that all rows have, for each training size if several."""
    sizes = list(dict.fromkeys(r.cell.size for r in results))
    found = []
    for size in sizes if len(sizes) > 1 else [None]:
        rows = list(dict.fromkeys(r.cell.row for r in results if size in (None, r.cell.size)))
        for column in dict.fromkeys(r.column for r in results):
            pairs = [_scores(recipe, results, row, column) for row in rows]
            both = [pair for pair in pairs if pair]
            if len(both) == len(rows):
                ours, base = zip(*both, strict=True)
                found.append(Gain(column, size, *average_gain(ours, base), len(rows)))
    return found


def augmented_means(results: list[Result]) -> list[AugmentedMean]:
    """The mean over the augmentations of a column, where there are several.

    Scores are averaged over augmentations seed by seed first, so the deviation is over seeds; it is
    compared with the same cell without augmentation.

    Reference: TADPOLE, section 4.1 and Table 3 (Data-Aug: the mean of two augmentations).
    """
    groups: dict[Cell, list[Result]] = {}
    for result in results:
        plain = dataclasses.replace(result.cell, augment="")
        groups.setdefault(plain, []).append(result)
    found, names = [], columns_of(groups)
    for plain, own in groups.items():
        augmented = [r for r in own if r.cell.augment]
        if len(augmented) < 2 or any(r.error for r in own):
            continue
        mean = np.mean([r.scores for r in augmented], axis=0).tolist()
        base = next((r.scores for r in own if not r.cell.augment), None)
        gain = None if base is None else average_gain([mean], [base])
        kinds = tuple(r.cell.augment for r in augmented)
        found.append(AugmentedMean(plain.row, names[plain], kinds, mean, *spread(mean), gain))
    return found


def _scores(
    recipe: Recipe, results: list[Result], row: tuple[str, int, str], column: str
) -> tuple[list[float], list[float]] | None:
    """The scores in a row of a column and of the column that it is compared with, or None."""
    own = {r.cell: r for r in results if r.cell.row == row}
    ours = next((r for r in own.values() if r.column == column), None)
    base = [cell for cell in own if cell.selector == recipe.compare]
    if ours is None or not base:
        return None
    other = own[_nearest(ours.cell, base, augment="")]
    if other is ours or other.error or ours.error:
        return None
    return ours.scores, other.scores
