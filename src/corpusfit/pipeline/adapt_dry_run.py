"""What an adaptation would take: the dry run.

What: trains for a few steps on the first MiB of the data, in a folder that is thrown away, and
multiplies.
Why: nobody should start a day's training without knowing that it is a day's.
Trade-off: the first texts stand for all, and the steps measured are on short notice: memory that
grows later (a longer batch) is not seen, nor the time in which --guard reads all of the data. The
model is loaded, and downloaded if it has to be.
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from corpusfit import corpus
from corpusfit.adapt.plan import AdaptPlan, MixPlan, WeighPlan
from corpusfit.adapt.presets import Size, resolve_training
from corpusfit.artifacts import write_bytes
from corpusfit.engine import Progress
from corpusfit.pipeline.adapting import adapt
from corpusfit.pipeline.inputs import given
from corpusfit.pipeline.run import Machine
from corpusfit.pipeline.select_dry_run import peak
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

_STEPS = 5
_SAMPLED = 1 << 20
_A_WEIGHT = 12  # bytes of a checkpoint: itself and two moments


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
    """Measure a few steps and project; takes what `adapt` takes.

    Returns:
        sources, stored_mb, tokens (of the data, projected), parameters, trained, steps, words,
        step_s, seconds, memory_mb, disk_mb.

    Raises:
        CorpusfitError: as `adapt`.
    """
    plan = plan.check()
    with TemporaryDirectory(prefix="corpusfit-") as scratch:
        work = Path(scratch)
        with machine.start() as engine:
            texts = given(data, task, replay, plan.read, work, engine, machine)
        sources = texts.data or texts.task
        sample, share = _sample(sources, texts.read, work)
        few = dataclasses.replace(plan.train, steps=_STEPS, epochs=None, evaluations=1, keep="last")
        small = dataclasses.replace(
            plan, read=ReadPlan(), weigh=WeighPlan(), mix=MixPlan(heldout=8), train=few
        )
        clock = _Clock()
        quiet = dataclasses.replace(machine, cache=work / "cache", progress=clock)
        field = guard_field or plan.read.text_field
        made = adapt(
            small, [str(sample)], work / "model", guard=guard, guard_field=field, machine=quiet
        ).manifest
    tokens, rows = (round(n / share) for n in (made["counts"]["data"]["tokens"], made["rows"]))
    size = Size(tokens, rows, made["parameters"], made["training"]["length"], made["device"])
    train, words = resolve_training(plan, size)
    steps = train.steps or 0
    checkpoints = _A_WEIGHT * made["trained"] * (train.checkpoints + 1)
    return {
        "sources": len(sources),
        "stored_mb": sum(s.size for s in sources) / 1e6,
        "tokens": tokens,
        "parameters": made["parameters"],
        "trained": made["trained"],
        "steps": steps,
        "words": words,
        "step_s": clock.step,
        "seconds": steps * clock.step,
        "memory_mb": peak(resource.RUSAGE_SELF),
        "disk_mb": (2 * tokens + 4 * made["parameters"] + checkpoints) / 1e6,
    }


def _sample(sources: list[Source], read: ReadPlan, work: Path) -> tuple[Path, float]:
    """The first texts of the data in a file, and which share of its stored bytes they are."""
    texts: list[str] = []
    seen = 0
    for shard in corpus.shards(sources, read):
        seen = sum(s.size for s in sources[: shard.source]) + shard.position
        texts += corpus.documents(shard, read)[0].texts.to_pylist()
        if sum(map(len, texts)) >= _SAMPLED:
            break
    path = work / "sample.jsonl"
    write_bytes(path, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
    return path, min(1.0, seen / max(1, sum(s.size for s in sources)))


class _Clock(Progress):
    """Times the steps of a training."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._training = False

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Only training is timed."""
        self._training = stage == "adapt"

    def advance(self, done: float, units: int = 0) -> None:
        """A step is over."""
        if self._training:
            self._ends.append(time.perf_counter())

    @property
    def step(self) -> float:
        """Seconds of a step, the median of all but the first."""
        pairs = zip(self._ends, self._ends[1:], strict=False)
        return statistics.median(b - a for a, b in pairs)
