"""Evaluation: fine-tune on a task with several seeds, measure, compare."""

from corpusfit.evaluation.api import (
    contamination,
    estimate_evaluation,
    evaluate,
    split,
)

__all__ = [
    "contamination",
    "estimate_evaluation",
    "evaluate",
    "split",
]
