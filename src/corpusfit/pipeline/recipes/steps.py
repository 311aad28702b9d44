"""A recipe's steps as jobs: each is tried, and says what it took or why it failed.

What: adapting a model and fine-tuning one, in a worker, with the error as a result.
Why: a training that diverges costs its own cell and no other.
Trade-off: any error is taken for one of the step, a bug's too, so its traceback is kept in a file.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpusfit.engine import Job, Progress
from corpusfit.errors import CorpusfitError
from corpusfit.jobs.finetune import FineTune, FineTuning
from corpusfit.pipeline.adapting import adapt
from corpusfit.pipeline.recipes.work import Adapting, Tuning
from corpusfit.pipeline.run import Machine

__all__ = ["AdaptOne", "Heard", "Report", "TuneOne", "tried"]


@dataclass(frozen=True)
class Report:
    """What became of a step.

    Attributes:
        key: its digest, with the seed if it has one.
        error: one sentence if it failed, else nothing.
        trace: where that came from.
        seconds: that it took, of the clock.
        cpu_seconds: of the processor, of its own workers too.
        warnings: what the user should know.
    """

    key: str
    error: str
    trace: str
    seconds: float
    cpu_seconds: float
    warnings: tuple[str, ...]


class Heard(Progress):
    """Keeps warnings, and shows nothing."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Keep it, once."""
        if message not in self.warnings:
            self.warnings.append(message)


def tried(key: str, step: Callable[[], object], heard: Heard | None = None) -> Report:
    """Make a step, and report."""
    error = trace = ""
    began, used = time.perf_counter(), _used()
    try:
        step()
    except Exception as e:
        error = str(e) if isinstance(e, CorpusfitError) else f"{type(e).__name__}: {e}"
        trace = traceback.format_exc()
    warnings = tuple(heard.warnings) if heard else ()
    took = time.perf_counter() - began
    return Report(key, error, trace, round(took, 3), round(_used() - used, 3), warnings)


def _used() -> float:
    """Seconds of the processor that this process and its ended children have used."""
    return sum(os.times()[:4])


@dataclass(frozen=True)
class AdaptOne(Job[Adapting, Report]):
    """Adapt a model.

    Attributes:
        models: the folder of all adapted models.
        cache: of token ids.
    """

    models: Path
    cache: Path | str | None

    @property
    def encodes(self) -> bool:
        """A network is trained."""
        return True

    def start(self) -> Callable[[Adapting], Report]:
        """Nothing to open: each piece has a model of its own."""
        return self._done

    def _done(self, piece: Adapting) -> Report:
        heard = Heard()
        machine = Machine(workers=1, cache=self.cache, progress=heard)

        def step() -> None:
            adapt(
                piece.plan,
                piece.data,
                self.models / piece.key,
                task=piece.task,
                guard=piece.guard,
                machine=machine,
                overwrite=True,  # the folder is ours, and named by what decides it
            )

        return tried(piece.key, step, heard)


@dataclass(frozen=True)
class TuneOne(Job[Tuning, Report]):
    """Fine-tune a model with one seed."""

    companions: Path

    @property
    def encodes(self) -> bool:
        """A network is trained."""
        return True

    def start(self) -> Callable[[Tuning], Report]:
        """Open what the job of one fine-tuning opens."""
        work = FineTune().start()

        def done(piece: Tuning) -> Report:
            extra = self.companions / f"{piece.extra}.json" if piece.extra else None
            whole = FineTuning(piece.task, piece.plan, 0, piece.seed, extra, piece.out)
            return tried(f"{piece.key}-{piece.seed}", lambda: work(whole))

        return done
