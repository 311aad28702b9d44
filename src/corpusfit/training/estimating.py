"""The dry run of `adapt`: a few steps on the first of the data, and what follows from them."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from corpusfit import text as corpus
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.plan import PAIR, ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.text.context import Machine, peak
from corpusfit.training.adapting import Request, Resolved, adapt, hardware_for, resolve
from corpusfit.training.defaults import Size, resolve_training, task_phase
from corpusfit.training.inputs import CHATS, PAIRS, TEXTS
from corpusfit.training.phases import model_bytes
from corpusfit.training.plan import (
    TASK,
    AdaptPlan,
    MixPlan,
    ThenTaskPlan,
    TrainPlan,
    WeightsPlan,
)

_STEPS = 5
_SAMPLED = 1 << 20


class _StepClock(Progress):
    """Records when a training begins, when each of its steps ends, and when all is measured."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._training = False
        self._began = self._ended = 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Time the training alone."""
        self._training = stage == "adapt"
        self._began = time.perf_counter()

    def advance(self, done: float, units: int = 0) -> None:
        """Note the end of a training step."""
        if self._training:
            self._ends.append(time.perf_counter())

    def end(self) -> None:
        """Note the end of the training."""
        if self._training:
            self._ended = time.perf_counter()
            self._training = False

    def step(self) -> float:
        """Median seconds per step, the first step excluded."""
        pairs = zip(self._ends, self._ends[1:], strict=False)
        return statistics.median(after - before for before, after in pairs)

    @property
    def trained(self) -> float:
        """Seconds of all steps and measurements."""
        return self._ended - self._began

    @property
    def measurement(self) -> float:
        """Seconds of the measurement after the last step."""
        return self._ended - self._ends[-1]


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
    request = Request(plan.check(), data, task, replay, guard, guard_field)
    with TemporaryDirectory(prefix="corpusfit-") as scratch:
        work = Path(scratch)
        with machine.running(work) as run:
            resolved = resolve(request, hardware_for(plan), run, weights=False)
        trial = _Trial(request, resolved, machine, work)
        # measure each phase as a training of its own
        one = dataclasses.replace(plan, then_task=ThenTaskPlan())
        first = trial.projected(one, on_task=resolved.texts.on_task)
        if not plan.then_task.on:
            return first
        second = trial.projected(task_phase(plan, first["length"]), on_task=True)
    summed = ("max_steps", "seconds", "around_s", "disk_mb")
    both = {name: first[name] + second[name] for name in summed}
    both["step_s"] = both["seconds"] / both["max_steps"]
    both["memory_mb"] = max(first["memory_mb"], second["memory_mb"])
    estimates = (first["memory_gb"], second["memory_gb"])
    both["memory_gb"] = max(estimates, key=lambda gb: gb.get("total", 0.0))
    summary = f"{first['words']} Then, on the task's text: {second['words']}"
    return {**first, **both, "words": summary, "phases": [first, second]}


@dataclass(frozen=True)
class _Trial:
    """Trainings of a few steps, from which those of a request are projected."""

    request: Request
    resolved: Resolved
    machine: Machine
    work: Path  # a folder for samples and models

    def projected(self, plan: AdaptPlan, *, on_task: bool) -> dict[str, Any]:
        """Project one phase, on the data or on the task's texts."""
        texts = self.resolved.texts
        work = self.work / ("on task" if on_task else "on data")
        sources, read = (texts.task, texts.task_read) if on_task else (texts.data, texts.read)
        sample, share = _sample(sources, read, work, texts.form)
        named = {"data": [TASK], "task": [sample]} if on_task else {"data": [sample]}
        task_share = 1.0
        if texts.task and not on_task and texts.form == TEXTS:
            name, task_share = _sample(texts.task, texts.task_read, work / TASK, TEXTS)
            named["task"] = [name]
        clock = _StepClock()
        manifest, around = self._train(plan, named, read, work, clock)
        counts = manifest["counts"][TASK if on_task else "data"]
        trained = counts["tokens"] - counts.get("first_tokens", 0)
        # extrapolate the sample by its share of the stored bytes
        tokens, rows, chunks = (
            round(n / share) for n in (trained, manifest["rows"], manifest["chunks"])
        )
        parameters = manifest["parameters"]
        length = manifest["training"]["length"]
        size = Size(tokens, rows, chunks, parameters, length, manifest["device"])
        train, summary = resolve_training(plan, size, on_task=on_task)
        # Each text gives at most one held-out sequence; of the data one in twenty gives one.
        sequences = min(plan.mix.heldout, counts["texts"] / share / 20)
        if texts.task and not on_task:
            most = plan.mix.task_sequences or plan.mix.heldout
            known = manifest["counts"][TASK]["texts"] / task_share if "task" in named else most
            sequences += min(most, known)
        steps = train.max_steps or 0
        step_s = clock.step()
        return {
            "sources": len(sources),
            "stored_mb": sum(s.size for s in sources) / 1e6,
            "tokens": tokens,
            "parameters": parameters,
            "trained": manifest["trained"],
            "length": length,
            "max_steps": steps,
            "words": summary,
            "step_s": step_s,
            "seconds": steps * step_s,
            "around_s": around + _measuring(train, sequences, manifest, clock),
            "memory_mb": peak(),
            "memory_gb": {name: size / 1e9 for name, size in manifest["memory"].items()},
            "disk_mb": (2 * tokens + model_bytes(manifest, train.checkpoints)) / 1e6,
        }

    def _train(
        self,
        plan: AdaptPlan,
        named: dict[str, list[str]],
        read: ReadPlan,
        work: Path,
        clock: _StepClock,
    ) -> tuple[dict[str, Any], float]:
        """Train a few steps; the manifest, and the seconds around the training itself."""
        chats = self.resolved.texts.form == CHATS
        small = dataclasses.replace(
            plan,
            read=ReadPlan(text_field=read.text_field) if chats else ReadPlan(),
            weights=WeightsPlan(),
            mix=MixPlan(heldout=8),
            train=dataclasses.replace(
                plan.train, max_steps=_STEPS, epochs=None, evaluations=1, keep="last"
            ),
        )
        began = time.perf_counter()
        manifest = adapt(
            small,
            named["data"],
            work / "model",
            task=named.get("task", ()),
            guard=self.request.guard,
            guard_field=self.request.guard_field or self.request.plan.read.text_field,
            machine=dataclasses.replace(self.machine, cache=work / "cache", progress=clock),
        ).manifest
        return manifest, time.perf_counter() - began - clock.trained


def _measuring(
    train: TrainPlan, sequences: float, manifest: dict[str, Any], clock: _StepClock
) -> float:
    """Seconds in which the losses of so many held-out sequences are measured."""
    heldout_sequences = sum(manifest["heldout"].values())
    if not heldout_sequences:
        return 0.0
    measurements = 1 + min(train.evaluations, max(1, train.max_steps or 0))
    return float(measurements * sequences * clock.measurement / heldout_sequences)


def _sample(sources: list[Source], read: ReadPlan, work: Path, form: str) -> tuple[str, float]:
    """Write the first texts of the data; returns the file, and its share of the stored bytes."""
    plans = read.sides() if form == PAIRS else (read,)
    rows: list[dict[str, Any]] = []
    seen = 0
    characters = 0
    for shard in corpus.shards(sources, read):
        seen = sum(s.size for s in sources[: shard.source]) + shard.position
        if form == CHATS:
            documents = [row for row in corpus.rows(shard, read) if isinstance(row, Document)]
            rows += [document.fields or {read.text_field: document.text} for document in documents]
            characters += sum(len(document.text) for document in documents)
        else:
            columns = [corpus.documents(shard, plan)[0].texts.to_pylist() for plan in plans]
            rows += [dict(zip(PAIR, texts, strict=False)) for texts in zip(*columns, strict=True)]
            characters += sum(map(len, columns[0]))
        if characters >= _SAMPLED:
            break
    share = min(1.0, seen / max(1, sum(s.size for s in sources)))
    if form == PAIRS:
        path = work / "sample.tsv"
        lines = ["\t".join(" ".join(text.split()) for text in row.values()) for row in rows]
        write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
        return f"pair:{path}", share
    path = work / "sample.jsonl"
    write_bytes(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return str(path), share
