"""The dry run of `select`: measures some of the corpus and projects the whole run."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.core.types import Source
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
_ENOUGH = 4 << 20  # stored bytes of a kind of source to measure
_PLACES = 4  # places among the sources of a kind at which they are measured
_FIXED_S = 6.0  # seconds to start workers and fit, about the same for any corpus
_ROW_BYTES = 40  # bytes of a segment's row in `scores/`, compressed
_WORKER_MB = 250  # of a worker, and of an encoder (`minilm`) in its process
_ENCODER_MB = 1000


def estimate(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], *, machine: Machine
) -> dict[str, Any]:
    """Measure the beginnings of some sources and project."""
    # The estimate is wrong where the files of one format differ much. Nothing is written.
    with TemporaryDirectory(prefix="corpusfit-") as work, machine.running(Path(work)) as run:
        workers = run.engine.workers
        resolved = resolve(run, plan, target, corpus_inputs)
        method = resolved.method
        target_texts(run, resolved, Sample(run.work, "target"))
        units, characters, reading, texts = _measure(run, resolved)
        text_mb = characters / 1e6
        seconds = 2 * reading
        stored = resolved.corpus.size
        width = 0
        devices = 0
        in_rounds = isinstance(method, RoundMethod)
        whole = method if isinstance(method, CorpusMethod) and not in_rounds else None
        if method.encodes:
            timed = texts[:: math.ceil(len(texts) / (_UNITS * workers))]
            rate, width, devices = _encoding_rate(run, resolved.embed, timed)
            seconds = 1.5 * seconds + units / rate  # it is read once more for a sample
        elif whole is not None:
            seconds *= 1.5  # all workers read it once for the sample, then one worker twice
        elif in_rounds or workers > 1:  # the rounds take about as long as reading twice
            seconds *= (2 if in_rounds else 1) / workers
        return {
            "sources": len(resolved.corpus.sources),
            "stored_mb": stored / 1e6,
            "text_mb": text_mb,
            "units": units,
            "seconds": round(seconds + _FIXED_S),
            "workers": workers,
            "devices": devices,
            "memory_mb": round(
                peak()
                + workers * _WORKER_MB
                + (devices or workers) * _ENCODER_MB * (width > 0)
                + (whole.memory_mb(text_mb, units) if whole is not None else 0.0)
            ),
            "disk_mb": units * (2 * width + 28 + _ROW_BYTES) / 1e6,
        }


def _measure(run: Run, resolved: Resolved) -> tuple[int, float, float, list[str]]:
    """The units, characters and seconds of one reading of the corpus; the texts of some units."""
    inputs = resolved.corpus
    cut_by = resolved.plan.cut
    kinds = defaultdict[tuple[str, str], list[Source]](list)
    for source in inputs.sources:
        kinds[source.format, source.compression].append(source)
    sums = np.zeros(3)
    texts = list[str]()
    reasons = Reasons()
    for sources in kinds.values():
        counts = np.zeros(2)  # units, characters
        paces: list[float] = []  # seconds per stored byte
        total = 0
        step = math.ceil(len(sources) / _PLACES)
        for first in range(0, len(sources), step):
            some = replace(inputs, sources=sources[first : first + step])
            done = before = 0
            number = -1
            for shard in run.shards(some):
                if not paces:  # the first call loads the kernels, which is not measured
                    read_units(shard, some.read, cut_by, some.names)
                started = time.perf_counter()
                units, cut, tally = read_units(shard, some.read, cut_by, some.names)
                seconds = time.perf_counter() - started
                if shard.source != number or shard.position < before:
                    before = 0
                read = shard.position - before
                paces.append(seconds / max(1, read))
                reasons.add(tally.rejects.counts())
                counts += (len(units), tally.characters)
                texts += cut.to_pylist()[: _UNITS * run.engine.workers]
                done += read
                before = shard.position
                number = shard.source
                if texts and done >= _ENOUGH * step / len(sources):
                    break
            total += done
        # text of another script compiles a kernel of its own, once on a machine: the lower median
        # leaves such a shard out
        seconds = total * statistics.median_low(paces or [0.0])
        times = max(1.0, sum(source.size for source in sources) / max(1, total))
        sums += times * np.array([*counts, seconds])
    if not texts:
        raise inputs.nothing_read(reasons)
    return round(sums[0]), float(sums[1]), float(sums[2]), texts


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
