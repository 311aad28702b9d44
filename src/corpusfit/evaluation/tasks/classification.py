"""Classification: one class of a text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.evaluation.contract import Splits
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.metrics import BINARY, METRICS, tallies
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.task import Examples, Task
from corpusfit.labeled.formats import Labeled

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NO_LABEL = "-1"
_FEWEST = 5
"""Training or test texts of a class below which its score is chance."""
_NAMED = 3
"""Such classes that a warning names."""


class Classification(LearnedTaskType):
    """One class of a text, with cross-entropy; metrics are those of scikit-learn.

    Reference: TADPOLE, section 4.
    """

    forms = ("rows", "classes")
    usual = True
    metrics = (*METRICS, *BINARY)
    default_metric = "macro_f1"
    probes = "text"

    def prepare(self, splits: Splits, names: Sequence[str]) -> tuple[Splits, list[str]]:
        """Give numbered labels their names, if there are any; -1 then means no label.

        Reference: https://huggingface.co/docs/datasets/about_dataset_features (ClassLabel).
        """
        different = {label for labeled in splits.values() for label in labeled.different()}
        if not names:
            decimal = all(map(_NUMBER.fullmatch, different)) and any(
                not float(label).is_integer() for label in different
            )
            note = (
                f"The labels are {len(different):,} classes that look like decimal numbers; "
                "`task.kind=regression` reads them as numbers."
            )
            return splits, [note] if decimal else []
        named = {str(number): name for number, name in enumerate(names)}
        if unknown := different - {*named, _NO_LABEL}:
            raise bad_setting(
                "`task.label_names`",
                f"the names of labels that are numbers from 0 to {len(names) - 1}",
                ",".join(names),
                f"A label is {min(unknown)!r}: name every number, or leave out `task.label_names`.",
            )
        changed = {}
        notes = []
        for split, labeled in splits.items():
            rows = zip(labeled.pieces, labeled.labels, strict=True)
            kept = [(piece, named[label]) for piece, (label,) in rows if label != _NO_LABEL]
            if lost := len(labeled) - len(kept):
                notes.append(
                    f"{lost:,} of {len(labeled):,} rows of {split} were left out: their label is "
                    f"{_NO_LABEL}, the number of no class."
                )
            pieces = [piece for piece, _ in kept]
            labels = [[name] for _, name in kept]
            changed[split] = dataclasses.replace(labeled, pieces=pieces, labels=labels)
        return changed, notes

    def ordered(self, labels: tuple[str, ...], plan: TaskPlan) -> tuple[str, ...]:
        """Put the positive one of two labels second, as `BINARY` metrics measure the second."""
        if not plan.positive and plan.metric not in BINARY:
            return labels
        if len(labels) != 2:
            setting, got = ("metric", plan.metric) if plan.metric in BINARY else ("positive", "")
            allowed = f"a metric of all classes, as the task has {len(labels):,} labels and not two"
            if not got:
                allowed = f"left out, as the task has {len(labels):,} labels"
                got = plan.positive
            cure = f"The labels are {', '.join(labels[:8])}{', …' * (len(labels) > 8)}."
            raise bad_setting(f"`task.{setting}`", allowed, got, cure)
        if plan.positive and plan.positive not in labels:
            raise bad_setting("`task.positive`", " or ".join(labels), plan.positive)
        return labels[::-1] if plan.positive == labels[0] else labels

    def metrics_of(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """All metrics, but binary ones only for two labels."""
        return self.metrics if len(labels) == 2 else METRICS

    def unlearnable(self, train: Labeled) -> str:
        labels = train.different()
        if len(labels) > 1:
            return ""
        return (
            f"`task` must have two or more labels in train; all {len(train):,} examples have "
            f"the label {next(iter(labels))!r}. Check `task.label_field`."
        )

    def constant(self, task: Task) -> dict[str, float]:
        """Metrics of always answering the most frequent class of train; ties go to the first."""
        # a score below this one shows that nothing was learned
        answer = np.bincount(task.train.flat).argmax()
        answers = np.full(len(task.test), answer, np.int32)
        return self.measure(task.labels, task.test, answers)

    def cautions(self, task: Task, metric: str) -> list[str]:
        """Which classes have too few texts to be scored, if each counts the same."""
        if not metric.startswith("macro"):
            return []
        counts = [
            np.bincount(examples.flat, minlength=len(task.labels))
            for examples in (task.train, task.test)
        ]
        rare = np.flatnonzero(np.minimum(*counts) < _FEWEST)
        if not len(rare):
            return []
        named = ", ".join(
            f"{task.labels[i]} ({counts[0][i]:,} and {counts[1][i]:,})"
            for i in rare[:_NAMED].tolist()
        )
        others = f" and {len(rare) - _NAMED:,} others" if len(rare) > _NAMED else ""
        return [
            f"Classes with fewer than {_FEWEST} training or test texts: {named}{others}. "
            "Their share of a macro-averaged score is chance: add labeled texts, or name "
            "`metric=accuracy`, which counts each text the same."
        ]

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.int64]:
        gold = examples.flat
        owner = np.arange(len(examples))
        right = gold == answers
        counted = [(owner[right], gold[right]), (owner, answers), (owner, gold)]
        return tallies(right, examples.lengths, counted, len(labels))
