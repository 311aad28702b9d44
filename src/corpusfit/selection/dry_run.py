"""The dry run of `select`: measures the first MiB of the corpus and projects the whole run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpusfit.core.plan import Plan
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.rounds import RoundMethod
from corpusfit.selection.budget import apply_decision
from corpusfit.selection.cascade_stages import resolve_stages, stages_of
from corpusfit.selection.cost_model import UNITS, decide_by_budget, encoding_rate, measure_sample
from corpusfit.selection.embedder_by_size import by_size
from corpusfit.selection.fit import Sample
from corpusfit.selection.language_check import choose_side
from corpusfit.selection.parallel_files import whole_lines
from corpusfit.selection.samples import target_texts
from corpusfit.text.context import Machine, Run, peak

_FIXED_S = 15.0
"""Seconds to start workers and fit, roughly the same for any corpus."""
_COMPARED_S = 15.0
"""Seconds in which `auto` compares methods, on samples of the same size for any corpus."""
_PASSED = 1.5
"""Assumed amount that earlier stages pass on, per selected amount, before a sample sets it."""
_ROW_BYTES = 40
"""Bytes of a segment's row in `scores/`, compressed."""


def estimate(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], *, machine: Machine
) -> dict[str, Any]:
    """Measure the beginning of the corpus and project.

    The estimate is wrong for a corpus whose files differ much. Nothing is written but a distilled
    model, which the run needs anyway.
    """
    plan = whole_lines(plan.check(), corpus_inputs)
    with (
        TemporaryDirectory(prefix="corpusfit-") as scratch,
        machine.running(Path(scratch)) as context,
    ):
        found = context.find(target, plan.target_read, "target")
        sources = context.find(corpus_inputs, plan.read, "corpus")
        engine = context.engine
        plan, *why = by_size(plan, sources, workers=engine.workers, cascade=True)
        plan = resolve_stages(plan)
        run = Run.of(context, plan, found, sources)
        run.choose_embedder(plan, *why)
        choose_side(run)
        plan = run.plan
        target_texts(run, Sample(context.work, "target"))
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
            used = registry.with_embedder(plan.method, plan.embed.embedder)
            method = registry.build(used.name, used.options)
        in_rounds = isinstance(method, RoundMethod)
        whole = method if isinstance(method, CorpusMethod) and not in_rounds else None
        timed = texts[: UNITS * engine.workers]
        if plan.cascade.stages:
            shares = _shares(plan)
            sampled = plan.fit.background + plan.cascade.sample * units / segments
            seconds *= (2 + len(stages_of(plan))) / 2 / engine.workers
            took = _stages(run, shares["shares"], units * times, sampled, timed)
            seconds, networks = seconds + took[0], took[1]
        elif method is None or method.encodes:
            rate, width = encoding_rate(run, plan.embed, timed)
            seconds = 1.5 * seconds + units * times / rate  # it is read once more for a sample
        elif whole is not None:
            seconds *= 1.5  # all workers read it once for the sample, then one worker twice
        elif in_rounds or engine.workers > 1:  # the rounds take about as long as reading twice
            seconds *= (2 if in_rounds else 1) / engine.workers
        total = round(units * times)
        text_mb = characters * times / 1e6
        return {
            "sources": len(sources),
            "stored_mb": stored / 1e6,
            "text_mb": text_mb,
            "units": total,
            "seconds": round(seconds + _FIXED_S + _COMPARED_S * (plan.method.name == "auto")),
            "workers": engine.workers,
            "memory_mb": round(
                peak()
                + engine.workers * _WORKER_MB[width > 0 or networks]
                + (whole.memory_mb(text_mb, total) if whole is not None else 0.0)
            ),
            "disk_mb": total * (2 * width + 28 + _ROW_BYTES) / 1e6,
            **shares,
            **decided,
        }


def _shares(plan: Plan) -> dict[str, Any]:
    """The shares that a cascade's stages pass on, and whether they are an assumption."""
    written = [s.text.share for s in stages_of(plan)[:-1]]
    assumed = min(1.0, _PASSED * plan.choose.share)
    return {
        "shares": [assumed if share is None else share for share in written],
        "assumed": written[0] is None,
    }


def _stages(
    run: Run, shares: Sequence[float], units: float, sampled: float, texts: list[str]
) -> tuple[float, bool]:
    """Seconds of a cascade's encoders, and whether there are any."""
    seconds, networks = 0.0, False
    for stage, share in zip(stages_of(run.plan), [1.0, *shares], strict=True):
        if stage.embed is not None:
            rate, _ = encoding_rate(run, stage.embed, texts)
            seconds, networks = seconds + (units * share + sampled) / rate, True
    return seconds, networks


_WORKER_MB = {False: 250, True: 1250}
"""Resident memory of a worker in MB, without and with an encoder, measured with `minilm`."""
