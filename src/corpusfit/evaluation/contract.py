"""What every kind of task has: formats, labels, sums over examples, metrics."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import NoSettings
from corpusfit.evaluation.metrics import METRICS, from_counts
from corpusfit.evaluation.points import POINTS
from corpusfit.evaluation.task import Examples, Outcome, Task
from corpusfit.labeled.formats import Labeled
from corpusfit.text.fields import label_of

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# The examples of `train`, `dev` and `test`, or of those that a task has.
Splits = dict[str, Labeled]


class TaskType(ABC):
    """A kind of task; stateless. Each is a `LearnedTaskType` or an `AnsweredTaskType`.

    To add a kind, add one file to `evaluation/tasks/`, named like the kind, with one class of it.
    The command line, recipes, reports and contract tests find it there, and in other packages by
    entry points of the group `corpusfit.tasks`.

    An example has pieces (one text, or the words of a sentence), each with a label and an answer;
    an answer is a number, or an array for each piece.
    """

    forms: ClassVar[tuple[str, ...]] = ("rows",)
    """The formats that it reads (of `labeled.splits.FORMS`)."""
    conversations: ClassVar[bool] = False
    """Whether `task.loss_on` decides which part of a conversation it measures."""
    usual: ClassVar[bool] = False
    """Whether `task.kind = "auto"` is this kind where no kind claims the labels."""
    wants: ClassVar[str] = "a string, a whole number or a boolean"
    """What `parse` accepts, in words."""
    metrics: ClassVar[tuple[str, ...]] = METRICS
    """Metrics, all stored; of every metric higher is better, so an error is negated."""
    unit: ClassVar[str] = POINTS
    """What a score is shown in: points (hundredths), or the unit of a negated error."""
    default_metric: ClassVar[str]
    """The default of `--metric`."""
    settings: ClassVar[type] = NoSettings
    """Its own settings, `task.NAME`: a frozen dataclass; fields with limits by `setting`."""
    also_shown: ClassVar[tuple[str, ...]] = ()
    """Metrics that the tables of recipes show beside the one that is compared."""

    def unit_of(self, metric: str) -> str:
        """What a metric's score is shown in: `unit`, unless a kind has metrics of several."""
        return self.unit

    def __init__(self, kind: str) -> None:
        self.kind = kind  # its name

    def claims(self, labels: Sequence[object]) -> bool:
        """Whether these values of a label field, none missing, can only be of this kind."""
        return False

    def parse(self, value: object) -> list[Any] | None:
        """Parse an example's label field; None without a usable label.

        Args:
            value: as the format has it: a string, a number, a boolean, a list, or None.
        """
        fraction = isinstance(value, float) and value % 1
        label = "" if fraction else label_of(value)
        return [label] if label else None

    def prepare(self, splits: Splits, names: Sequence[str]) -> tuple[Splits, list[str]]:
        """The splits with labels in one form, and notes for the user on what was converted.

        Args:
            splits: the splits, with labels as `parse` or a format gives them.
            names: names for label numbers, from 0, by the plan or the data set; may be empty.

        Raises:
            InputError: the labels have several forms.
            UsageError: the names do not fit.
        """
        return splits, []

    def cautions(self, task: Task, metric: str) -> list[str]:
        """Why a score of a task by a metric may say little, in sentences for the user."""
        return []

    def metrics_of(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The metrics that are defined for these labels."""
        return self.metrics

    def numbers(self, labels: Sequence[Any], number: Mapping[str, int]) -> list[float]:
        """Encode an example's labels for storage: as label numbers, or as values.

        Args:
            labels: labels of the example, from `parse` or a format.
            number: the number of every label.
        """
        return [number[label] for label in labels]

    @abstractmethod
    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[Any]:
        """Sums of each example, from which all metrics follow.

        Resampling draws and swaps whole examples, so their sums are the units of significance.

        Args:
            labels: names of the labels.
            examples: n examples.
            answers: [pieces, …], examples end to end.

        Returns:
            int64 or float64 [n, 3, k]: of gold and answer together, of the answer alone, and of
            gold alone.
        """

    def sums_of(self, task: Task, outcome: Outcome) -> NDArray[Any]:
        """The sums of each test example (`tally`) of an outcome."""
        if "test" in outcome.sums:
            return np.asarray(outcome.sums["test"])
        return self.tally(task.labels, task.test, np.asarray(outcome.predicted["test"]))

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        """A metric of sums of tallies, numbers [..., 3, k]; returns float64 [...]."""
        return from_counts(name, summed)

    def measure(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> dict[str, float]:
        """Every metric by name; arguments and errors are those of `tally`."""
        summed = self.tally(labels, examples, answers).sum(0)
        return {name: float(self.score(name, summed)) for name in self.metrics_of(labels)}

    def constant(self, task: Task) -> dict[str, float]:
        """Test metrics of a constant answer, as a baseline; empty where that is meaningless."""
        return {}

    def signatures(self, labels: tuple[str, ...]) -> dict[str, str]:
        """Signature of each metric, such as sacreBLEU's; empty for most kinds."""
        return {}


def in_order(labels: Collection[str]) -> list[str]:
    """Sorted by value if all labels are numbers, otherwise as strings."""
    if all(map(_NUMBER.fullmatch, labels)):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)
