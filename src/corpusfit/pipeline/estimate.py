"""What a run would take: the dry run, and what a gigabyte takes.

What: reads the first few MiB of the corpus, does a small part of the real work, and multiplies.
Why: nobody should start a day's work without knowing that it is a day's; `--budget` and
`corpusfit rank` go by the same measurements.
Trade-off: they stand for all, so a corpus whose files differ much is misjudged; nothing is
written but a distilled model that a run would need anyway.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpusfit import corpus
from corpusfit.errors import MissingDependencyError
from corpusfit.jobs.embed import EmbedTexts
from corpusfit.jobs.fit import PrepareEncoder, TimeScoring
from corpusfit.jobs.reading import Reasons, read_units
from corpusfit.jobs.survey import look_with
from corpusfit.pipeline.budget import WORDS, Decision, decide, within
from corpusfit.pipeline.run import Machine, Run
from corpusfit.plan import EmbedPlan, MethodPlan, Plan
from corpusfit.score import registry
from corpusfit.score.contract import CorpusMethod

__all__ = ["Gigabyte", "budgeted", "estimate", "gigabyte"]

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
        sources, stored_mb, text_mb, units, seconds, workers, memory_mb, disk_mb; with a budget also
        `budget`, what it came to.

    Raises:
        EmptyInputError: the corpus has no usable row.
    """
    plan.check()
    with TemporaryDirectory(prefix="corpusfit-") as scratch, machine.start() as engine:
        work = Path(scratch)
        corpus.find(target, plan.read, spool=work, role="target")
        sources = corpus.find(
            corpus_inputs, plan.read, spool=work, role="corpus", looking=partial(look_with, engine)
        )
        run = Run(plan, machine, engine, work, [], sources)
        decided: dict[str, Any] = {}
        if plan.auto.budget:
            decision = budgeted(run)
            plan, decided = within(plan, decision), {"budget": dataclasses.asdict(decision)}
        units, texts, characters, read_bytes, reading = _measured(run)
        stored = sum(s.size for s in sources)
        times = max(1.0, stored / max(1, read_bytes))
        seconds, width = 2 * reading * times, 0
        method = None
        if plan.method.name != "auto":
            used = registry.given(plan.method, plan.embed.embedder)
            method = registry.build(used.name, used.options)
        whole = method if isinstance(method, CorpusMethod) else None
        if method is None or method.encodes:
            rate, width = _encode(run, plan.embed, texts[: _UNITS * engine.workers])
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
                + engine.workers * _WORKER_MB[width > 0]
                + (whole.memory_mb(text_mb, total) if whole is not None else 0.0)
            ),
            "disk_mb": total * (2 * width + 28 + _ROW_BYTES) / 1e6,
            **decided,
        }


@dataclass(frozen=True)
class Gigabyte:
    """A GB of the corpus's text, 10^9 characters, as its beginning tells.

    Attributes:
        run: reads the corpus; all its workers share the work.
        units: in a GB.
        reading: seconds to read and cut a GB twice: for a sample or for embeddings, and to score.
        texts: some units.
    """

    run: Run
    units: float
    reading: float
    texts: list[str]

    def encoding(self, embed: EmbedPlan) -> float:
        """Seconds to encode a GB."""
        rate, _ = _encode(self.run, embed, self.texts)
        return 1e9 * len(self.texts) / (rate * sum(map(len, self.texts)))

    def scoring(self, rate: float) -> float:
        """Seconds to score a GB where one thread does so many units a second."""
        return self.units / (rate * self.run.engine.workers)

    def lexical(self, name: str) -> float:
        """Seconds to score a GB by a method on words."""
        return self.scoring(self.run.one(TimeScoring(MethodPlan(name)), self.texts))


def gigabyte(run: Run) -> Gigabyte:
    """Measure the corpus's beginning.

    Raises:
        EmptyInputError: the corpus has no usable row.
    """
    units, texts, characters, _, seconds = _measured(run)
    times = 1e9 / characters
    reading = 2 * seconds * times / run.engine.workers
    return Gigabyte(run, units * times, reading, texts[: _UNITS * run.engine.workers])


def budgeted(run: Run) -> Decision:
    """Measure what the run's budget allows; warns where nothing fits it.

    Raises:
        EmptyInputError: the corpus has no usable row.
        ModelError: the run's embedder cannot be used.
    """
    whole = gigabyte(run)

    def cost(name: str) -> float | None:
        if name == WORDS:
            return whole.reading + whole.lexical(name)
        try:
            return whole.reading + whole.encoding(
                dataclasses.replace(run.plan.embed, embedder=name)
            )
        except MissingDependencyError as e:
            run.warn(f"--budget leaves {name} out: {e}")
            return None

    with run.stage("measure"):
        decision = decide(run.plan, cost)
    if not decision.fits:
        run.warn(decision.excess())
    return decision


def _measured(run: Run) -> tuple[int, list[str], int, int, float]:
    """Units, some of their texts, characters, stored bytes and seconds of the first few shards.

    Raises:
        EmptyInputError: no shard of the corpus has a usable row.
    """
    units, texts, characters, done, reasons = 0, [], 0, 0, Reasons()
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
        texts += cut.to_pylist()[: _UNITS * run.engine.workers]
        before = before if shard.source == source else 0
        done, before, source = done + shard.position - before, shard.position, shard.source
        if units and done >= _ENOUGH:
            break
    if not units:
        raise run.nothing_read(reasons)
    return units, texts, characters, done, seconds


_ENOUGH = 4 << 20
"""Stored bytes that stand for all."""

_WORKER_MB = {False: 250, True: 1250}
"""Resident memory of a worker, without and with an encoder, as measured with `minilm`."""


def _encode(run: Run, embed: EmbedPlan, texts: list[str]) -> tuple[float, int]:
    """Units a second over all workers, and the width of a vector."""
    run.one(PrepareEncoder(run.cache), embed)
    job = EmbedTexts(embed, run.cache)
    warm = [(i, texts[:4]) for i in range(2 * run.engine.workers)]
    list(run.engine.map(job, warm))  # load the model everywhere
    pieces = [(i, texts[i : i + _UNITS]) for i in range(0, len(texts), _UNITS)]
    started = time.perf_counter()
    found = list(run.engine.map(job, pieces))
    seconds = time.perf_counter() - started
    return len(texts) / max(seconds, 1e-6), found[0][1].shape[1]


def _peak(who: int) -> float:
    """Peak resident memory in MB; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(who).ru_maxrss / (1e6 if sys.platform == "darwin" else 976.6)
