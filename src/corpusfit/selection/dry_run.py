"""The dry run of `select`: measures the first MiB of the corpus and projects the whole run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.rounds import RoundMethod
from corpusfit.selection.embedding import EmbedTexts
from corpusfit.selection.fit import Sample
from corpusfit.selection.resolved import Resolved
from corpusfit.selection.resolving import resolve
from corpusfit.selection.samples import target_texts
from corpusfit.text.context import Machine, Run, peak
from corpusfit.text.reading import Reasons, read_units

_UNITS = 128  # units that each worker encodes
_ENOUGH = 4 << 20  # stored bytes to measure
_FIXED_S = 6.0  # seconds to start workers and fit, about the same for any corpus
_ROW_BYTES = 40  # bytes of a segment's row in `scores/`, compressed
_WORKER_MB = 250  # of a worker, and of an encoder (`minilm`) in its process
_ENCODER_MB = 1000


def estimate(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], *, machine: Machine
) -> dict[str, Any]:
    """Measure the beginning of the corpus and project."""
    # The estimate is wrong for a corpus whose files differ much. Nothing is written.
    with TemporaryDirectory(prefix="corpusfit-") as work, machine.running(Path(work)) as run:
        workers = run.engine.workers
        resolved = resolve(run, plan, target, corpus_inputs)
        method = resolved.method
        target_texts(run, resolved, Sample(run.work, "target"))
        units, texts, characters, read_bytes, reading = _measure(run, resolved)
        stored = resolved.corpus.size
        times = max(1.0, stored / max(1, read_bytes))
        seconds = 2 * reading * times
        width = 0
        devices = 0
        in_rounds = isinstance(method, RoundMethod)
        whole = method if isinstance(method, CorpusMethod) and not in_rounds else None
        timed = texts[: _UNITS * workers]
        if method.encodes:
            rate, width, devices = _encoding_rate(run, resolved.embed, timed)
            seconds = 1.5 * seconds + units * times / rate  # it is read once more for a sample
        elif whole is not None:
            seconds *= 1.5  # all workers read it once for the sample, then one worker twice
        elif in_rounds or workers > 1:  # the rounds take about as long as reading twice
            seconds *= (2 if in_rounds else 1) / workers
        total = round(units * times)
        text_mb = characters * times / 1e6
        return {
            "sources": len(resolved.corpus.sources),
            "stored_mb": stored / 1e6,
            "text_mb": text_mb,
            "units": total,
            "seconds": round(seconds + _FIXED_S),
            "workers": workers,
            "devices": devices,
            "memory_mb": round(
                peak()
                + workers * _WORKER_MB
                + (devices or workers) * _ENCODER_MB * (width > 0)
                + (whole.memory_mb(text_mb, total) if whole is not None else 0.0)
            ),
            "disk_mb": total * (2 * width + 28 + _ROW_BYTES) / 1e6,
        }


def _measure(run: Run, resolved: Resolved) -> tuple[int, list[str], int, int, float]:
    """The first few shards: units, texts, characters, stored bytes, seconds."""
    inputs = resolved.corpus
    cut_by = resolved.plan.cut
    units = 0
    texts = list[str]()
    characters = 0
    done = 0
    reasons = Reasons()
    before = 0
    source = -1
    paces: list[float] = []  # seconds per stored byte
    for shard in run.shards(inputs):
        if not paces:  # the first call loads the kernels, which is not measured
            read_units(shard, inputs.read, cut_by, inputs.names)
        started = time.perf_counter()
        units_of_shard, cut, tally = read_units(shard, inputs.read, cut_by, inputs.names)
        if shard.source != source or shard.position < before:
            before = 0
        read = shard.position - before
        paces.append((time.perf_counter() - started) / max(1, read))
        reasons.add(tally.rejects.counts())
        units = units + len(units_of_shard)
        characters = characters + tally.characters
        texts += cut.to_pylist()[: _UNITS * run.engine.workers]
        done = done + read
        before = shard.position
        source = shard.source
        if units and done >= _ENOUGH:
            break
    if not units:
        raise inputs.nothing_read(reasons)
    # text of another script compiles a kernel of its own, once on a machine: the lower median
    # leaves such a shard out
    return units, texts, characters, done, done * statistics.median_low(paces)


def _encoding_rate(run: Run, embed: EmbedPlan, texts: list[str]) -> tuple[float, int, int]:
    """Units per second in all, the dimensions of a vector, and the number of GPUs that encode."""
    job = EmbedTexts(embed)
    list(run.engine.map(job, [(i, texts[:4]) for i in range(2 * run.engine.workers)]))
    pieces = [(i, texts[i : i + _UNITS]) for i in range(0, len(texts), _UNITS)]
    # the faster of two rounds: a worker that starts late loads the model and kernels in the first
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        encoded = list(run.engine.map(job, pieces))
        seconds.append(time.perf_counter() - started)
    rate = len(texts) / max(min(seconds), 1e-6)
    return rate, encoded[0][1].shape[1], run.engine.fed
