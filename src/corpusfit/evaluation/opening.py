"""Opens a model as an evaluation will, so that what it lacks is known before the work."""

from __future__ import annotations

from collections.abc import Iterable

from corpusfit.core.errors import CorpusfitError
from corpusfit.embed.hardware import resolve
from corpusfit.evaluation.answering import answering_hardware
from corpusfit.evaluation.frozen import open_encoder
from corpusfit.evaluation.network import open_with_head
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Task


def require_models(
    task: Task, plans: Iterable[EvaluatePlan], setting: str = "`model.name`"
) -> None:
    """Open the models of some plans one after another, on the CPU, and let go of each.

    Takes seconds for each model; a model with a fault would be found only when its turn comes,
    after the fine-tunings of the others.
    """
    task_type = load(task.kind)
    for asked in {plan.model: plan for plan in plans}.values():
        plan = asked.with_value("finetune.device", "cpu")
        try:
            if not task_type.learns:
                hardware = answering_hardware(plan, task.kind)
                task_type.open_model(task, plan, plan.seed, hardware)
            elif plan.model.frozen:
                open_encoder(plan)
            else:
                hardware = resolve(plan.finetune, "finetune")
                open_with_head(plan.model, task.kind, task.learnable, hardware, plan.seed)
        except CorpusfitError as e:
            e.args = (e.args[0].replace("`model.name`", setting), *e.args[1:])
            raise
