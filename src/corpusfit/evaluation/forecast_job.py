"""The job that counts the n-grams of one part of a selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpusfit.core.engine import Job
from corpusfit.core.types import text_array
from corpusfit.evaluation.forecast import Counts, TaskNgrams, layers
from corpusfit.selection.fit import Sample
from corpusfit.training.tokenising import read_selected


@dataclass(frozen=True)
class CountSelected(Job[Path, Counts]):
    """Count a `part-*.jsonl.zst`.

    Attributes:
        target: the task's texts.
        field: field with a segment's text.
        weighted: count segments by their weights, for a selection of all segments.
    """

    target: Sample
    field: str
    weighted: bool

    def start(self) -> Callable[[Path], Counts]:
        """Count the task's n-grams; the work raises `InputError` for a damaged part."""
        known = TaskNgrams.of(self.target.batch("text"))

        def work(path: Path) -> Counts:
            name = f"{path.parent.name}/{path.name}"
            _, texts, weights = read_selected(path, name, self.field, "weight")
            batch = text_array(texts)
            counted = layers(batch, weights.astype(np.float64) if self.weighted else None)
            return Counts(len(texts), counted, known.seen_in(batch))

        return work
