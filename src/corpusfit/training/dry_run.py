"""The dry run of `adapt`: measures a few steps and projects the whole training."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from corpusfit import text as corpus
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.evaluation.decontamination.heldout import training_splits
from corpusfit.text.context import Machine, peak
from corpusfit.text.contract import SIDES
from corpusfit.training.adapting import adapt
from corpusfit.training.inputs import choose_side, find_training_inputs, with_task_phase
from corpusfit.training.phases import model_bytes
from corpusfit.training.plan import TRANSLATION, AdaptPlan, MixPlan, ThenTaskPlan, WeightsPlan
from corpusfit.training.presets import PASSES, TASK_PASSES, Size, resolve_training, task_phase

_STEPS = 5
_SAMPLED = 1 << 20


class _StepClock(Progress):
    """Notes when each training step ends."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._training = False

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Time the training alone."""
        self._training = stage == "adapt"

    def advance(self, done: float, units: int = 0) -> None:
        """Note the end of a training step."""
        if self._training:
            self._ends.append(time.perf_counter())

    def step(self) -> float:
        """Median seconds per step, the first step excluded."""
        pairs = zip(self._ends, self._ends[1:], strict=False)
        return statistics.median(after - before for before, after in pairs)


def estimate_adaptation(
    plan: AdaptPlan,
    data: Sequence[str],
    *,
    task: Sequence[str] = (),
    replay: Sequence[str] = (),
    guard: Sequence[str] = (),
    guard_field: str = "",
    machine: Machine,
) -> dict[str, Any]:
    """Train a few steps on the first MiB of the data in a temporary folder, and project."""
    # Takes what `adapt` takes. The model is loaded, and downloaded if needed. Memory that
    # grows after the first steps and the time in which `guard` reads all of the data are not
    # measured. A second phase is measured with the base model.
    plan = plan.check()
    if plan.then_task.on:
        task, _ = training_splits(data, task, machine.progress)
    field = guard_field or plan.read.text_field
    with TemporaryDirectory(prefix="corpusfit-") as scratch:
        work = Path(scratch)
        with machine.running(work) as context:
            texts = find_training_inputs(data, task, replay, plan.read, context)
            if plan.then_task.on:
                texts = with_task_phase(texts, (), context)
        if plan.objective.name != TRANSLATION:
            plan, texts = choose_side(plan, texts, machine.progress)

        def phase(plan: AdaptPlan, sources: list[Source], read: ReadPlan, passes: int) -> Any:
            folder = work / f"{passes} passes"
            return _projected(plan, sources, read, passes, folder, guard, field, machine)

        one = dataclasses.replace(plan, then_task=ThenTaskPlan())
        first = phase(one, texts.data or texts.task, texts.read, PASSES)
        if not plan.then_task.on:
            return dict(first)
        own = task_phase(plan, first["length"])
        second = phase(own, texts.task, texts.task_read, TASK_PASSES)
    both = {name: first[name] + second[name] for name in ("steps", "seconds", "disk_mb")}
    both["step_s"] = both["seconds"] / both["steps"]
    both["memory_mb"] = max(first["memory_mb"], second["memory_mb"])
    words = f"{first['words']} Then, on the task's text: {second['words']}"
    return {**first, **both, "words": words, "phases": [first, second]}


def _projected(
    plan: AdaptPlan,
    sources: list[Source],
    read: ReadPlan,
    passes: int,
    work: Path,
    guard: Sequence[str],
    guard_field: str,
    machine: Machine,
) -> dict[str, Any]:
    """The projection of one phase, from a few steps in a folder of its own."""
    sample, share = _sample(sources, read, work, pairs=plan.objective.name == TRANSLATION)
    short = dataclasses.replace(plan.train, steps=_STEPS, epochs=None, evaluations=1, keep="last")
    small = dataclasses.replace(
        plan, read=ReadPlan(), weights=WeightsPlan(), mix=MixPlan(heldout=8), train=short
    )
    clock = _StepClock()
    quiet = dataclasses.replace(machine, cache=work / "cache", progress=clock)
    manifest = adapt(
        small, [sample], work / "model", guard=guard, guard_field=guard_field, machine=quiet
    ).manifest
    counts = manifest["counts"]["data"]
    trained = counts["tokens"] - counts.get("source_tokens", 0)
    sampled = (trained, manifest["rows"], manifest["chunks"])
    tokens, rows, chunks = (round(n / share) for n in sampled)
    parameters, length = manifest["parameters"], manifest["training"]["length"]
    size = Size(tokens, rows, chunks, parameters, length, manifest["device"])
    train, words = resolve_training(plan, size, passes)
    steps, step_s = train.steps or 0, clock.step()
    return {
        "sources": len(sources),
        "stored_mb": sum(s.size for s in sources) / 1e6,
        "tokens": tokens,
        "parameters": parameters,
        "trained": manifest["trained"],
        "length": length,
        "steps": steps,
        "words": words,
        "step_s": step_s,
        "seconds": steps * step_s,
        "memory_mb": peak(),
        "disk_mb": (2 * tokens + model_bytes(manifest, train.checkpoints)) / 1e6,
    }


def _sample(sources: list[Source], read: ReadPlan, work: Path, *, pairs: bool) -> tuple[str, float]:
    """Write the first texts or pairs of the data; the input, and its share of the stored bytes."""
    texts: list[str] = []
    others: list[str] = []
    first, second = read.sides() if pairs else (read, read)
    if pairs and not corpus.is_parallel(sources):  # the rows of a selection
        first, second = (dataclasses.replace(read, text_field=field) for field in SIDES)
    seen = 0
    for shard in corpus.shards(sources, read):
        seen = sum(s.size for s in sources[: shard.source]) + shard.position
        texts += corpus.documents(shard, first)[0].texts.to_pylist()
        if pairs:
            others += corpus.documents(shard, second)[0].texts.to_pylist()
        if sum(map(len, texts)) >= _SAMPLED:
            break
    share = min(1.0, seen / max(1, sum(s.size for s in sources)))
    if pairs:
        for name, side in (("source", texts), ("target", others)):
            lines = (" ".join(text.splitlines()) + "\n" for text in side)
            write_bytes(work / f"sample.{name}", "".join(lines).encode())
        return f"pair:{work / 'sample.source'},{work / 'sample.target'}", share
    path = work / "sample.jsonl"
    write_bytes(path, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
    return str(path), share
