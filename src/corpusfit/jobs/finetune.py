"""The job that fine-tunes a model on a task with one seed.

What: reads the stored task, fine-tunes, writes the outcome.
Why: seeds do not depend on each other, so several go on at once, one compute thread each.
Trade-off: each loads its model afresh, which is little beside a training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpusfit.engine import Job
from corpusfit.evaluate.finetune import finetune
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.evaluate.task import load_examples, load_task


@dataclass(frozen=True)
class FineTuning:
    """One fine-tuning to be done.

    Attributes:
        task: as `store_task` wrote it.
        plan: how, and of which model.
        size: training examples; 0 takes all.
        seed: of the fine-tuning; which examples a smaller size takes goes by the plan's.
        extra: companions of those examples, as `store_examples` wrote them.
        out: where the outcome goes.
    """

    task: Path
    plan: EvaluatePlan
    size: int
    seed: int
    extra: Path | None
    out: Path


@dataclass(frozen=True)
class FineTune(Job[FineTuning, Path]):
    """Fine-tune a model; returns where the outcome is."""

    @property
    def encodes(self) -> bool:
        """A network is trained."""
        return True

    def start(self) -> Callable[[FineTuning], Path]:
        """Nothing to open: each piece has a model of its own."""
        return _done


def _done(piece: FineTuning) -> Path:
    task = load_task(piece.task)
    if piece.size:
        task = task.first(piece.size, piece.plan.seed)
    extra = None if piece.extra is None else load_examples(piece.extra)
    finetune(task, piece.plan, piece.seed, extra).write(piece.out)
    return piece.out
