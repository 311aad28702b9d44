"""What a run would take: the dry run.

What: reads the first few MiB of the corpus, does a small part of the real work, and multiplies.
Why: nobody should start a day's work without knowing that it is a day's.
Trade-off: they stand for all, so a corpus whose files differ much is misjudged; nothing is
written but a distilled model that a run would need anyway.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpusfit import corpus
from corpusfit.jobs.survey import look_with
from corpusfit.pipeline.budget import apply_decision
from corpusfit.pipeline.cascade_stages import resolve_stages, stages_of
from corpusfit.pipeline.cost_model import UNITS, decide_by_budget, encoding_rate, measure_sample
from corpusfit.pipeline.parallel_files import whole_lines
from corpusfit.pipeline.run import Machine, Run
from corpusfit.plan import Plan
from corpusfit.score import registry
from corpusfit.score.contract import CorpusMethod
from corpusfit.select.choose import DEFAULT_FRACTION

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
        which `assumed` says; with a budget also `budget`, what it came to.

    Raises:
        EmptyInputError: the corpus has no usable row.
    """
    plan = resolve_stages(whole_lines(plan.check(), corpus_inputs))
    with TemporaryDirectory(prefix="corpusfit-") as scratch, machine.start() as engine:
        work = Path(scratch)
        corpus.find(target, plan.read, spool=work, role="target")
        sources = corpus.find(
            corpus_inputs, plan.read, spool=work, role="corpus", looking=partial(look_with, engine)
        )
        run = Run(plan, machine, engine, work, [], sources)
        decided: dict[str, Any] = {}
        if plan.auto.budget:
            decision = decide_by_budget(run)
            plan, decided = apply_decision(plan, decision), {"budget": dataclasses.asdict(decision)}
        units, segments, texts, characters, read_bytes, reading = measure_sample(run)
        stored = sum(s.size for s in sources)
        times = max(1.0, stored / max(1, read_bytes))
        seconds, width, networks = 2 * reading * times, 0, False
        shares: dict[str, Any] = {}
        method = None
        if plan.method.name != "auto":
            used = registry.given(plan.method, plan.embed.embedder)
            method = registry.build(used.name, used.options)
        whole = method if isinstance(method, CorpusMethod) else None
        some = texts[: UNITS * engine.workers]
        if plan.cascade.stages:
            shares = _shares(plan)
            sampled = plan.fit.background + plan.cascade.sample * units / segments
            seconds *= (2 + len(stages_of(plan))) / 2 / engine.workers
            took = _stages(run, shares["shares"], units * times, sampled, some)
            seconds, networks = seconds + took[0], took[1]
        elif method is None or method.encodes:
            rate, width = encoding_rate(run, plan.embed, some)
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
                peak(resource.RUSAGE_SELF)
                + engine.workers * _WORKER_MB[width > 0 or networks]
                + (whole.memory_mb(text_mb, total) if whole is not None else 0.0)
            ),
            "disk_mb": total * (2 * width + 28 + _ROW_BYTES) / 1e6,
            **shares,
            **decided,
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
            rate, _ = encoding_rate(run, stage.embed, texts)
            seconds, networks = seconds + (units * share + sampled) / rate, True
    return seconds, networks


_WORKER_MB = {False: 250, True: 1250}
"""Resident memory of a worker, without and with an encoder, as measured with `minilm`."""


def peak(who: int) -> float:
    """Peak resident memory in MB; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(who).ru_maxrss / (1e6 if sys.platform == "darwin" else 976.6)
