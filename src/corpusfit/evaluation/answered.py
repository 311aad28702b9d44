"""The contract of kinds of tasks that a model answers as it is, without learning."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from corpusfit.embed.folders import ModelSetting
from corpusfit.embed.hardware import Hardware, resolve
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.plan import EvaluatePlan, TaskPlan
from corpusfit.evaluation.task import Examples, Task
from corpusfit.evaluation.tasks import load

# A model that answers n examples: their answers, and the number of truncated examples; it calls the
# second argument with the number of examples answered since the last call, possibly fractional.
Answering = Callable[[Examples, Callable[[float], None]], tuple[list[Any], int]]
# A task's name, texts with labels by split, names of labels, and notes for the user.
Read = tuple[str, Mapping[str, Sequence[tuple[str, Any]]], tuple[str, ...], Sequence[str]]


class AnsweredTaskType(TaskType):
    """A kind of task that a model answers as it is: nothing is learned."""

    group: ClassVar[str] = ""
    """The plan's group by which a model answers, beside `settings`; may be none."""
    answered: ClassVar[tuple[str, ...]] = ("dev", "test")
    """The splits that a model answers."""
    doing: ClassVar[str] = "answer"
    """What a model does, for the progress of a command."""
    truncation: ClassVar[str] = ""
    """What happens to texts that are too long, for a warning."""

    def read(self, location: str, plan: TaskPlan) -> Read | None:
        """Read a task that is in none of `forms`; None if its forms are read.

        Only `task.kind` names such a kind, as no format shows it.

        Raises:
            InputError: its texts cannot be read.
            UsageError: the location or a setting does not fit.
        """
        del location, plan
        return None

    @abstractmethod
    def open_model(
        self, task: Task, plan: EvaluatePlan, hardware: Hardware, setting: ModelSetting
    ) -> Answering:
        """Open a model that answers.

        Args:
            task: the task, with its training examples.
            plan: the model, and the settings of `group` and `settings`.
            hardware: device and precision.
            setting: how errors name the setting of the model.

        Raises:
            UsageError: the model is neither a folder nor a hub id, or a setting does not fit.
            ModelError: the model cannot be loaded, or cannot answer.
        """

    def hardware(self, plan: EvaluatePlan) -> Hardware:
        """Device and precision of a model that answers."""
        precision = getattr(plan, self.group or "finetune").precision
        hardware = resolve(dataclasses.replace(plan.finetune, precision=precision), "finetune")
        if precision == "auto" and hardware.device == "cpu":
            return hardware._replace(precision="fp32")  # fewer answers tie
        return hardware


def load_answered(kind: str) -> AnsweredTaskType:
    """The type of a kind of task that a model answers as it is."""
    task_type = load(kind)
    if not isinstance(task_type, AnsweredTaskType):
        raise TypeError(f"{kind} is learned")
    return task_type
