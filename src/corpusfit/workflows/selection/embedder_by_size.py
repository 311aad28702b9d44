"""Decides `--embedder auto` by the size of the corpus, never by measured speed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from corpusfit.embed.hardware import resolve_device
from corpusfit.plan import AUTO, CascadePlan, ChoosePlan, Plan
from corpusfit.score import registry
from corpusfit.score.contract import Method
from corpusfit.types import Source

WHOLE = {"cpu": 4e6, "cuda": 4e8}
"""Bytes of text of which `minilm` encodes every unit: about 3 minutes on two cores."""

STAGE = {"cpu": 1e7, "cuda": 1e9}
"""Most bytes of text in the `minilm` stage of a cascade."""

PASSED = 1.5
"""The share of the text in that stage, per share that is selected: on the pile of the benchmarks
95 % of what `minilm` alone selects is in it."""

UNPACKED = 4
"""Bytes of text per stored byte of a compressed file."""


def by_size(plan: Plan, sources: Sequence[Source], *, cascade: bool) -> tuple[Plan, str]:
    """The plan with an embedder in the place of `auto`, and why in a sentence.

    `minilm` for a small corpus. For a larger one `static`; if the method scores each unit by its
    embedding, `static` passes on what `minilm` then scores, as long as that is bounded.

    Args:
        plan: of `select`, `score` or `rank`.
        sources: the corpus.
        cascade: whether it may become a cascade, whose scores are for one selection.

    Returns:
        The plan, and a sentence; empty if nothing was to be decided.
    """
    if plan.embed.embedder != AUTO:
        return plan, ""
    name, text = plan.method.name, _text_bytes(sources)
    method = None if name == AUTO else registry.build(name, plan.method.options)
    reads = method is None or method.encodes
    if not reads or plan.cascade.stages or plan.auto.budget or text <= WHOLE["cpu"]:
        return _with(plan, "minilm"), ""
    device = "cpu" if plan.embed.device == "cpu" else resolve_device("auto", "embed")
    if text <= WHOLE[device]:
        return _with(plan, "minilm"), ""
    share = STAGE[device] / text
    if cascade and isinstance(method, Method) and PASSED * _selected(plan.choose) <= share:
        stages = CascadePlan(f"static:{share:.2g}>minilm")
        why = f"static passes {share:.2g} of {_size(text)} of text on to minilm"
        return dataclasses.replace(_with(plan, "minilm"), cascade=stages), _sentence(why)
    why = f"{_size(text)} of text are encoded by static, because minilm takes hours per GB"
    if device == "cuda":
        why = f"{_size(text)} of text are encoded by static; minilm is for {_size(WHOLE[device])}"
    return _with(plan, "static"), _sentence(why)


def _selected(amount: ChoosePlan) -> float:
    """The share of the corpus that is selected; 1 if it is not known in advance."""
    known = amount.segments is None and amount.tokens is None and amount.threshold is None
    plain = amount.policy == "top" and not amount.balance and amount.fraction != AUTO
    return amount.share if known and plain else 1.0


def _sentence(why: str) -> str:
    return f"{why[0].upper()}{why[1:]}. To encode all of it by minilm: <embed.embedder=minilm>."


def _with(plan: Plan, embedder: str) -> Plan:
    return dataclasses.replace(plan, embed=dataclasses.replace(plan.embed, embedder=embedder))


def _text_bytes(sources: Sequence[Source]) -> float:
    """About the bytes of text; a dataset whose size is unknown counts as large."""
    return sum(
        s.size * (UNPACKED if s.compression or s.format == "parquet" else 1) or float("inf")
        for s in sources
    )


def _size(text: float) -> str:
    return f"{text / 1e6:,.0f} MB" if text < float("inf") else "a dataset of unknown size"
