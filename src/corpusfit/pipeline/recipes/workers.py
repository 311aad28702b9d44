"""A recipe's steps as jobs: each is tried, and says what it took or why it failed.

What: adapting a model and fine-tuning one, in a worker, with the error as a result.
Why: a training that diverges costs its own cell and no other.
Trade-off: any error but a full disk or a dead process is taken for one of the step, a bug's too, so
its traceback is kept in a file. A process that is killed between a step's end and its record leaves
a step without one; tables say how many there are.
"""

from __future__ import annotations

import errno
import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.artifacts import remove, write_bytes
from corpusfit.engine import Job, Progress
from corpusfit.errors import ChangedInputError, CorpusfitError, StorageError, WorkerError
from corpusfit.evaluate.outcome import Outcome
from corpusfit.jobs.finetune import FineTune, FineTuning
from corpusfit.manifest import versions
from corpusfit.pipeline.adapting import adapt
from corpusfit.pipeline.recipes.nodes import AdaptNode, TuneNode
from corpusfit.pipeline.run import Machine


@dataclass(frozen=True)
class Report:
    """What became of a step.

    Attributes:
        key: its digest, with the seed if it has one.
        error: one sentence if it failed, else nothing.
        trace: where that came from.
        warnings: what the user should know.
    """

    key: str
    error: str
    trace: str
    warnings: tuple[str, ...]


class WarningCollector(Progress):
    """Keeps warnings, and shows nothing."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Keep it, once."""
        if message not in self.warnings:
            self.warnings.append(message)


def run_step(
    key: str, step: Callable[[], dict[str, Any]], costs: Path, heard: WarningCollector | None = None
) -> Report:
    """Make a step, write what it took, and report.

    Args:
        key: its digest, with the seed if it has one.
        step: makes it; returns what else the record shall say.
        costs: folder of records; whoever made the step writes its own, at once.
        heard: what was told to it.

    Raises:
        StorageError: the disk is full: that is not the step's fault.
        WorkerError: a process died; nor is that.
    """
    error = trace = ""
    began, used = time.perf_counter(), _used()
    try:
        more = step()
        record = {"seconds": round(time.perf_counter() - began, 3), "cpu_seconds": _since(used)}
        write_bytes(
            costs / f"{key}.json", json.dumps({**record, **more, "versions": versions()}).encode()
        )
    except (StorageError, WorkerError):
        raise
    except Exception as e:
        if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(f"{costs.parent}: {e.strerror}. Make room; then go on.") from e
        error = str(e) if isinstance(e, CorpusfitError) else f"{type(e).__name__}: {e}"
        trace = traceback.format_exc()
    warnings = tuple(heard.warnings) if heard else ()
    return Report(key, error, trace, warnings)


def _used() -> float:
    """Seconds of the processor that this process and its ended children have used."""
    return sum(os.times()[:4])


def _since(used: float) -> float:
    return round(_used() - used, 3)


@dataclass(frozen=True)
class AdaptJob(Job[AdaptNode, Report]):
    """Adapt a model.

    Attributes:
        models: the folder of all adapted models.
        costs: that of records.
        cache: of token ids.
    """

    models: Path
    costs: Path
    cache: Path | str | None

    @property
    def encodes(self) -> bool:
        """A network is trained."""
        return True

    def start(self) -> Callable[[AdaptNode], Report]:
        """Nothing to open: each piece has a model of its own."""
        return self._done

    def _done(self, piece: AdaptNode) -> Report:
        heard, out = WarningCollector(), self.models / piece.key
        machine = Machine(workers=1, cache=self.cache, progress=heard)

        def once() -> dict[str, Any]:
            found = adapt(
                piece.plan,
                piece.data,
                out,
                task=piece.task,
                guard=piece.guard,
                machine=machine,
                overwrite=True,  # the folder is ours, and named by what decides it
            ).manifest
            return {"device": found["device"], "precision": found["precision"]}

        def step() -> dict[str, Any]:
            try:
                return once()
            except ChangedInputError as e:  # half of it was made elsewhere, or otherwise
                heard.warn(f"Begun again: {e}")
                remove(out)
                return once()

        return run_step(piece.key, step, self.costs, heard)


@dataclass(frozen=True)
class TuneJob(Job[TuneNode, Report]):
    """Fine-tune a model with one seed.

    Attributes:
        companions: the folder of all companions.
        costs: that of records.
    """

    companions: Path
    costs: Path

    @property
    def encodes(self) -> bool:
        """A network is trained."""
        return True

    def start(self) -> Callable[[TuneNode], Report]:
        """Open what the job of one fine-tuning opens."""
        work = FineTune().start()

        def done(piece: TuneNode) -> Report:
            extra = self.companions / f"{piece.extra}.json" if piece.extra else None
            whole = FineTuning(piece.task, piece.plan, 0, piece.seed, extra, piece.out)

            def step() -> dict[str, Any]:
                tune = Outcome.read(work(whole)).tune
                return {"device": tune["device"], "precision": tune["precision"]}

            return run_step(piece.name, step, self.costs)

        return done
