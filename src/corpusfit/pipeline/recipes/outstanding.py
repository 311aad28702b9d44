"""What a recipe needs, and what of it is not there yet: `run --dry-run`, and where a run goes on.

What: counts the steps of each phase, and says how long the missing ones will take.
Why: a table takes hours; before and after a stop one wants to know how many.
Trade-off: the time is what finished steps of the kind took on average, so that before the first of
each kind nothing is said; a step of another model or task may take longer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.artifacts import listed
from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.cells import check_plans
from corpusfit.pipeline.recipes.recipe import Recipe
from corpusfit.pipeline.recipes.storing import made_of
from corpusfit.pipeline.recipes.work import Tuning, Work, work_of
from corpusfit.pipeline.run import Machine

__all__ = ["Missing", "counts_of", "missing", "tunings_of", "whole"]

HERE = Machine()


@dataclass(frozen=True)
class Missing:
    """What a recipe needs, and what of it is not there yet.

    Attributes:
        cells: names of rows and columns.
        steps: by phase, how many there are and how many are missing.
        seconds: estimate of what is missing, by what finished steps of the kind took; None where
            a phase has none.
    """

    cells: list[dict[str, Any]]
    steps: dict[str, tuple[int, int]]
    seconds: float | None


def missing(recipe: Recipe, out: Path, *, machine: Machine = HERE) -> Missing:
    """What `run_recipe` would do; nothing is written.

    Raises:
        CorpusfitError: something that it reads cannot be read.
    """
    check_plans(recipe)
    folder = RecipeFolder(out.absolute())
    made = made_of(recipe, folder, machine.progress, store=False)
    work = work_of(made)
    cells = [
        {**dataclasses.asdict(cell), "missing": sum(not t.out.exists() for t in tunings)}
        for cell, tunings in work.cells.items()
    ]
    counts = counts_of(work, folder)
    return Missing(cells, counts, _estimate(work, folder, counts, machine))


def tunings_of(work: Work) -> list[Tuning]:
    """All fine-tunings, once."""
    return list({(t.key, t.seed): t for own in work.cells.values() for t in own}.values())


def counts_of(work: Work, folder: RecipeFolder) -> dict[str, tuple[int, int]]:
    """By phase, how many steps there are and how many are missing."""
    tunings, there = tunings_of(work), listed(folder.scores)
    extra = listed(folder.companions)
    return {
        "selections": (
            len(work.selections),
            sum(not whole(folder.selections / key) for key in work.selections),
        ),
        "adaptations": (
            len(work.adaptations),
            sum(not whole(folder.models / key) for key in work.adaptations),
        ),
        "companions": (
            len(work.companions),
            sum(f"{key}.json" not in extra for key in work.companions),
        ),
        "fine-tunings": (len(tunings), sum(t.out.name not in there for t in tunings)),
    }


def whole(folder: Path) -> bool:
    """Whether a selection or a model is finished."""
    return (folder / "manifest.json").exists()


def _estimate(
    work: Work, folder: RecipeFolder, counts: Mapping[str, tuple[int, int]], machine: Machine
) -> float | None:
    """Seconds for what is missing, by the mean of finished steps; None where there is none."""
    names = {
        "selections": list(work.selections),
        "adaptations": list(work.adaptations),
        "companions": list(work.companions),
        "fine-tunings": [f"{t.key}-{t.seed}" for t in tunings_of(work)],
    }
    at_once = machine.start().workers
    there, total = listed(folder.costs), 0.0
    for phase, (_, left) in counts.items():
        done = [folder.costs / f"{n}.json" for n in names[phase] if f"{n}.json" in there]
        if left and not done:
            return None
        if left:
            took = [json.loads(path.read_bytes())["seconds"] for path in done]
            several = at_once if phase in ("adaptations", "fine-tunings") else 1
            total += left * sum(took) / len(took) / several
    return total
