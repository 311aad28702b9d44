"""What every kind of task keeps to, as a check that any package runs on its own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from corpusfit.core.errors import require_promise
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import load_task, store_task, task_digest


def check_task_type(name: str, task: str | Path) -> None:
    """Check a kind of task on one of its tasks, answered at random.

    A task has to be read again as it was stored, a loss to have a gradient, and scores to follow
    from sums over examples, in any order and for several samples at once.

    Args:
        name: the kind's name, as in `task.kind`.
        task: a task that a model is fine-tuned on, as for `evaluate`.

    Raises:
        AssertionError: the kind breaks a promise, which the message names.
    """
    import torch

    kind = load_learned(name)
    require_promise(
        kind.default_metric in kind.metrics, "its default metric is none of its metrics"
    )
    read = read_task(str(task), TaskPlan(kind=name), seed=0)
    with TemporaryDirectory() as folder:
        stored = Path(folder) / "task.json"
        store_task(read, stored)
        same = task_digest(load_task(stored)) == task_digest(read)
    require_promise(same, "a stored task is another one")

    pieces = sum(map(len, read.test.pieces))
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(pieces, read.learnable, generator=random, requires_grad=True)
    gold = np.concatenate([kind.targets(labels) for labels in read.test.labels])
    kind.loss(logits, torch.as_tensor(gold), read).backward()  # type: ignore[no-untyped-call]
    fine = logits.grad is not None and bool(logits.grad.isfinite().all() & logits.grad.any())
    require_promise(fine, "its loss has no gradient")

    answers = kind.answers(logits.detach(), read)
    require_promise(len(answers) == pieces, "it answers other pieces than those of the examples")
    counts = kind.tally(read.labels, read.test, answers)
    require_promise(
        counts.shape[:2] == (len(read.test), 3), "`tally` is not of three sums an example"
    )
    order = np.random.default_rng(0).permutation(len(counts))
    measured = kind.measure(read.labels, read.test, answers)
    require_promise(kind.default_metric in measured, "its default metric is not measured")
    for metric, score in measured.items():
        again = float(kind.score(metric, counts[order].sum(0)))
        require_promise(abs(again - score) < 1e-12, f"`{metric}` depends on the order of examples")
        both = kind.score(metric, np.stack([counts.sum(0), counts[:9].sum(0)]))
        require_promise(
            both.shape == (2,) and both[0] == score, f"`{metric}` is not of several samples"
        )
