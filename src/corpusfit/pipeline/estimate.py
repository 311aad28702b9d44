"""What a run would take: the dry run.

What: reads the first few MiB of the corpus, does a small part of the real work, and multiplies.
Why: nobody should start a day's work without knowing that it is a day's.
Trade-off: they stand for all, so a corpus whose files differ much is misjudged; nothing is
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
from corpusfit.pipeline.stages import settled, stages_of
from corpusfit.plan import EmbedPlan, Plan
from corpusfit.score import registry
from corpusfit.score.contract import CorpusMethod
from corpusfit.segments import join_units
from corpusfit.select.choose import DEFAULT_FRACTION

__all__ = ["estimate"]

_UNITS = 128
_FIXED_S = 15.0
"""Starting workers, fitting and ranking: about this long whatever the corpus."""
_PASSED = 1.5
"""What earlier stages are taken to pass on where a sample will say, in selections."""
_ROW_BYTES = 40
"""A segment's row in `scores/`, compressed."""


def estimate(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], *, machine: Machine
) -> dict[str, Any]:
    """Measure a sample and project.

    Returns:
        sources, stored_mb, text_mb, units, seconds, workers, memory_mb, disk_mb; for a cascade also
        `shares`, what its stages pass on: as given, or an assumption where a sample will set them,
        which `assumed` says.

    Raises:
        EmptyInputError: the corpus has no usable row.
    """
    plan = settled(plan.check())
    with TemporaryDirectory(prefix="corpusfit-") as scratch, machine.start() as engine:
        work = Path(scratch)
        corpus.find(target, plan.read, spool=work, role="target")
        sources = corpus.find(
            corpus_inputs, plan.read, spool=work, role="corpus", looking=partial(look_with, engine)
        )
        run = Run(plan, machine, engine, work, [], sources)
        units, segments, texts, characters, read_bytes, reading = _measured(run)
        stored = sum(s.size for s in sources)
        times = max(1.0, stored / max(1, read_bytes))
        seconds, width, networks = 2 * reading * times, 0, False
        shares: dict[str, Any] = {}
        method = None
        if plan.method.name != "auto":
            used = registry.given(plan.method, plan.embed.embedder)
            method = registry.build(used.name, used.options)
        whole = method if isinstance(method, CorpusMethod) else None
        some = texts[: _UNITS * engine.workers]
        if plan.cascade.stages:
            shares = _shares(plan)
            sampled = plan.fit.background + plan.cascade.sample * units / segments
            seconds *= (2 + len(stages_of(plan))) / 2 / engine.workers
            took = _stages(run, shares["shares"], units * times, sampled, some)
            seconds, networks = seconds + took[0], took[1]
        elif method is None or method.encodes:
            rate, width = _encode(run, plan.embed, some)
            seconds += units * times / rate
        elif whole is not None:
            seconds *= 1.5  # once by all workers for the sample, then twice by one
        elif engine.workers > 1:
            seconds /= engine.workers
        total = round(units * times)
        text_mb = characters * times / 1e6
        return {
            "sources": len(sources),
            "stored_mb": stored / 1e6,
            "text_mb": text_mb,
            "units": total,
            "seconds": round(seconds + _FIXED_S),
            "workers": engine.workers,
            "memory_mb": round(
                _peak(resource.RUSAGE_SELF)
                + engine.workers * _WORKER_MB[width > 0 or networks]
                + (whole.memory_mb(text_mb, total) if whole is not None else 0.0)
            ),
            "disk_mb": total * (2 * width + 28 + _ROW_BYTES) / 1e6,
            **shares,
        }


def _shares(plan: Plan) -> dict[str, Any]:
    """What the stages of a cascade pass on, and whether that is an assumption."""
    given = [s.text.share for s in stages_of(plan)[:-1]]
    amount = plan.choose.fraction or DEFAULT_FRACTION
    assumed = min(1.0, _PASSED * amount)
    return {
        "shares": [assumed if share is None else share for share in given],
        "assumed": given[0] is None,
    }


def _stages(
    run: Run, shares: Sequence[float], units: float, sampled: float, texts: list[str]
) -> tuple[float, bool]:
    """Seconds that a cascade's encoders take, and whether there are any."""
    seconds, networks = 0.0, False
    for stage, share in zip(stages_of(run.plan), [1.0, *shares], strict=True):
        if stage.embed is not None:
            rate, _ = _encode(run, stage.embed, texts)
            seconds, networks = seconds + (units * share + sampled) / rate, True
    return seconds, networks


def _measured(run: Run) -> tuple[int, int, list[str], int, int, float]:
    """Units, segments, units' texts, characters, stored bytes, seconds of the first few shards.

    Raises:
        EmptyInputError: no shard of the corpus has a usable row.
    """
    units, segments, texts, characters, done, reasons = 0, 0, [], 0, 0, Reasons()
    before, source, warm = 0, -1, False
    seconds = 0.0
    for shard in run.shards():
        if not warm:  # kernels are loaded once, whatever the corpus
            read_units(shard, run.plan.read, run.plan.cut, run.names)
            warm = True
        started = time.perf_counter()
        found, cut, tally = read_units(shard, run.plan.read, run.plan.cut, run.names)
        seconds += time.perf_counter() - started
        reasons.add(tally.rejects)
        units, characters = units + len(found), characters + tally.characters
        segments += len(join_units(found, run.plan.cut.gamma))
        texts += cut.to_pylist()[: _UNITS * run.engine.workers]
        before = before if shard.source == source else 0
        done, before, source = done + shard.position - before, shard.position, shard.source
        if units and done >= _ENOUGH:
            break
    if not units:
        raise run.nothing_read(reasons)
    return units, segments, texts, characters, done, seconds


_ENOUGH = 4 << 20
"""Stored bytes that stand for all."""

_WORKER_MB = {False: 250, True: 1250}
"""Resident memory of a worker, without and with an encoder, as measured with `minilm`."""


def _encode(run: Run, embed: EmbedPlan, texts: list[str]) -> tuple[float, int]:
    """Units a second over all workers, and the width of a vector."""
    run.one(PrepareEncoder(run.cache), embed)
    job = EmbedTexts(embed, run.cache)
    list(run.engine.map(job, [(i, texts[:4]) for i in range(4)]))  # load the model everywhere
    pieces = [(i, texts[i : i + _UNITS]) for i in range(0, len(texts), _UNITS)]
    started = time.perf_counter()
    found = list(run.engine.map(job, pieces))
    seconds = time.perf_counter() - started
    return len(texts) / max(seconds, 1e-6), found[0][1].shape[1]


def _peak(who: int) -> float:
    """Peak resident memory in MB; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(who).ru_maxrss / (1e6 if sys.platform == "darwin" else 976.6)
