"""Time and estimated energy of a recipe's steps: of each cell, each column and all steps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from corpusfit.experiments.config import Recipe
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.grid import Cell, columns_of
from corpusfit.experiments.nodes import StepGraph
from corpusfit.experiments.predictors import PredictorNode

ALL = "all steps"


@dataclass(frozen=True)
class Cost:
    """Cost of some steps, including those that they share with others.

    Energy is an estimate: processor seconds times the watts of a core, or seconds times the watts
    of a GPU. Memory and cooling are not counted.

    Reference: Strubell et al. (2019), Energy and Policy Considerations for Deep Learning in NLP;
    Lacoste et al. (2019), Quantifying the Carbon Emissions of Machine Learning.

    Attributes:
        select_s: wall-clock seconds of selections, which use all workers.
        adapt_s: seconds of adaptations, added up.
        tune_s: seconds of augmentations and fine-tunings, added up.
        look_s: seconds of predictors, added up; they belong to no column, only to all steps.
        cpu_s: processor seconds, added up over cores.
        watt_hours: estimated energy.
    """

    select_s: float
    adapt_s: float
    tune_s: float
    look_s: float
    cpu_s: float
    watt_hours: float


@dataclass(frozen=True)
class Costs:
    """Costs of a recipe's steps.

    Attributes:
        columns: by column over all rows, and for `all steps`; each step once.
        cells: by cell, in the table's order.
        unrecorded: finished steps without a record; they count as zero.
        differing: libraries whose version differs between steps, with the versions.
    """

    columns: dict[str, Cost]
    cells: list[Cost]
    unrecorded: int
    differing: dict[str, list[str]]


def costs_of(
    recipe: Recipe, folder: RecipeFolder, graph: StepGraph, predictors: Iterable[PredictorNode]
) -> Costs:
    """The cost of each cell, each column, and of all steps.

    Time of an attempt that was stopped is not counted, nor the processor time of selections on
    Ray. Amounts that share their scores each carry the whole selection that made the scores.
    """
    columns: dict[str, list[Cell]] = {}
    for cell, name in columns_of(graph.cells).items():
        columns.setdefault(name, []).append(cell)
    measured = {predictor.key for predictor in predictors if predictor.out.exists()}
    reading = _CostReader(recipe, folder, graph)
    found = {name: reading.cost(cells) for name, cells in columns.items()}
    return Costs(
        {**found, ALL: reading.cost(graph.cells, measured)},
        [reading.cost([cell]) for cell in graph.cells],
        reading.unrecorded(measured),
        reading.differing(),
    )


class _CostReader:
    """Adds up the records of steps, each file read once."""

    def __init__(self, recipe: Recipe, folder: RecipeFolder, graph: StepGraph) -> None:
        self._recipe, self._graph = recipe, graph
        self._records: dict[str, dict[str, Any]] = {
            path.stem: json.loads(path.read_bytes()) for path in folder.costs.glob("*.json")
        }
        self._scored = sorted(key for key, record in self._records.items() if record.get("scored"))
        self._seen: set[str] = set()

    def cost(self, cells: Iterable[Cell], measured: Iterable[str] = ()) -> Cost:
        """The cost of the steps of some cells, each step once."""
        tunings = {t.name: t for cell in cells for t in self._graph.cells[cell] if t.out.exists()}
        adapted = {t.adapted for t in tunings.values() if t.adapted}
        chosen = {self._graph.adaptations[key].selection for key in adapted} - {""}
        selected = chosen | {self._scoring(key) for key in chosen}
        tuned = {t.extra for t in tunings.values() if t.extra} | tunings.keys()
        sums = [self._sum(keys) for keys in (selected, adapted, tuned, measured)]
        select_s, adapt_s, tune_s, look_s = (seconds for seconds, *_ in sums)
        cores, gpu = sum(s[1] for s in sums), sum(s[2] for s in sums)
        joules = cores * self._recipe.watts + gpu * self._recipe.gpu_watts
        return Cost(select_s, adapt_s, tune_s, look_s, cores, joules / 3600)

    def _scoring(self, key: str) -> str:
        """The selection that made a selection's scores: itself, or one of another amount."""
        same = [k for k in self._scored if k.partition("-")[0] == key.partition("-")[0]]
        return key if key in same or not same else same[0]

    def _sum(self, keys: Iterable[str]) -> tuple[float, float, float]:
        """Wall-clock seconds, processor seconds, and seconds on a GPU."""
        own = sorted(keys)
        self._seen.update(own)
        records = [self._records[key] for key in own if key in self._records]
        return (
            sum(r["seconds"] for r in records),
            sum(r["cpu_seconds"] for r in records),
            sum(r["seconds"] for r in records if r.get("device") == "cuda"),
        )

    def unrecorded(self, measured: Iterable[str]) -> int:
        """How many of the counted steps have no record."""
        return len((self._seen | set(measured)) - self._records.keys())

    def differing(self) -> dict[str, list[str]]:
        """Libraries whose version differs between the counted steps."""
        found: dict[str, set[str]] = {}
        for key in self._seen & self._records.keys():
            for name, version in self._records[key]["versions"].items():
                found.setdefault(name, set()).add(version)
        return {
            name: sorted(versions) for name, versions in sorted(found.items()) if len(versions) > 1
        }
