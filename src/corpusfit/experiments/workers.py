"""A recipe's steps as jobs for workers; an error becomes part of the step's report."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.engine import Job, PlainJob, WarningCollector, report
from corpusfit.core.errors import (
    ChangedInputError,
    CorpusfitError,
    StorageError,
    WorkerError,
    machine_fault,
)
from corpusfit.core.manifest import commit, versions
from corpusfit.evaluation.finetune import FineTune, FineTuning
from corpusfit.evaluation.task import Outcome
from corpusfit.experiments.nodes import AdaptNode, TuneNode
from corpusfit.text.context import Machine
from corpusfit.training.adapting import adapt


@dataclass(frozen=True)
class Report:
    """The outcome of a step.

    Attributes:
        key: its digest, with the seed if it has one.
        error: one sentence if it failed, else empty.
        trace: traceback of the error.
        warnings: messages for the user.
    """

    key: str
    error: str
    trace: str
    warnings: tuple[str, ...]


def run_step(
    key: str,
    step: Callable[[], dict[str, Any]],
    costs: Path,
    collector: WarningCollector | None = None,
) -> Report:
    """Run a step, write the record of its cost, and report.

    Any error but a full disk or a dead process counts as the step's failure, even a bug, so its
    traceback is kept. A process that is killed between the end of a step and its record leaves a
    step without one; the tables count those.
    """
    error = trace = ""
    began, cpu_before = time.perf_counter(), _cpu_seconds()
    try:
        more = step()
        record = {
            "seconds": round(time.perf_counter() - began, 3),
            "cpu_seconds": round(_cpu_seconds() - cpu_before, 3),
            **more,
            "versions": versions(),
            "commit": commit(),
        }
        write_bytes(costs / f"{key}.json", json.dumps(record).encode())
    except (StorageError, WorkerError):
        raise
    except Exception as e:
        if isinstance(e, OSError) and (fault := machine_fault(e)):
            raise fault from e
        error = str(e) if isinstance(e, CorpusfitError) else f"{type(e).__name__}: {e}"
        trace = traceback.format_exc()
    warnings = tuple(collector.warnings) if collector else ()
    return Report(key, error, trace, warnings)


def _cpu_seconds() -> float:
    """Processor seconds of this process and its finished children."""
    return sum(os.times()[:4])


class _Steps(WarningCollector):
    """Keeps warnings, and reports the share of the steps of a number of trainings."""

    def __init__(self, trainings: int) -> None:
        super().__init__()
        self._trainings, self._before, self._done, self._total = trainings, -1, 0.0, 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Count a training."""
        self._done, self._total = 0.0, total if stage == "adapt" else 0.0
        self._before += stage == "adapt"
        if self._total and not self._before:
            report(0.0)

    def advance(self, done: float, units: int = 0) -> None:
        """Report the steps of a training."""
        if self._total:
            self._done += done
            report((self._before + self._done / self._total) / self._trainings)

    skip = advance


@dataclass(frozen=True)
class AdaptJob(PlainJob[AdaptNode, Report]):
    """Adapt a model.

    Attributes:
        models: folder of all adapted models.
    """

    models: Path
    costs: Path
    cache: Path | str | None

    encodes = True  # it trains a network

    def _work(self, piece: AdaptNode) -> Report:
        out = self.models / piece.key
        collector = _Steps(2 if piece.plan.then_task.on else 1)
        machine = Machine(workers=1, cache=self.cache, progress=collector)

        def run_once() -> dict[str, Any]:
            found = adapt(
                piece.plan,
                piece.data,
                out,
                task=piece.task,
                guard=piece.guard,
                machine=machine,
                overwrite=True,  # its name is the digest of everything that decides it
            ).manifest
            facts = {name: found[name] for name in ("training", "tokens", "rows", "losses")}
            return {
                "device": found["device"],
                "precision": found["precision"],
                "adapted": {**facts, "guard": found["counts"].get("guard")},
            }

        def step() -> dict[str, Any]:
            try:
                return run_once()
            except ChangedInputError as e:  # it began on another device or with other settings
                collector.warn(f"Started over: {e.args[0]}")
                remove(out)
                return run_once()

        return run_step(piece.key, step, self.costs, collector)


@dataclass(frozen=True)
class TuneJob(Job[TuneNode, Report]):
    """Fine-tune a model with one seed.

    Attributes:
        augmentations: folder of all augmentations.
    """

    augmentations: Path
    costs: Path

    encodes = True  # it trains a network

    def start(self) -> Callable[[TuneNode], Report]:
        """Open what the job of one fine-tuning opens."""
        work = FineTune().start()

        def done(piece: TuneNode) -> Report:
            extra = self.augmentations / f"{piece.extra}.json" if piece.extra else None
            whole = FineTuning(piece.task, piece.plan, 0, piece.seed, extra, piece.out)

            def step() -> dict[str, Any]:
                tune = Outcome.read(work(whole)).tune
                return {"device": tune["device"], "precision": tune["precision"]}

            return run_step(piece.name, step, self.costs)

        return done
