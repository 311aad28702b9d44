"""The command `run` for a recipe with `[separation]`: from its targets to its tables."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.artifacts import listed, write_bytes
from corpusfit.core.engine import Meter
from corpusfit.core.manifest import source_identity, versions
from corpusfit.core.types import Source
from corpusfit.evaluation.tables import Table
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.export import all_cells, write_tables
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.inputs import with_scored_side
from corpusfit.experiments.results import ScoredCells
from corpusfit.experiments.separation.cells import Cells, SeparationNode, cells_of
from corpusfit.experiments.separation.job import SeparationJob
from corpusfit.experiments.separation.samples import prepare_inputs
from corpusfit.experiments.separation.settings import Separation
from corpusfit.experiments.separation.tables import as_plain, costs_of, results_of, tables_of
from corpusfit.experiments.separation.targets import Target, targets_of, tuning_of
from corpusfit.text.context import Machine


@dataclasses.dataclass(frozen=True)
class Measurements:
    """A recipe's corpus, targets and cells."""

    recipe: Recipe
    separation: Separation
    sources: list[Source]
    targets: Mapping[str, Target]
    cells: Cells

    def pending(self, scores: Path) -> list[SeparationNode]:
        """The measurements without a result in a folder, each once."""
        there = listed(scores)
        every = {node.out.name: node for nodes in self.cells.values() for node in nodes}
        return [node for name, node in every.items() if name not in there]


def measurements_of(recipe: Recipe, folder: RecipeFolder, machine: Machine) -> Measurements:
    """Read a recipe's targets and list its cells."""
    separation = recipe.separation or Separation()
    read = recipe.selectors[0].select.read
    sources = corpus.find(
        recipe.corpus, read, spool=folder.work, role="corpus", note=machine.progress.note
    )
    if corpus.is_parallel(sources):
        recipe = with_scored_side(recipe, sources, machine.progress)
    targets = targets_of(recipe, separation, sources)
    cells = cells_of(recipe, separation, sources, targets, folder, machine)
    return Measurements(recipe, separation, sources, targets, cells)


def measure_separation(
    recipe: Recipe, folder: RecipeFolder, machine: Machine
) -> tuple[ScoredCells, list[Table], dict[str, Any]]:
    """Measure what is missing, and write the tables."""
    measured = measurements_of(recipe, folder, machine)
    left = measured.pending(folder.scores)
    failed: dict[str, str] = {}
    if left:
        folder.reopen()
        machine.progress.note(f"Measurements: {len(left)} pending.")
        failed = _run(measured, left, folder, machine)
    scored, found = results_of(measured.cells, failed)
    tables = tables_of(recipe, scored, found)
    facts = {
        "recipe": dataclasses.asdict(recipe),
        "pile": source_identity(measured.sources),
        "targets": {
            name: {"units": len(target.texts), "digest": target.digest}
            for name, target in measured.targets.items()
        },
        "adapted": [],
        "measurements": as_plain(found),
        "versions": versions(),
    }
    cells = all_cells(scored, costs_of(recipe, folder, measured.cells))
    write_tables(folder.path, tables, cells, {**facts, **dataclasses.asdict(scored)})
    return scored, tables, facts


def _run(
    measured: Measurements, left: list[SeparationNode], folder: RecipeFolder, machine: Machine
) -> dict[str, str]:
    """Run the pending measurements in parallel; returns the errors of failed ones."""
    recipe, failed = measured.recipe, {}
    labels = {node.out.stem: node.label for node in left}
    with machine.running(folder.work) as context:
        inputs = prepare_inputs(context, recipe, measured.sources, measured.targets, left)
        tuned = {node.target for node in left if node.finetuned}
        job = SeparationJob(
            inputs,
            measured.separation.held_out,
            {name: tuning_of(recipe, measured.targets[name]) for name in tuned},
            folder.costs,
        )
        with machine.progress.showing("measure", len(left), "steps"):
            meter = Meter(machine.progress)
            for report in context.engine.map(job, meter.weighed(left), meter):
                machine.progress.advance(0, 1)
                failure = folder.failures / f"{report.key}.json"
                if report.error:
                    failed[report.key] = report.error
                    machine.progress.warn(f"{labels[report.key]} failed: {report.error}")
                    write_bytes(failure, json.dumps(dataclasses.asdict(report)).encode())
                else:
                    failure.unlink(missing_ok=True)
    return failed
