"""Decides `--embedder auto` by the size of the corpus, never by measured speed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpusfit.core.engine.pace import format_duration
from corpusfit.core.plan import AUTO, CascadePlan, ChoosePlan, Plan
from corpusfit.core.types import Source
from corpusfit.embed.folders import default_embedder
from corpusfit.embed.hardware import cpu_has_bf16, may_have_cuda, resolve_device
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method

WHOLE = {"cpu": 4e6, "cuda": 4e8}
"""Bytes of text of which `minilm` encodes every unit: about 3 minutes on two cores."""

STAGE = {"cpu": 3e7, "cuda": 1e9}
"""Most bytes of text in the `minilm` stage of a cascade: 5 to 17 minutes on two cores."""

PASSED = 1.5
"""Least share of the text in that stage, per share that is selected: 1.22 was enough for a recall
of 0.95 (docs/benchmarks.md)."""

HALF = 0.5
"""Share of a smaller corpus in that stage, unless more is needed."""

UNPACKED = 4
"""Bytes of text per stored byte of a compressed file."""

SAMPLED = 1.2e7
"""Bytes of the target's and the sample's units, of which `auto` needs embeddings."""

FIXED = 20.0
"""Seconds of a `select` that do not grow with the corpus."""

SHORT = 60.0
"""Seconds of a run that needs no announcement."""

PER_BYTE = {"text": 6e-8, "static": 1e-7, "cpu": 7e-5, "bf16": 1.8e-5, "cuda": 5e-7}
"""Seconds of one worker for a byte of text: read and score words, and embed too by `static`, or by
`minilm` on a CPU, on one that multiplies bf16, or on a GPU. Measured on two cores with AVX2, and
with AMX for bf16; the GPU's is a guess. They are only said."""


_STATIC, _MINILM = "`embed.embedder=static`", "`embed.embedder=minilm`"
_WORDS = "`method.name=moore_lewis`, on words alone,"


def by_size(
    plan: Plan,
    sources: Sequence[Source],
    *,
    workers: int,
    cascade: bool,
) -> tuple[Plan, str, str]:
    """The plan with an embedder in the place of `auto`, and why."""
    # `minilm` for a small corpus. For a larger one `static`; if the method scores each unit by its
    # embedding, `static` passes on what `minilm` then scores, as long as that is bounded. `static`
    # for all where `minilm` is not installed.
    if plan.embed.embedder != AUTO:
        return plan, "", ""
    name, text = plan.method.name, _text_bytes(sources)
    method = None if name == AUTO else registry.build(name, plan.method.options)
    reads = method is None or method.encodes
    best = default_embedder() if reads else "minilm"
    if not reads or plan.cascade.stages:
        return _with(plan, best), "", ""
    if best == "static":
        why = "The embedder is static, as minilm is not installed: pip install 'corpusfit[minilm]'."
        return _with(plan, best), why, ""
    device = "cpu"
    if text > WHOLE["cpu"] and plan.embed.device != "cpu" and may_have_cuda():
        device = resolve_device("auto", "embed")
    encoded = text if method is not None else min(text, SAMPLED)
    times = _Times(text, encoded, device, workers)
    words = {_WORDS: times.seconds("text")} if method is None else {}
    if text <= WHOLE[device]:
        why = f"The embedder is minilm, because the corpus has only {_size(text)} of text."
        short = times.seconds(device) < SHORT
        said = times.said(device, {_STATIC: times.seconds("static"), **words})
        return _with(plan, "minilm"), why, "" if short else said
    staging = cascade and isinstance(method, Method)
    needed = PASSED * _selected(plan.choose) if staging else float("inf")
    if needed * text <= STAGE[device]:
        return _staged(plan, times, needed)
    why = (
        f"The embedder is static, because the corpus has {_size(text)} of text; minilm is for up "
        f"to {_size(WHOLE[device])}."
    )
    others = {_MINILM: times.seconds(device), **words}
    if needed < 1:
        staged = dataclasses.replace(times, encoded=needed * text + SAMPLED)
        others = {"`cascade.stages=static>minilm`": staged.seconds(device), **others}
    return _with(plan, "static"), why, times.said("static", others)


def _staged(plan: Plan, times: _Times, needed: float) -> tuple[Plan, str, str]:
    """As `by_size`: the cascade of `static` and `minilm`, which scores at least a share."""
    # `minilm` alone where the cascade would embed as much, since it embeds samples too.
    share = min(1.0, max(needed, min(HALF, STAGE[times.device] / times.text)))
    staged = dataclasses.replace(times, encoded=share * times.text + SAMPLED)
    others = {_STATIC: times.seconds("static")}
    if staged.encoded >= times.text:
        why = f"The embedder is minilm: a cascade would embed as much of {_size(times.text)}."
        return _with(plan, "minilm"), why, times.said(times.device, others)
    why = f"static passes {100 * share:.2g} % of the corpus on to minilm."
    stages = CascadePlan(f"static:{share:.2g}>minilm")
    plan = dataclasses.replace(_with(plan, "minilm"), cascade=stages)
    return plan, why, staged.said(times.device, {_MINILM: times.seconds(times.device), **others})


@dataclass(frozen=True)
class _Times:
    """About how long a run takes."""

    text: float
    encoded: float  # bytes that are embedded
    device: str  # that of `minilm`
    workers: int

    def seconds(self, way: str) -> float:
        """Seconds by an entry of `PER_BYTE`."""
        way = "bf16" if way == "cpu" and cpu_has_bf16() else way
        own = PER_BYTE[way] * (self.encoded if way != "text" else 0)
        workers = 1 if way == "cuda" else self.workers
        return FIXED + PER_BYTE["text"] * self.text / self.workers + own / workers

    def said(self, way: str, others: Mapping[str, float]) -> str:
        """How long a way takes, and what others take."""
        if self.text == float("inf"):
            return f"Instead: {', '.join(others)}."
        named = [f"{other} takes about {format_duration(s)}" for other, s in others.items()]
        own = format_duration(self.seconds(way))
        return f"About {own} on an idle machine; instead, {', '.join(named)}."


def _selected(amount: ChoosePlan) -> float:
    """The share of the corpus that is selected; 1 if it is not known in advance."""
    known = amount.segments is None and amount.tokens is None and amount.threshold is None
    plain = amount.policy == "top" and not amount.balance and amount.fraction != AUTO
    return amount.share if known and plain else 1.0


def _with(plan: Plan, embedder: str) -> Plan:
    return dataclasses.replace(plan, embed=dataclasses.replace(plan.embed, embedder=embedder))


def _text_bytes(sources: Sequence[Source]) -> float:
    """About the bytes of text; a dataset whose size is unknown counts as large."""
    return sum(
        s.size * (UNPACKED if s.compression or s.format == "parquet" else 1) or float("inf")
        for s in sources
    )


def _size(text: float) -> str:
    if text == float("inf"):
        return "an unknown amount"
    return f"{text / 1e9:,.3g} GB" if text >= 1e9 else f"{text / 1e6:,.3g} MB"
