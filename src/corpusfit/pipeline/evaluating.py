"""The command `evaluate`: fine-tune models on a task with several seeds, and say what it shows.

What: reads the task, fine-tunes what is not done yet, and makes tables of what came out.
Why: a mean without a deviation is no result, and two means without a test are no comparison.
Trade-off: every answer of every seed is kept, so that more seeds, or another look, cost nothing
again; the same folder takes more seeds and sizes later.
Reference: TADPOLE, section 4 and Table 3; mDAPT, section 4.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.hardware import resolve
from corpusfit.errors import bad_setting
from corpusfit.evaluate.augment import augmented
from corpusfit.evaluate.metrics import tallies
from corpusfit.evaluate.network import head_fingerprint
from corpusfit.evaluate.outcome import Outcome
from corpusfit.evaluate.overlaps import overlaps
from corpusfit.evaluate.plan import EvaluatePlan, metric_of
from corpusfit.evaluate.reading import read_task
from corpusfit.evaluate.significance import Comparison, compare, holm, interval, spread, verdict
from corpusfit.evaluate.task import Task, store_examples, store_task, task_digest
from corpusfit.jobs.finetune import FineTune, FineTuning
from corpusfit.manifest import EvaluateFolder, versions
from corpusfit.pipeline.run import Machine
from corpusfit.plan import EmbedPlan

__all__ = ["Evaluated", "evaluate", "training_sizes"]

HERE = Machine()
OURS, BASE = "model", "base"


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation.

    Attributes:
        path: the folder.
        manifest: what `manifest.json` says: `results` and `comparisons` among it.
    """

    path: Path
    manifest: dict[str, Any]

    def outcomes(self, model: str = OURS, size: int = 0) -> list[Outcome]:
        """What every seed gave, of `model` or `base`; `size` as asked for, 0 for all examples."""
        fingerprint = self.manifest["models"][model]["fingerprint"]
        return _outcomes(EvaluateFolder(self.path), fingerprint, size, self.manifest["seeds"])


def evaluate(
    plan: EvaluatePlan,
    task: str,
    out: Path,
    *,
    base: str = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Evaluated:
    """Fine-tune a model, and what it is compared with, and judge them.

    Args:
        plan: every setting that can change a score.
        task: a folder, a file or a dataset, as `read_task` takes them.
        out: a new or empty folder, or one of the same evaluation, whatever its seeds and sizes.
        base: the model to compare with.
        seeds: fine-tunings of each model, seeded by the plan's seed and those after it.
        train_sizes: numbers of training examples, each in turn; all of them if left out.
        machine: where it runs, and what is told of it.
        overwrite: replace another evaluation in `out`.

    Returns:
        The finished evaluation.

    Raises:
        CorpusfitError: see `errors.py`; what was fine-tuned is kept.
    """
    plan = plan.check()
    if seeds < 1:
        raise bad_setting("--seeds", "1 or more", seeds)
    found = read_task(task, plan.task, seed=plan.seed)
    sizes = training_sizes(train_sizes, len(found.train))
    folder = EvaluateFolder(out)
    folder.claim()
    models = {OURS: _Model.named(plan.model.name)} | ({BASE: _Model.named(base)} if base else {})
    folder.begin(_identity(plan, found), overwrite=overwrite)
    common = overlaps(found)
    for note in (*found.notes, *common.notes()):
        machine.progress.warn(note)
    _fine_tune(plan, models, found, folder, (sizes, seeds), machine)
    results, comparisons = _judged(plan, models, found, folder, (sizes, seeds))
    facts = {
        "command": "evaluate",
        "versions": versions(),
        "plan": plan.as_dict(),
        "models": {role: dataclasses.asdict(model) for role, model in models.items()},
        "task": _described(found),
        "overlaps": common.as_dict(),
        "seeds": seeds,
        "metric": metric_of(plan.task, found.kind),
        "results": results,
        "comparisons": comparisons,
    }
    folder.finish(facts)
    return Evaluated(out, facts)


def training_sizes(asked: Sequence[int], n: int) -> list[int]:
    """The training sizes, each once, from the smallest; 0 is all examples."""
    for size in asked:
        if not 1 <= size <= n:
            raise bad_setting("--train-size", f"1 to {n:,}, the training examples there are", size)
    return sorted(set(asked)) or [0]


@dataclass(frozen=True)
class _Model:
    """A model that is judged: what the user called it, and its identity."""

    name: str
    fingerprint: str

    @classmethod
    def named(cls, name: str) -> _Model:
        return cls(name, head_fingerprint(name))


def _identity(plan: EvaluatePlan, task: Task) -> dict[str, Any]:
    """What must be the same for outcomes to stand side by side; each bears its model's mark."""
    settings = plan.as_dict()
    del settings["model"]["name"]
    return {
        "command": "evaluate",
        **settings,
        "task": {task.name: task_digest(task)},
        "versions": {"corpusfit": versions()["corpusfit"]},
    }


def _fine_tune(
    plan: EvaluatePlan,
    models: Mapping[str, _Model],
    task: Task,
    folder: EvaluateFolder,
    wanted: tuple[Sequence[int], int],
    machine: Machine,
) -> None:
    """Fine-tune what is not there yet, several at once; on a GPU one at a time."""
    sizes, seeds = wanted
    extra = folder.companions if plan.augment.kind else None
    pieces = [
        FineTuning(folder.task, named, size, plan.seed + seed, extra, out)
        for size, seed, model in itertools.product(sizes, range(seeds), models.values())
        for named in [plan.with_value("model.name", model.name)]
        for out in [folder.outcome(model.fingerprint, size, seed)]
        if not out.exists()
    ]
    if not pieces:
        return
    store_task(task, folder.task)
    wanted_device = EmbedPlan(device=plan.tune.device, precision=plan.tune.precision)
    if machine.engine == "local" and resolve(wanted_device, "tune").device == "cuda":
        machine = dataclasses.replace(machine, workers=1)
    progress = machine.progress
    if extra is not None and not extra.exists():
        found = augmented(
            task.train,
            plan.augment,
            kind=task.kind,
            labels=task.labels,
            seed=plan.seed,
            device=plan.tune.device,
            progress=progress,
        )
        store_examples(found, extra)
    progress.begin("fine-tuning", len(pieces), "models")
    try:
        with machine.start() as engine:
            engine.require_shared(folder.path, "--out")
            for _ in engine.map(FineTune(), pieces):
                progress.advance(1, 1)
    finally:
        progress.end()


def _judged(
    plan: EvaluatePlan,
    models: Mapping[str, _Model],
    task: Task,
    folder: EvaluateFolder,
    wanted: tuple[Sequence[int], int],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Means with intervals of each model and size, and the comparisons with the base."""
    sizes, seeds = wanted
    metric = metric_of(plan.task, task.kind)
    results: list[dict[str, Any]] = []
    compared: list[tuple[int, Comparison]] = []
    for size in sizes:
        counts = {}
        for role, model in models.items():
            outcomes = _outcomes(folder, model.fingerprint, size, seeds)
            counts[role] = [_tallies(task, outcome) for outcome in outcomes]
            low, high = interval(counts[role], metric, seed=plan.seed)
            results.append(_result(role, outcomes) | {"low": low, "high": high})
        if BASE in counts:
            compared.append((size, compare(counts[OURS], counts[BASE], metric, seed=plan.seed)))
    ps = holm([comparison.p for _, comparison in compared])
    return results, [
        {"size": size or len(task.train), **dataclasses.asdict(comparison)}
        | {"p_adjusted": p, "verdict": verdict(comparison, p if p is not None else 1.0)}
        for (size, comparison), p in zip(compared, ps, strict=True)
    ]


def _outcomes(folder: EvaluateFolder, model: str, size: int, seeds: int) -> list[Outcome]:
    return [Outcome.read(folder.outcome(model, size, seed)) for seed in range(seeds)]


def _tallies(task: Task, outcome: Outcome) -> NDArray[np.int64]:
    answers = np.asarray(outcome.predicted["test"], np.int32)
    return tallies(task.kind, task.labels, task.test.flat, answers, task.test.lengths)


def _result(role: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Mean and deviation over seeds of every metric, and what it took."""
    first = outcomes[0]
    spreads: dict[str, Any] = {}
    for split, names in first.scores.items():
        for name in names:
            mean, sd = spread([o.scores[split][name] for o in outcomes])
            spreads.setdefault(split, {})[name] = {"mean": mean, "sd": sd}
    return {
        "model": role,
        "size": first.size,
        **spreads,
        "truncated": first.truncated,
        "best_epochs": [o.best for o in outcomes],
        "seconds": round(sum(o.seconds for o in outcomes), 1),
        "cpu_seconds": round(sum(o.cpu_seconds for o in outcomes), 1),
    }


def _described(task: Task) -> dict[str, Any]:
    """What the task is, and what was said of how it was read."""
    return {
        "name": task.name,
        "kind": task.kind,
        "labels": task.labels,
        "learnable": task.learnable,
        **{split: len(getattr(task, split)) for split in ("train", "dev", "test")},
        "notes": task.notes,
    }
