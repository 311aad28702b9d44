"""Multi-label classification: any number of labels of a text."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import InputError, bad_setting
from corpusfit.evaluation.contract import Splits
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.metrics import from_counts, tallies
from corpusfit.evaluation.task import Examples, Task
from corpusfit.labeled.formats import Labeled
from corpusfit.text.fields import label_of

if TYPE_CHECKING:
    import torch


_ITEM = r"""'[^']*'|"[^"]*"|-?\d+\.?"""
_PRINTED = re.compile(rf"\[\s*(?:{_ITEM})(?:\s+(?:{_ITEM}))+\s*\]")  # an array of numpy, as text
# Values of a multi-hot list, and whether the example has the class.
_SWITCH = {0: False, 1: True, "0": False, "1": True, "false": False, "true": True}


class Multilabel(LearnedTaskType):
    """Any number of labels of a text, each with a binary cross-entropy and the threshold 1/2.

    Labels are stored and answered as one 0 or 1 for each label of the task. Metrics are those of
    scikit-learn for indicator matrices: accuracy asks for the exact set, and macro averages are
    over all labels of the task, with 0 for one that neither occurs nor is predicted.

    Reference: Tsoumakas and Katakis (2007), Multi-Label Classification: An Overview.
    """

    wants = "a list of labels, also as a JSON string"
    default_metric = "micro_f1"

    def claims(self, labels: Sequence[object]) -> bool:
        """Whether one value is a list, or text of one, and the others are lists or text."""
        return all(isinstance(value, list | str) for value in labels) and any(
            isinstance(_listed(value), list) for value in labels
        )

    def parse(self, value: object) -> list[Any] | None:
        """The items of a list, of its text, or a single one; a list may be empty."""
        value = _listed(value)
        if isinstance(value, str) and value.lstrip().startswith("["):
            return None  # a list that is cut off
        items = value if isinstance(value, list) else [value]
        usable = all(item in (0.0, 1.0) or super(Multilabel, self).parse(item) for item in items)
        return items if usable else None

    def prepare(self, splits: Splits, names: Sequence[str]) -> tuple[Splits, list[str]]:
        """Deduplicate the labels of each example; multi-hot lists become label names."""
        # Lists of train that are all of one length, two or more, and hold nothing but 0 and 1, or
        # false and true, are multi-hot: as class numbers, every example would have the same
        # classes.
        train = splits["train"].labels
        length = len(train[0]) if train else 0
        # one row of other values or another length means that the lists name classes
        hot = length > 1 and all(len(row) == length and _SWITCH.keys() >= {*row} for row in train)
        if hot and names and len(names) != length:
            allowed = f"{length} names, as the labels are lists of {length}"
            raise bad_setting("`task.label_names`", allowed, ",".join(names))
        places = names or list(map(str, range(length)))
        changed = {}
        for split, labeled in splits.items():
            rows = []
            for row in labeled.labels:
                if hot and (len(row) != length or not _SWITCH.keys() >= {*row}):
                    raise InputError(
                        f"`task` must have lists of {length} labels that are 0 or 1, as all of "
                        f"train are; {split} has {row[:8]}. Check `task.label_field`."
                    )
                if hot:
                    labels = [places[i] for i, value in enumerate(row) if _SWITCH[value]]
                else:
                    # a list of booleans, or with a number twice, holds no names of classes
                    numbers = [label for label in row if not isinstance(label, str)]
                    if len({*numbers}) < len(numbers) or any(
                        isinstance(n, bool | float) for n in numbers
                    ):
                        raise InputError(
                            "`task` must have lists of labels, or lists of one length that are 0 "
                            f"or 1 for every class; {split} has {row[:8]}. Check "
                            "`task.label_field`, or write the names of each example's labels."
                        )
                    labels = [_name(label, names) for label in row]
                rows.append(list(dict.fromkeys(labels)))
            changed[split] = dataclasses.replace(labeled, labels=rows)
        if hot:
            called = ", ".join(places[:8]) + (", …" if length > 8 else "")
            return changed, [f"Labels are 0 or 1 for each of {length} classes: {called}."]
        numbered = any(isinstance(label, int) for row in train for label in row)
        return changed, ["Labels are lists of the numbers of classes."] if numbered else []

    def unlearnable(self, train: Labeled) -> str:
        if train.different():
            return ""
        return (
            f"`task` must have labels in train; the lists of all {len(train):,} examples are "
            "empty. Check `task.label_field`."
        )

    def numbers(self, labels: Sequence[str], number: Mapping[str, int]) -> list[float]:
        """For each label of the task, whether the example has it."""
        return [int(label in labels) for label in number]

    def targets(self, labels: Sequence[float]) -> NDArray[np.float32]:
        return np.asarray([labels], np.float32)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, task: Task) -> torch.Tensor:
        """Binary cross-entropy, the mean over texts and the labels of train."""
        import torch

        of_train = targets[:, : logits.shape[1]]
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, of_train)

    def answers(self, logits: torch.Tensor, task: Task) -> NDArray[np.int32]:
        """int32 [m, labels]; labels that train lacks are never predicted."""
        predicted = np.zeros((len(logits), len(task.labels)), np.int32)
        predicted[:, : logits.shape[1]] = (logits > 0).cpu().numpy()
        return predicted

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.int64]:
        gold = examples.flat.reshape(len(examples), len(labels))
        counted = [np.nonzero(items) for items in (gold & answers, answers, gold)]
        return tallies((gold == answers).all(1), examples.lengths, counted, len(labels))

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        return from_counts(name, summed, absent=True)


def _name(label: str | int, names: Sequence[str]) -> str:
    if names and isinstance(label, int):
        if not 0 <= label < len(names):
            raise bad_setting("`task.label_names`", f"names up to number {label}", ",".join(names))
        return names[label]
    return label_of(label)


def _listed(value: object) -> object:
    """The list that a text is in JSON, in Python or by numpy; any other value as it is."""
    if not isinstance(value, str) or not (text := value.strip()).startswith(
        ("[", "(", "{", "set(")
    ):
        return value
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        # pandas writes an array of numpy to CSV without commas, which Python would join
        if _PRINTED.fullmatch(text):
            return [ast.literal_eval(item) for item in re.findall(_ITEM, text)]
        try:
            read = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return value
    if isinstance(read, set):
        return sorted(read, key=str)
    return list(read) if isinstance(read, list | tuple) else value
