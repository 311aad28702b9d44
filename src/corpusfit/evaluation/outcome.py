"""The result of one evaluation of a model: scores, and the prediction for every example."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Task


@dataclass(frozen=True)
class Outcome:
    """One fine-tuning of a model, or its answers as it is.

    Paired tests need the predictions, not only their score.

    Attributes:
        size: number of training examples, without augmentation; 0 where nothing is learned.
        seed: random seed of the head, the order and dropout.
        scores: every metric by split (`dev`, `test`) and name, higher is better.
        predicted: answer to every piece, end to end, by split (`dev`, `test`): a label number, a 0
            or 1 for each label (multilabel), a number (regression), a text (translation), or the
            bits of a document (language modelling).
        history: one record per epoch: `epoch`, `loss` (mean, nats) and `dev` (the metric).
        best: epoch of the evaluated weights.
        tune: resolved settings, device and precision, and whether an adapter was trained.
        truncated: number of truncated examples by split.
        seconds: wall-clock time.
        cpu_seconds: processor time.
        examples_per_second: training speed, or that of the answers where nothing is learned.
        sums: sums of each example of a split, where they take long to count (`TaskType.tally`).
    """

    size: int
    seed: int
    scores: dict[str, dict[str, float]]
    predicted: dict[str, list[Any]]
    history: list[dict[str, Any]]
    best: int
    tune: dict[str, Any]
    truncated: dict[str, int]
    seconds: float
    cpu_seconds: float
    examples_per_second: float
    sums: dict[str, list[Any]] = field(default_factory=dict)

    def tallies(self, task: Task) -> NDArray[Any]:
        """Sums of each test example (`TaskType.tally`)."""
        if "test" in self.sums:
            return np.asarray(self.sums["test"])
        answers = np.asarray(self.predicted["test"])
        return load(task.kind).tally(task.labels, task.test, answers)

    @property
    def one_answer(self) -> bool:
        """Whether every piece of test has the same label: nothing was learned, or understood."""
        labels = self.predicted["test"]
        return len({label for label in labels if isinstance(label, int)}) == 1

    def write(self, path: Path) -> None:
        """Write to a JSON file, atomically; raises `StorageError` if it cannot be written."""
        write_bytes(path, json.dumps(dataclasses.asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Read a file written by `write`."""
        return cls(**json.loads(path.read_text("utf-8")))
