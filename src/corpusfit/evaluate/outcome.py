"""What one fine-tuning gave: its scores, and what it said of every example.

What: the record that a worker writes and tables are made of.
Why: a paired test needs the answers themselves, not their mean.
Trade-off: JSON, with the predicted labels as lists; a few bytes for each piece of text.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import write_bytes
from corpusfit.evaluate.metrics import tallies
from corpusfit.evaluate.task import Task


@dataclass(frozen=True)
class Outcome:
    """One fine-tuning of a model.

    Attributes:
        size: training examples, companions from augmentation not counted.
        seed: of the head, the order and dropout.
        scores: every metric by split (`dev`, `test`) and name, each in [0, 1].
        predicted: the predicted label of every piece, end to end, by split (`dev`, `test`).
        history: a record for each epoch: `epoch`, `loss` (mean, nats) and `dev` (the metric).
        best: the epoch whose weights were judged.
        tune: the settled settings, where and in what precision it was, and whether an adapter was
            trained and not the model.
        truncated: examples that were cut off, by split.
        seconds: time that it took, of the clock.
        cpu_seconds: time that it took, of the processor.
        examples_per_second: while training.
    """

    size: int
    seed: int
    scores: dict[str, dict[str, float]]
    predicted: dict[str, list[int]]
    history: list[dict[str, Any]]
    best: int
    tune: dict[str, Any]
    truncated: dict[str, int]
    seconds: float
    cpu_seconds: float
    examples_per_second: float

    def tallies(self, task: Task) -> NDArray[np.int64]:
        """What each test example adds to the metrics, as `metrics.tallies` gives it."""
        answers = np.asarray(self.predicted["test"], np.int32)
        return tallies(task.kind, task.labels, task.test.flat, answers, task.test.lengths)

    def write(self, path: Path) -> None:
        """Write it whole; raises `StorageError` if it cannot be written."""
        write_bytes(path, json.dumps(dataclasses.asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text("utf-8")))
