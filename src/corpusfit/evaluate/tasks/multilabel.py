"""Multi-label classification: any number of labels of a text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import InputError
from corpusfit.evaluate.contract import TaskType, in_order
from corpusfit.evaluate.metrics import from_counts, tallies
from corpusfit.evaluate.task import Examples, Task

if TYPE_CHECKING:
    import torch


class Multilabel(TaskType):
    """Any number of labels of a text, each with a binary cross-entropy and the threshold 1/2.

    Labels are stored and answered as one 0 or 1 for each label of the task. Metrics are those of
    scikit-learn for indicator matrices: accuracy asks for the exact set, and macro averages are
    over all labels of the task, with 0 for one that neither occurs nor is predicted.

    Reference: Tsoumakas and Katakis (2007), Multi-Label Classification: An Overview.
    """

    wants = "a list of labels, also as a JSON string"
    default_metric = "micro_f1"

    def claims(self, labels: Sequence[object]) -> bool:
        """Whether all are lists."""
        return all(isinstance(value, list) for value in labels)

    def parse(self, value: object) -> list[str] | None:
        """The labels of a list, of its JSON text, or a single one; a list may be empty."""
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except json.JSONDecodeError:
                return None
        parsed = list(map(super().parse, value if isinstance(value, list) else [value]))
        if any(labels is None for labels in parsed):
            return None
        return list(dict.fromkeys(label for labels in parsed if labels for label in labels))

    def learned(self, labels: set[str], examples: int) -> list[str]:
        """The labels of train."""
        if not labels:
            raise InputError(
                f"<.task> must have labels in train; the lists of all {examples:,} examples are "
                "empty. Check <task.label_field>."
            )
        return in_order(labels)

    def numbers(self, own: Sequence[str], number: Mapping[str, int]) -> list[float]:
        """For each label of the task, whether the example has it."""
        return [int(label in own) for label in number]

    def targets(self, labels: Sequence[float]) -> NDArray[np.float32]:
        """float32 [1, labels]."""
        return np.asarray([labels], np.float32)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, task: Task) -> torch.Tensor:
        """Binary cross-entropy, the mean over texts and the labels of train."""
        import torch

        own = targets[:, : logits.shape[1]]
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, own)

    def answers(self, logits: torch.Tensor, task: Task) -> NDArray[np.int32]:
        """int32 [m, labels]; labels that train lacks are never predicted."""
        found = np.zeros((len(logits), len(task.labels)), np.int32)
        found[:, : logits.shape[1]] = (logits > 0).cpu().numpy()
        return found

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Counts of texts (column 0) and of the texts with each label."""
        gold = examples.flat.reshape(len(examples), len(labels))
        counted = [np.nonzero(items) for items in (gold & answers, answers, gold)]
        return tallies((gold == answers).all(1), examples.lengths, counted, len(labels))

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        """A metric of counts."""
        return from_counts(name, summed, absent=True)
