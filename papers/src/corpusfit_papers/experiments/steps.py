"""The steps of a recipe, which call the public functions, and the job that runs one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import corpusfit
from corpusfit import AdaptPlan, CorpusfitError, EvaluatePlan, Machine, Plan
from corpusfit.contracts import write_bytes
from corpusfit.core.artifacts import remove
from corpusfit.core.engine import WarningCollector, report
from corpusfit.core.errors import ChangedInputError, StorageError, WorkerError, machine_fault
from corpusfit.core.manifest import versions
from corpusfit.evaluation.finetune import FineTuning, fine_tune
from corpusfit.evaluation.task import Outcome, load_task, store_task
from corpusfit.selection.folder import SelectionFolder
from corpusfit.training.adapting import adapt
from corpusfit_papers.augmenting import Augmentation, with_augmented
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.mixing.composing import compose
from corpusfit_papers.mixing.plan import CompositionPlan

_OF_A_SELECTION = (
    *("selected", "pieces", "parts.json", "chosen.json"),
    *("manifest.json", "examples", "examples.parquet", "spread.safetensors"),
)


def copy_scores(scored: Path, folder: Path) -> None:
    """Copy the scores of a local run, without its selection, into a folder that is replaced."""
    temporary = folder.with_name(f"{folder.name}.copy")
    remove(temporary, folder)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(scored, temporary, ignore=shutil.ignore_patterns(*_OF_A_SELECTION))
    temporary.rename(folder)


@dataclass(frozen=True)
class Step(ABC):
    """A step of a recipe."""

    kind: ClassVar[str]
    key: str  # digest of everything that decides its result
    label: str = field(compare=False)  # for the user

    @property
    def name(self) -> str:
        """The name of its files."""
        return self.key

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the steps whose results it reads."""
        return ()

    @property
    def device(self) -> str:
        """The requested device."""
        return "cpu"

    @abstractmethod
    def finished(self, folder: RecipeFolder) -> bool:
        """Whether its result exists."""

    @abstractmethod
    def run(self, folder: RecipeFolder, machine: Machine) -> dict[str, Any]:
        """Compute the result; returns extra entries for the record of its cost."""


@dataclass(frozen=True)
class Select(Step):
    """A selection."""

    kind = "Selection"
    scoring: str  # the first digest of its key; selections that share scores have the same
    plan: Plan
    target: Path
    corpus: tuple[str, ...]

    def finished(self, folder: RecipeFolder) -> bool:
        return (folder.selections / self.key / "manifest.json").exists()

    def run(self, folder: RecipeFolder, machine: Machine) -> dict[str, Any]:
        out = folder.selections / self.key
        if SelectionFolder(out).scored_so_far() is None:
            siblings = folder.selections.glob(f"{self.scoring}-*[!y]")  # no .copy
            scored = [
                folder_of
                for folder_of in siblings
                if SelectionFolder(folder_of).scored_so_far() is not None
            ]
            if not scored:
                corpusfit.select(
                    [str(self.target)],
                    self.corpus,
                    out=out,
                    plan=self.plan,
                    machine=machine,
                    overwrite=True,
                )
                return {"scored": True}
            # a selection of another amount has the same scores
            copy_scores(scored[0], out)
        corpusfit.choose(out, plan=Plan(choose=self.plan.choose), machine=machine)
        return {}


@dataclass(frozen=True)
class Compose(Step):
    """A composition, which is stored among the selections."""

    kind = "Selection"
    plan: CompositionPlan

    def finished(self, folder: RecipeFolder) -> bool:
        return (folder.selections / self.key / "manifest.json").exists()

    def run(self, folder: RecipeFolder, machine: Machine) -> dict[str, Any]:
        compose(self.plan, folder.selections / self.key, machine=machine, overwrite=True)
        return {}


@dataclass(frozen=True)
class Adapt(Step):
    """An adapted model."""

    kind = "Adaptation"
    plan: AdaptPlan
    selection: str  # digest of its selection or composition; empty for none
    data: tuple[str, ...]
    task: tuple[str, ...]  # files with the task's texts, where the data has no target
    guard: tuple[str, ...]  # files with the dev and test texts to leave out
    shared: bool  # by all tasks

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.selection,) if self.selection else ()

    @property
    def device(self) -> str:
        return self.plan.train.device

    def finished(self, folder: RecipeFolder) -> bool:
        return (folder.models / self.key / "manifest.json").exists()

    def run(self, folder: RecipeFolder, machine: Machine) -> dict[str, Any]:
        out = folder.models / self.key
        inputs: dict[str, Any] = {"task": self.task, "guard": self.guard, "machine": machine}
        if self.plan.objective.kind.columns == 2:  # whichever text of a pair is read first
            inputs["guard_field"] = "text"
        # overwriting is safe, because the folder is named by a digest of all inputs
        try:
            manifest = adapt(self.plan, self.data, out, overwrite=True, **inputs).manifest
        except ChangedInputError as e:
            # an unfinished run was on another device or had other settings
            machine.progress.warn(f"Started over: {e}")
            remove(out)
            manifest = adapt(self.plan, self.data, out, overwrite=True, **inputs).manifest
        facts = {name: manifest[name] for name in ("training", "tokens", "rows", "losses")}
        return {
            "device": manifest["device"],
            "precision": manifest["precision"],
            "adapted": {**facts, "guard": manifest["counts"].get("guard")},
        }


@dataclass(frozen=True)
class Augment(Step):
    """The augmentation of one task's training examples."""

    kind = "Augmentation"
    plan: Augmentation
    task: Path
    seed: int
    asked_device: str

    def finished(self, folder: RecipeFolder) -> bool:
        return folder.augmented(self.key).exists()

    def run(self, folder: RecipeFolder, machine: Machine) -> dict[str, Any]:
        task = load_task(self.task)
        more = with_augmented(task, self.plan, seed=self.seed, device=self.asked_device)
        store_task(more, folder.augmented(self.key))
        return {}


@dataclass(frozen=True)
class Tune(Step):
    """One fine-tuning: its digest, with the seed of the head, the order and dropout."""

    kind = "Fine-tuning"
    seed: int
    plan: EvaluatePlan
    task: Path
    adapted: str  # digest of the adapted model; empty for the base
    extra: str  # digest of the augmentation; empty for none
    out: Path

    @property
    def name(self) -> str:
        return f"{self.key}-{self.seed}"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.adapted, self.extra)))

    @property
    def device(self) -> str:
        return self.plan.finetune.device

    def finished(self, folder: RecipeFolder) -> bool:
        return self.out.exists()

    def run(self, folder: RecipeFolder, machine: Machine) -> dict[str, Any]:
        task = folder.augmented(self.extra) if self.extra else self.task
        work = FineTuning(task, self.plan, 0, self.seed, self.out)
        tune = Outcome.read(fine_tune(work)).tune
        return {"device": tune["device"], "precision": tune["precision"]}


@dataclass(frozen=True)
class Report:
    """The outcome of a step; the error is one sentence, empty if it succeeded."""

    key: str
    error: str
    trace: str
    warnings: tuple[str, ...]


def run_step(step: Step, folder: RecipeFolder, machine: Machine) -> Report:
    """Run a step, write the record of its cost, and report."""
    error = trace = ""
    # os.times includes children that have finished
    began = time.perf_counter()
    cpu_before = sum(os.times()[:4])
    try:
        more = step.run(folder, machine)
        record = {
            "seconds": round(time.perf_counter() - began, 3),
            "cpu_seconds": round(sum(os.times()[:4]) - cpu_before, 3),
            **more,
            "versions": versions(),
            "commit": _commit(),
        }
        write_bytes(folder.costs / f"{step.name}.json", json.dumps(record).encode())
    except (StorageError, WorkerError):
        raise
    # any error but a full disk or a dead process is the step's failure, even a bug, so its
    # traceback is kept
    except Exception as e:
        if isinstance(e, OSError) and (fault := machine_fault(e)):
            raise fault from e
        error = str(e) if isinstance(e, CorpusfitError) else f"{type(e).__name__}: {e}"
        trace = traceback.format_exc()
    progress = machine.progress
    warnings = tuple(progress.warnings) if isinstance(progress, WarningCollector) else ()
    return Report(step.name, error, trace, warnings)


@cache
def _commit() -> str:
    """Commit of the checkout that this code runs from; empty if it is installed."""
    root = Path(__file__).parents[4]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(command, text=True).strip()  # noqa: S603
    return ""


class _Trainings(WarningCollector):
    """Collects warnings, and reports progress over several trainings."""

    def __init__(self, trainings: int) -> None:
        super().__init__()
        self._trainings = trainings
        self._before = -1
        self._done = 0.0
        self._total = 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Count a training."""
        self._done = 0.0
        self._total = total if stage == "adapt" else 0.0
        self._before += stage == "adapt"
        if self._total and not self._before:
            report(0.0)

    def advance(self, done: float, units: int = 0) -> None:
        """Report the steps of a training."""
        if self._total:
            self._done += done
            report((self._before + self._done / self._total) / self._trainings)

    skip = advance


def run_in_worker(step: Step, recipe: Path, cache: Path | str | None, *, verify: bool) -> Report:
    """Run an adaptation or a fine-tuning of a recipe's folder in a worker."""
    phases = 2 if isinstance(step, Adapt) and step.plan.then_task.on else 1
    machine = Machine(workers=1, cache=cache, progress=_Trainings(phases), verify=verify)
    return run_step(step, RecipeFolder(recipe), machine)
