"""What a run would take: the dry run.

What: reads the first shard of the corpus, does a small part of the real work on it, and multiplies.
Why: nobody should start a day's work without knowing that it is a day's.
Trade-off: one shard stands for all, so a corpus whose files differ much is misjudged; nothing is
written but a distilled model that a run would need anyway.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpusfit import corpus
from corpusfit.jobs.embed import EmbedTexts
from corpusfit.jobs.fit import PrepareEncoder
from corpusfit.jobs.reading import Reasons, read_units
from corpusfit.jobs.survey import look_with
from corpusfit.pipeline.run import Machine, Run
from corpusfit.plan import Plan
from corpusfit.score import registry
from corpusfit.types import Reads

__all__ = ["estimate"]

_UNITS = 128
_FIXED_S = 15.0
"""Starting workers, fitting and ranking: about this long whatever the corpus."""
_ROW_BYTES = 40
"""A segment's row in `scores/`, compressed."""


def estimate(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], *, machine: Machine
) -> dict[str, Any]:
    """Measure a sample and project.

    Returns:
        sources, stored_mb, text_mb, units, seconds, workers, memory_mb, disk_mb.

    Raises:
        EmptyInputError: the first shard has no usable row.
    """
    plan.check()
    with TemporaryDirectory(prefix="corpusfit-") as scratch, machine.start() as engine:
        work = Path(scratch)
        corpus.find(target, plan.read, spool=work, role="target")
        sources = corpus.find(
            corpus_inputs, plan.read, spool=work, role="corpus", looking=partial(look_with, engine)
        )
        run = Run(plan, machine, engine, work, [], sources)
        shard = next(iter(corpus.shards(sources, plan.read)), None)
        if shard is None:
            raise run.nothing_read(Reasons())
        started = time.perf_counter()
        units, texts, tally = read_units(shard, plan.read, plan.cut, run.names)
        reading = time.perf_counter() - started
        if not len(units):
            reasons = Reasons()
            reasons.add(tally.rejects)
            raise run.nothing_read(reasons)
        stored = sum(s.size for s in sources)
        times = max(1.0, stored / max(1, shard.position))
        seconds, width = 2 * reading * times, 0
        if _reads(plan) == "embedding":
            rate, width = _encode(run, texts[: _UNITS * engine.workers].to_pylist())
            seconds += len(units) * times / rate
        elif _reads(plan) == "corpus":
            seconds *= 1.5  # once by all workers for the sample, then twice by one
        elif engine.workers > 1:
            seconds /= engine.workers
        total = round(len(units) * times)
        text_mb = tally.characters * times / 1e6
        return {
            "sources": len(sources),
            "stored_mb": stored / 1e6,
            "text_mb": text_mb,
            "units": total,
            "seconds": round(seconds + _FIXED_S),
            "workers": engine.workers,
            "memory_mb": round(
                _peak(resource.RUSAGE_SELF)
                + engine.workers * _WORKER_MB[width > 0]
                + _held(plan, text_mb, total)
            ),
            "disk_mb": total * (2 * width + 28 + _ROW_BYTES) / 1e6,
        }


_WORKER_MB = {False: 250, True: 1250}
"""Resident memory of a worker, without and with an encoder, as measured with `minilm`."""


def _reads(plan: Plan) -> Reads:
    name = plan.method.name
    return "embedding" if name == "auto" else registry.build(name, plan.method.options).reads


def _held(plan: Plan, text_mb: float, units: int) -> float:
    """MB that a method on the whole corpus keeps beside."""
    if _reads(plan) != "corpus":
        return 0.0
    return registry.of_corpus(plan.method.name, plan.method.options).memory_mb(text_mb, units)


def _encode(run: Run, texts: list[str]) -> tuple[float, int]:
    """Units a second over all workers, and the width of a vector."""
    run.one(PrepareEncoder(run.cache), run.plan.embed)
    job = EmbedTexts(run.plan.embed, run.cache)
    list(run.engine.map(job, [(i, texts[:4]) for i in range(4)]))  # load the model everywhere
    pieces = [(i, texts[i : i + _UNITS]) for i in range(0, len(texts), _UNITS)]
    started = time.perf_counter()
    found = list(run.engine.map(job, pieces))
    seconds = time.perf_counter() - started
    return len(texts) / max(seconds, 1e-6), found[0][1].shape[1]


def _peak(who: int) -> float:
    """Peak resident memory in MB; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(who).ru_maxrss / (1e6 if sys.platform == "darwin" else 976.6)
