"""What the steps of a recipe took, in time and, as an estimate, in energy.

What: sums what was measured of each step, for each cell, each column and for all, shared steps once
in each; and says where steps were made with different libraries.
Why: a gain of a point is worth a minute and not always a day.
Trade-off: energy is processor seconds times the watts that the recipe says for a core, or seconds
times those of a GPU: no meter is read, and neither memory nor cooling is counted. What a step took
that was stopped and begun again is not counted, nor what workers on Ray took for a selection.
Amounts of the same scores each bear the whole selection that made those.
Reference: Strubell et al. (2019), Energy and Policy Considerations for Deep Learning in NLP;
Lacoste et al. (2019), Quantifying the Carbon Emissions of Machine Learning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.config import Recipe
from corpusfit.pipeline.recipes.grid import Cell, columns_of
from corpusfit.pipeline.recipes.nodes import StepGraph
from corpusfit.pipeline.recipes.predictors import PredictorNode

ALL = "all steps"


@dataclass(frozen=True)
class Cost:
    """What some steps took; with those that they share with others.

    Attributes:
        select_s: seconds of selections, all workers at once.
        adapt_s: seconds of adaptations, added up.
        tune_s: seconds of companions and fine-tunings, added up.
        look_s: seconds of forecasts, added up; they are of no column, but of all steps.
        cpu_s: seconds of processor cores, of all of them.
        watt_hours: an estimate.
    """

    select_s: float
    adapt_s: float
    tune_s: float
    look_s: float
    cpu_s: float
    watt_hours: float


@dataclass(frozen=True)
class Costs:
    """What a recipe's steps took.

    Attributes:
        columns: by name over all rows, and `all steps`, each step once.
        cells: of each cell, in the table's order.
        unrecorded: finished steps whose record is missing; they count as nothing.
        differing: libraries and machines that differ between steps, with what there is of each.
    """

    columns: dict[str, Cost]
    cells: list[Cost]
    unrecorded: int
    differing: dict[str, list[str]]


def costs_of(
    recipe: Recipe, folder: RecipeFolder, work: StepGraph, looks: Iterable[PredictorNode]
) -> Costs:
    """The cost of each cell, each column, and of all steps.

    Args:
        recipe: says the watts.
        folder: has what was measured.
        work: the steps.
        looks: those that measured what was known beforehand.
    """
    columns: dict[str, list[Cell]] = {}
    for cell, name in columns_of(work.cells).items():
        columns.setdefault(name, []).append(cell)
    looked = {look.key for look in looks if look.out.exists()}
    reading = _Reading(recipe, folder, work)
    found = {name: reading.cost(cells) for name, cells in columns.items()}
    return Costs(
        {**found, ALL: reading.cost(work.cells, looked)},
        [reading.cost([cell]) for cell in work.cells],
        reading.unrecorded(looked),
        reading.differing(),
    )


class _Reading:
    """Adds up costs, each file read once."""

    def __init__(self, recipe: Recipe, folder: RecipeFolder, work: StepGraph) -> None:
        self._recipe, self._work = recipe, work
        self._known: dict[str, dict[str, Any]] = {
            path.stem: json.loads(path.read_bytes()) for path in folder.costs.glob("*.json")
        }
        self._scored: dict[str, set[str]] = {}
        for key, record in self._known.items():
            if record.get("scored"):
                self._scored.setdefault(key.partition("-")[0], set()).add(key)
        self._seen: set[str] = set()

    def cost(self, cells: Iterable[Cell], looked: Iterable[str] = ()) -> Cost:
        """What the steps of some cells took, each once."""
        tunings = {t.name: t for cell in cells for t in self._work.cells[cell] if t.out.exists()}
        adapted = {t.adapted for t in tunings.values() if t.adapted}
        chosen = {self._work.adaptations[key].selection for key in adapted} - {""}
        selected = chosen.union(*(self._scored.get(k.partition("-")[0], ()) for k in chosen))
        tuned = {t.extra for t in tunings.values() if t.extra} | tunings.keys()
        sums = [self._sum(keys) for keys in (selected, adapted, tuned, looked)]
        select_s, adapt_s, tune_s, look_s = (seconds for seconds, *_ in sums)
        cores, gpu = sum(s[1] for s in sums), sum(s[2] for s in sums)
        joules = cores * self._recipe.watts + gpu * self._recipe.gpu_watts
        return Cost(select_s, adapt_s, tune_s, look_s, cores, joules / 3600)

    def _sum(self, keys: Iterable[str]) -> tuple[float, float, float]:
        """Seconds of the clock, of the processor, and of a GPU that trained."""
        own = sorted(keys)
        self._seen.update(own)
        records = [self._known[key] for key in own if key in self._known]
        return (
            sum(r["seconds"] for r in records),
            sum(r["cpu_seconds"] for r in records),
            sum(r["seconds"] for r in records if r.get("device") == "cuda"),
        )

    def unrecorded(self, looked: Iterable[str]) -> int:
        """How many of the steps that were asked for have no record."""
        return len((self._seen | set(looked)) - self._known.keys())

    def differing(self) -> dict[str, list[str]]:
        """Versions that differ between the steps that were asked for."""
        found: dict[str, set[str]] = {}
        for key in self._seen & self._known.keys():
            for name, version in self._known[key]["versions"].items():
                found.setdefault(name, set()).add(version)
        return {name: sorted(those) for name, those in sorted(found.items()) if len(those) > 1}
