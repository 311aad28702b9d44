"""Evaluation: fine-tune on a task with several seeds, measure, compare."""
