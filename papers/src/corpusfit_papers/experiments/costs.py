"""Time and estimated energy of a recipe's steps: of each cell, each column and all steps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from corpusfit.core.plan import GPUS, kind_of
from corpusfit_papers.experiments.config import Recipe
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.graph import StepGraph
from corpusfit_papers.experiments.grid import Cell, columns_of

ALL = "all steps"


@dataclass(frozen=True)
class Cost:
    """Cost of some steps, shared ones included."""

    # Reference: Strubell et al. (2019), Energy and Policy Considerations for Deep Learning in NLP;
    # Lacoste et al. (2019), Quantifying the Carbon Emissions of Machine Learning.
    select_s: float  # wall-clock seconds of selections, which use all workers
    adapt_s: float
    tune_s: float  # of augmentations and fine-tunings
    cpu_s: float  # processor seconds, added up over cores
    watt_hours: float  # estimated energy, without memory and cooling


@dataclass(frozen=True)
class Costs:
    """Costs of a recipe's steps."""

    columns: dict[str, Cost]  # over all rows, and for `all steps`; each step once
    cells: list[Cost]  # in the table's order
    unrecorded: int  # finished steps without a record; they count as zero
    differing: dict[str, list[str]]  # libraries whose version differs between steps


def costs_of(recipe: Recipe, folder: RecipeFolder, graph: StepGraph) -> Costs:
    """The cost of each cell, each column, and of all steps."""
    # Not counted: time of interrupted attempts, and processor time of selections on Ray.
    records = {path.stem: json.loads(path.read_bytes()) for path in folder.costs.glob("*.json")}
    counted: set[str] = set()
    # selections that share scores each carry the whole cost of scoring
    scored = sorted(key for key, record in records.items() if record.get("scored"))

    def scoring(key: str) -> str:
        same = [k for k in scored if k.partition("-")[0] == key.partition("-")[0]]
        return key if key in same or not same else same[0]

    def cost(cells: Iterable[Cell]) -> Cost:
        tunings = {t.name: t for cell in cells for t in graph.cells[cell] if t.out.exists()}
        adapted = {t.adapted for t in tunings.values() if t.adapted}
        chosen = {graph.adaptations[key].selection for key in adapted} - {""}
        selected = chosen | {scoring(key) for key in chosen}
        tuned = {t.extra for t in tunings.values() if t.extra} | tunings.keys()
        seconds: list[float] = []
        cores: float = 0
        gpu: float = 0
        for keys in (selected, adapted, tuned):
            counted.update(keys)
            steps = [records[key] for key in sorted(keys) if key in records]
            seconds.append(sum(r["seconds"] for r in steps))
            cores += sum(r["cpu_seconds"] for r in steps)
            gpu += sum(r["seconds"] for r in steps if kind_of(r.get("device") or "") in GPUS)
        joules = cores * recipe.watts + gpu * recipe.gpu_watts
        select_s, adapt_s, tune_s = seconds
        return Cost(select_s, adapt_s, tune_s, cores, joules / 3600)

    columns: dict[str, list[Cell]] = {}
    for cell, name in columns_of(graph.cells).items():
        columns.setdefault(name, []).append(cell)
    by_column = {name: cost(cells) for name, cells in columns.items()} | {ALL: cost(graph.cells)}
    versions: dict[str, set[str]] = {}
    for key in counted & records.keys():
        for name, version in records[key]["versions"].items():
            versions.setdefault(name, set()).add(version)
    return Costs(
        by_column,
        [cost([cell]) for cell in graph.cells],
        len(counted - records.keys()),
        {name: sorted(seen) for name, seen in sorted(versions.items()) if len(seen) > 1},
    )
