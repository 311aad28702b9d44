"""Measures on the beginning of a corpus what a GB of its text costs to read, encode and score."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

from corpusfit.core.errors import MissingDependencyError
from corpusfit.core.plan import EmbedPlan, MethodPlan
from corpusfit.selection.budget import WORDS, Decision, decide
from corpusfit.selection.embed_job import EmbedTexts
from corpusfit.selection.fit import PrepareEncoder, TimeScoring
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons, join_units, read_units

UNITS = 128
"""Units that each worker encodes."""


@dataclass(frozen=True)
class CostPerGigabyte:
    """The cost of a GB of the corpus's text (10^9 characters), measured on its beginning.

    Attributes:
        run: the run whose workers share the work.
        units: number of units in a GB.
        reading: seconds to read and cut a GB twice: for a sample or embeddings, and to score.
        texts: sample of units.
    """

    run: Run
    units: float
    reading: float
    texts: list[str]

    def encoding(self, embed: EmbedPlan) -> float:
        """Seconds to encode a GB."""
        rate, _ = encoding_rate(self.run, embed, self.texts)
        return 1e9 * len(self.texts) / (rate * sum(map(len, self.texts)))

    def scoring(self, rate: float) -> float:
        """Seconds to score a GB at `rate` units per second and thread."""
        return self.units / (rate * self.run.engine.workers)

    def lexical(self, name: str) -> float:
        """Seconds to score a GB by a method that reads text."""
        return self.scoring(self.run.one(TimeScoring(MethodPlan(name)), self.texts))


def cost_per_gigabyte(run: Run) -> CostPerGigabyte:
    """Measure the cost on the corpus's beginning.

    The result is wrong for a corpus whose files differ much. It includes what else the machine does
    meanwhile, and excludes unpacking of compressed files.
    """
    units, _, texts, characters, _, seconds = measure_sample(run)
    times = 1e9 / characters
    reading = 2 * seconds * times / run.engine.workers
    return CostPerGigabyte(run, units * times, reading, texts[: UNITS * run.engine.workers])


def decide_by_budget(run: Run) -> Decision:
    """Choose by measuring what fits the run's budget; warns if nothing does."""
    whole = cost_per_gigabyte(run)

    def cost(name: str) -> float | None:
        if name == WORDS:
            return whole.reading + whole.lexical(name)
        try:
            return whole.reading + whole.encoding(
                dataclasses.replace(run.plan.embed, embedder=name)
            )
        except MissingDependencyError as e:
            run.warn(f"The budget does not consider {name}: {e.args[0]}")
            return None

    with run.stage("measure"):
        decision = decide(run.plan, cost)
    if not decision.fits:
        run.warn(decision.excess())
    return decision


def measure_sample(run: Run) -> tuple[int, int, list[str], int, int, float]:
    """Measure the first few shards: units, segments, texts, characters, stored bytes, seconds."""
    units, segments, texts, characters, done, reasons = 0, 0, [], 0, 0, Reasons()
    before, source, warm = 0, -1, False
    seconds = 0.0
    for shard in run.shards():
        if not warm:  # the first call loads the kernels, which is not measured
            read_units(shard, run.plan.read, run.plan.cut, run.names)
            warm = True
        started = time.perf_counter()
        found, cut, tally = read_units(shard, run.plan.read, run.plan.cut, run.names)
        seconds += time.perf_counter() - started
        reasons.add(tally.rejects)
        units, characters = units + len(found), characters + tally.characters
        segments += len(join_units(found, run.plan.cut.gamma))
        texts += cut.to_pylist()[: UNITS * run.engine.workers]
        before = before if shard.source == source else 0
        done, before, source = done + shard.position - before, shard.position, shard.source
        if units and done >= _ENOUGH:
            break
    if not units:
        raise run.nothing_read(reasons)
    return units, segments, texts, characters, done, seconds


_ENOUGH = 4 << 20
"""Stored bytes that are measured."""


def encoding_rate(run: Run, embed: EmbedPlan, texts: list[str]) -> tuple[float, int]:
    """Units per second over all workers, and the number of dimensions of a vector."""
    run.one(PrepareEncoder(run.cache), embed)
    job = EmbedTexts(embed, run.cache)
    warm = [(i, texts[:4]) for i in range(2 * run.engine.workers)]
    list(run.engine.map(job, warm))  # load the model everywhere
    pieces = [(i, texts[i : i + UNITS]) for i in range(0, len(texts), UNITS)]
    started = time.perf_counter()
    found = list(run.engine.map(job, pieces))
    seconds = time.perf_counter() - started
    return len(texts) / max(seconds, 1e-6), found[0][1].shape[1]
