"""What an evaluation is: the task, the models of each side, the seeds and sizes, all decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import versions
from corpusfit.embed.folders import require_extra
from corpusfit.embed.hardware import Hardware
from corpusfit.embed.hardware import resolve as resolve_hardware
from corpusfit.evaluation.answered import AnsweredTaskType
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.network import Side
from corpusfit.evaluation.plan import EvaluatePlan, metric_of
from corpusfit.evaluation.probing import WHOLE
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import Task, task_digest
from corpusfit.evaluation.tasks import load

OURS = "model"
BASE = "base"


@dataclass(frozen=True)
class Request:
    """What `evaluate` is asked for."""

    plan: EvaluatePlan
    task: str  # a folder, a file or `hub:NAME`
    base: str = ""  # the model to compare with; empty for none
    seeds: int = 8
    train_sizes: Sequence[int] = ()  # numbers of training examples; empty for all


@dataclass(frozen=True, eq=False)
class Resolved:
    """An evaluation in which nothing is open."""

    plan: EvaluatePlan
    task: Task
    type: TaskType
    metric: str  # the metric to compare by
    hardware: Hardware
    sides: Mapping[str, Side]  # by `OURS` and `BASE`
    sizes: Sequence[int]  # numbers of training examples, increasing; 0 for all
    seeds: int

    @property
    def learned(self) -> bool:
        """Whether models learn from train, and do not answer as they are."""
        return isinstance(self.type, LearnedTaskType)

    def identity(self) -> dict[str, Any]:
        """What must be equal to compare outcomes; models are in the outcomes' file names."""
        settings = self.plan.as_dict()
        del settings["model"]["name"]
        if self.plan.model.frozen:
            settings["model"]["frozen"] = "probe 3"  # raised where a probe's scores change
        settings["task"]["options"] = dataclasses.asdict(self.plan.task.own)
        if not isinstance(self.type, AnsweredTaskType) or self.type.group != "likelihood":
            del settings["likelihood"]
        hardware = {"device": self.hardware.kind, "precision": self.hardware.precision}
        settings["finetune"] |= hardware
        installed = versions()
        # another minor version of a library may change the last bits, not the meaning
        libraries = {
            n: installed[n].split(".")[0] for n in ("torch", "transformers") if n in installed
        }
        return {
            "command": "evaluate",
            **settings,
            "task": {self.task.name: task_digest(self.task)},
            "versions": {"corpusfit": installed["corpusfit"], **libraries},
        }


def resolve(request: Request, *, with_base: bool = True) -> Resolved:
    """Read the task, find the models, and check that the settings suit both."""
    plan = request.plan.check()
    require_extra("Evaluating a model", "models")
    if request.seeds < 1:
        raise bad_setting("`seeds`", "1 or more", request.seeds)
    task = read_task(request.task, plan.task, seed=plan.seed)
    task_type = load(task.kind)
    task_type.signatures(task.labels)  # fail early if the metrics' library is missing
    _require_suited(request, task, task_type)
    seeds = request.seeds
    names = (plan.model.name, request.base)
    if isinstance(task_type, AnsweredTaskType):
        hardware = task_type.hardware(plan)
        # one seed is enough where nothing is random
        if not any("{seed}" in name for name in names):
            seeds = 1
    else:
        hardware = resolve_hardware(plan.finetune, "finetune")
    sides = {OURS: Side.of(plan, task.kind, "", seeds)}
    if request.base and with_base:
        sides[BASE] = Side.of(plan, task.kind, request.base, seeds)
    return Resolved(
        plan,
        task,
        task_type,
        metric_of(plan.task, task.kind),
        hardware,
        sides,
        sorted(set(request.train_sizes)) or [0],
        seeds,
    )


def _require_suited(request: Request, task: Task, task_type: TaskType) -> None:
    """Raise `UsageError` for settings that do not suit a task of this kind and size."""
    model = request.plan.model
    if isinstance(task_type, AnsweredTaskType):
        for name, value in (
            ("`train_sizes`", ",".join(map(str, request.train_sizes))),
            ("`model.adapter`", model.adapter),
            ("`model.frozen`", model.frozen),
        ):
            if value:
                allowed = f"left out for {task.kind}, for which no model is trained"
                raise bad_setting(name, allowed, value)
    elif isinstance(task_type, LearnedTaskType) and model.frozen and not task_type.probes:
        cure = "Its answers are not classes of texts or words."
        raise bad_setting("`model.frozen`", f"left out for {task.kind}", True, cure)
    n = len(task.train)
    for size in request.train_sizes:
        if not 1 <= size <= n:
            allowed = f"1 to {n:,}, the number of training examples"
            raise bad_setting("`train_sizes`", allowed, size)


def stored_seed(task_type: TaskType, seed: int, seeds: int, *, frozen: bool) -> int:
    """The seed that an outcome is stored by: one stands for all where nothing is random.

    Several probes of a frozen model learn from bootstrap samples of the training examples, a
    single one from all of them.
    """
    if isinstance(task_type, AnsweredTaskType):
        return 0
    return WHOLE if frozen and seeds == 1 else seed
