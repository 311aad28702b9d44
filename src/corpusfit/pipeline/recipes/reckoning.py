"""What the steps of a recipe took, in time and, as an estimate, in energy.

What: sums what was measured of each step, for each column and for all, shared steps once.
Why: a gain of a point is worth a minute and not always a day.
Trade-off: energy is processor seconds times the watts that the recipe says for a core, or seconds
times those of a GPU: no meter is read, and neither memory nor cooling is counted. What a step took
that was stopped and begun again is not counted.
Reference: Strubell et al. (2019), Energy and Policy Considerations for Deep Learning in NLP;
Lacoste et al. (2019), Quantifying the Carbon Emissions of Machine Learning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.cells import Cell, columns_of
from corpusfit.pipeline.recipes.recipe import Recipe
from corpusfit.pipeline.recipes.work import Work

__all__ = ["Cost", "costs_of"]


@dataclass(frozen=True)
class Cost:
    """What the steps of a column took, over all rows; with steps that it shares with others.

    Attributes:
        column: its name; "all steps" for everything, each step once.
        select_s: seconds of its selections, all workers at once.
        adapt_s: seconds of its adaptations, added up.
        tune_s: seconds of its companions and fine-tunings, added up.
        cpu_s: seconds of processor cores, of all of them.
        watt_hours: an estimate.
    """

    column: str
    select_s: float
    adapt_s: float
    tune_s: float
    cpu_s: float
    watt_hours: float


def costs_of(recipe: Recipe, folder: RecipeFolder, work: Work, device: str) -> list[Cost]:
    """The cost of each column, and of all steps.

    Args:
        recipe: says the watts.
        folder: has what was measured.
        work: the steps.
        device: where models were trained: `cpu` or `cuda`.
    """
    columns: dict[str, list[Cell]] = {}
    for cell, name in columns_of(work.cells).items():
        columns.setdefault(name, []).append(cell)
    reading = _Reading(recipe, folder, work, device)
    found = [reading.cost(name, cells) for name, cells in columns.items()]
    return [*found, reading.cost("all steps", work.cells)]


class _Reading:
    """Adds up costs, each file read once."""

    def __init__(self, recipe: Recipe, folder: RecipeFolder, work: Work, device: str) -> None:
        self._recipe, self._work, self._device = recipe, work, device
        self._known = {
            path.stem: json.loads(path.read_bytes()) for path in folder.costs.glob("*.json")
        }

    def cost(self, column: str, cells: Iterable[Cell]) -> Cost:
        """What the steps of some cells took, each once."""
        tunings = {f"{t.key}-{t.seed}": t for cell in cells for t in self._work.cells[cell]}
        adapted = {t.adapted for t in tunings.values() if t.adapted}
        selected = {self._work.adaptations[key].selection for key in adapted} - {""}
        companions = {t.extra for t in tunings.values() if t.extra}
        selecting, adapting = self._sum(selected), self._sum(adapted)
        tuning = self._sum(companions | tunings.keys())
        cores = selecting[1] + adapting[1] + tuning[1]
        joules = cores * self._recipe.watts
        if self._device == "cuda":
            joules += (adapting[0] + tuning[0]) * self._recipe.gpu_watts
        return Cost(column, selecting[0], adapting[0], tuning[0], cores, joules / 3600)

    def _sum(self, keys: Iterable[str]) -> tuple[float, float]:
        """Seconds of the clock and of the processor."""
        own = [self._known[key] for key in sorted(keys) if key in self._known]
        return sum(o["seconds"] for o in own), sum(o["cpu_seconds"] for o in own)
