"""The job that fine-tunes a model on a task with one random seed, or uses it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.engine import PlainJob, report
from corpusfit.evaluation.answering import answer_task
from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.frozen import classify_frozen
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import load_examples, load_task


@dataclass(frozen=True)
class FineTuning:
    """One fine-tuning to run.

    Attributes:
        task: file of the task, as `store_task` wrote it.
        plan: the model and the settings.
        size: number of training examples; 0 for all.
        seed: random seed of the fine-tuning; the plan's seed draws the examples.
        extra: file of augmented examples, as `store_examples` wrote them.
        out: file of the outcome.
    """

    task: Path
    plan: EvaluatePlan
    size: int
    seed: int
    extra: Path | None
    out: Path


@dataclass(frozen=True)
class FineTune(PlainJob[FineTuning, Path]):
    """Fine-tune a model, or let it answer as it is; returns the file of the outcome."""

    encodes = True  # a network is trained

    def _work(self, piece: FineTuning) -> Path:
        task = load_task(piece.task)
        if not load(task.kind).learns:
            answer_task(task, piece.plan, piece.seed, on_share=report).write(piece.out)
            return piece.out
        if piece.size:
            task = task.first(piece.size, piece.plan.seed)
        extra = None if piece.extra is None else load_examples(piece.extra)
        learn = classify_frozen if piece.plan.model.frozen else finetune
        learn(task, piece.plan, piece.seed, extra, on_share=report).write(piece.out)
        return piece.out
