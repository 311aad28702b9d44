"""Decides a plan before anything runs (embedder, cut)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.engine import Call
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import (
    AUTO,
    PAIR,
    CutPlan,
    EmbedPlan,
    Plan,
)
from corpusfit.core.types import Document, Source
from corpusfit.core.where import parsed
from corpusfit.embed import precision_of, reads_whole
from corpusfit.embed.folders import default_embedder
from corpusfit.embed.hardware import may_have_cuda, resolve_device
from corpusfit.scoring import registry
from corpusfit.scoring.contract import SOURCE, AnyMethod, LabelMethod
from corpusfit.selection.balance import clusters_fingerprint
from corpusfit.selection.fit import commits_of, prepare_encoder
from corpusfit.selection.input_checks import (
    LOOKED_AT,
    first_rows,
    require_fields,
    require_groups,
    require_kept,
    require_target,
    require_texts_for_near,
)
from corpusfit.text.context import Run, RunContext, noting
from corpusfit.text.fields import is_conversation
from corpusfit.text.reading import cut_units

EMBEDDERS = ("minilm", "static")


@dataclass(frozen=True)
class Resolved:
    """What is decided before a command runs; the steps read it instead of the plan's texts."""

    plan: Plan  # final, as the manifest states it
    embedder_reason: str = ""  # why `embed.embedder=auto` became this model; empty for a named one
    cut_reason: str = ""  # why units have so many word pieces; empty if the plan says how many

    @classmethod
    def of(cls, plan: Plan, embedder_reason: str = "") -> Resolved:
        """Give the method the embedder that it is without."""
        method = registry.with_embedder(plan.method, plan.embed.embedder)
        return cls(dataclasses.replace(plan, method=method), embedder_reason)

    @classmethod
    def stored(cls, manifest: Mapping[str, Any]) -> Resolved:
        """Restore the decisions of a run from its manifest."""
        plan = Plan.from_dict(manifest["plan"])
        return cls(plan, manifest.get("embedder_reason", ""), manifest.get("cut_reason", ""))

    @cached_property
    def method(self) -> AnyMethod:
        """The method with its settings."""
        return registry.build(self.plan.method.name, self.plan.method.options)

    @property
    def embeds(self) -> list[EmbedPlan]:
        """The settings of the encoder that the method reads; none if it reads none."""
        return [self.plan.embed] if self.method.encodes else []


def checked(plan: Plan, corpus_inputs: Sequence[str]) -> Plan:
    """Check a plan as far as possible before inputs are read, which may take minutes."""
    plan = whole_lines(plan.check(), corpus_inputs)
    resolved = Resolved.of(plan)
    method = resolved.method
    if isinstance(method, LabelMethod) and method.truth != SOURCE:  # a label is read as the id
        plan = dataclasses.replace(plan, read=dataclasses.replace(plan.read, id_field=method.truth))
    usable = registry.usable(resolved.plan.method.name, resolved.plan.method.options)
    return with_numbers(plan, [usable])


def with_numbers(plan: Plan, methods: Iterable[AnyMethod]) -> Plan:
    """The plan with the fields that methods score by, whose numbers are read with the texts."""
    fields = dict.fromkeys(field for method in methods for field in method.fields)
    return plan.with_value("read.numbers", ",".join(fields))


def open_run(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], context: RunContext
) -> Run:
    """Find the inputs of a plan."""
    context.engine.needs_gpu = plan.embed.needs_gpu
    seconds: dict[str, float] = {}
    with noting("find inputs", seconds):
        targets = context.find(target, plan.target_read, "target")
        sources = context.find(corpus_inputs, plan.read, "corpus")
    filtered = parsed(plan.read.where).fields if plan.read.where else ()
    require_fields(sources, plan.read, filtered, "read.where")
    require_fields(sources, plan.read, plan.read.number_fields(), "method.name")
    group = plan.choose.balance.partition("field:")[2]
    require_fields(sources, plan.read, [group] if group else [], "choose.balance")
    require_groups(sources, plan.read, group)
    require_kept(sources, plan)
    run = Run.of(context, plan, targets, sources, seconds=seconds)
    require_target(run)
    return run


def resolve(run: Run) -> Resolved:
    """Resolve what the plan leaves open, given the inputs, and check both together."""
    plan, reason = by_size(run.plan, run.sources)
    if reason:
        run.progress.note(reason)
    resolved = Resolved.of(plan, reason)
    require_texts_for_near(plan, run.sources)
    plan, cut_reason = with_cut(run, resolved.plan, [resolved.method])
    if cut_reason:
        run.progress.note(cut_reason)
    return dataclasses.replace(resolved, plan=plan, cut_reason=cut_reason)


_LENGTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Word pieces of a unit that follows the target: shorter ones leave the domain, and a model learns
less of long texts from short ones (benchmarks/log.md, 2026-11-28 and 2026-11-29)."""
_LARGE = {1e11: 128, 1e12: 256}
"""Least word pieces of a unit of a corpus with more bytes of text: at 64 `scores/` has 63 MB per
GB, at 128 half of that."""


def with_cut(run: Run, plan: Plan, methods: Iterable[AnyMethod]) -> tuple[Plan, str]:
    """The plan with a cut that fits corpus, target and methods, and a sentence that says why.

    Conversations stay whole. The word pieces of a `window`, if the plan leaves them out, are for
    methods on words about as many as the median text of the target has. Others take long ones:
    a short unit would cost as many bytes for its embedding, and what reads labels or fields finds
    the same in each unit of a document.
    """
    first = islice(first_rows(run.sources, plan.read), LOOKED_AT)
    if plan.cut.unit != "document" and any(
        isinstance(row, Document) and is_conversation(row.fields, plan.read.text_field)
        for row in first
    ):
        why = "A model is trained on the assistant's turns of whole conversations."
        return _whole(plan, "conversations", why), "Conversations are selected whole."
    if plan.cut.pieces is not None or plan.cut.unit != "window":
        return plan, ""
    pieces = plan.cut.most
    reason = ""
    if not any(m.encodes or m.fields or isinstance(m, LabelMethod) for m in methods):
        read = plan.target_read
        lengths: list[int] = []
        for shard in corpus.shards(run.target, read):
            usable, _ = corpus.documents(shard, read)
            lengths += cut_units(usable, CutPlan("document"))[0].pieces.tolist()
        median = float(np.median(lengths))
        pieces = min(_LENGTHS, key=lambda length: (abs(length - median), -length))
        nearest = f"the nearest of {_LENGTHS[0]} to {_LENGTHS[-1]:,}"
        reason = f"the target's median text has about {median:,.0f} ({nearest})"
        text = _text_bytes(run.sources)
        least = max((p for size, p in _LARGE.items() if text > size), default=0)
        if pieces < least:
            pieces = least
            reason = f"the corpus has {_size(text)} of text"
        reason = f"Units have at most {pieces} word pieces (`cut.pieces`), as {reason}."
    return dataclasses.replace(plan, cut=dataclasses.replace(plan.cut, pieces=pieces)), reason


def prepared(run: Run, resolved: Resolved) -> Run:
    """The run with the final plan, and with fingerprints of what else decides its scores.

    A model can change under its name, and `auto` can choose another precision on another machine.
    """
    plan = resolved.plan
    method = resolved.method
    encoder = None
    precision = ""
    commits: dict[str, str] = {}
    if method.encodes:
        run.engine.require_shared(run.cache, "`cache`")
        with run.stage("prepare encoder"):
            encoder = prepare_encoder(run, plan.embed)
            (precision,) = run.engine.map(Call(precision_of, encodes=True), [plan.embed])
            is_external = plan.embed.embedder not in EMBEDDERS
            if is_external and run.one(reads_whole, plan.embed):
                run.warn(
                    f"The tokenizer of {plan.embed.embedder} does not cut texts at words as "
                    "BERT's does, so it reads every text whole: embedding takes up to ten times "
                    "as long as with other static models."
                )
            commits = commits_of(run.engine, [plan.embed.embedder])
    commits |= commits_of(run.engine, method.models)
    return dataclasses.replace(
        run,
        plan=plan,
        encoder=encoder,
        precision=precision,
        commits=commits,
        files={file: corpus.fingerprint(file)[0] for file in sorted(set(method.files))},
        clusters=clusters_fingerprint(run, plan.choose),
    )


def whole_lines(plan: Plan, corpus_inputs: Sequence[str]) -> Plan:
    """The plan with one unit, and so one segment, per line if the corpus is of aligned pairs.

    Raises:
        UsageError: the plan asks for parts of a line, or for the carried text of pairs.
    """
    if not any(map(corpus.is_pair, corpus_inputs)):
        return plan
    if plan.read.text_field == PAIR[1]:
        cure = "Name the files in the other order, as pair:FILE.en,FILE.de; set the target's field "
        allowed = "left out: of aligned pairs the first text is read"
        cure += "by `fit.target_field`."
        raise bad_setting("`read.text_field`", allowed, PAIR[1], cure)
    if plan.cut.unit == "document":
        return plan
    why = "Only a whole line of a pair has a translation, so each line is one segment."
    return _whole(plan, "aligned pairs", why)


def _whole(plan: Plan, rows: str, why: str) -> Plan:
    """The plan with whole rows as segments; an error if it asks for parts of them."""
    if plan.cut.unit != "window":  # the default
        raise bad_setting("`cut.unit`", f"document or left out with {rows}", plan.cut.unit, why)
    return dataclasses.replace(plan, cut=dataclasses.replace(plan.cut, unit="document"))


WHOLE = {"cpu": 4e6, "cuda": 4e8}
"""Bytes of text up to which `minilm` encodes every unit: about 3 minutes on two cores."""

UNPACKED = 4
"""Bytes of text per stored byte of a compressed file."""


def by_size(plan: Plan, sources: Sequence[Source]) -> tuple[Plan, str]:
    """Resolve embedder `auto` by the size of the corpus; returns the plan and the reason."""
    # `minilm` for a small corpus, `static` for a larger one and where `minilm` is not installed
    if plan.embed.embedder != AUTO:
        return plan, ""
    text = _text_bytes(sources)
    method = registry.build(plan.method.name, plan.method.options)
    if not method.encodes:
        return _embedding(plan, "minilm"), ""
    best = default_embedder()
    if best == "static":
        why = "The embedder is static, as minilm is not here: `embed.embedder=minilm` downloads it."
        return _embedding(plan, best), why
    # torch is slow to import, so look for a GPU only if a CPU would be too slow
    device = "cpu"
    if text > WHOLE["cpu"] and plan.embed.device != "cpu" and may_have_cuda():
        device = resolve_device("auto", "embed")
    if text <= WHOLE[device]:
        why = f"The embedder is minilm, because the corpus has only {_size(text)} of text."
        return _embedding(plan, "minilm"), f"{why} `embed.embedder=static` is faster."
    why = (
        f"The embedder is static, because the corpus has {_size(text)} of text; "
        f"`embed.embedder=minilm` is for up to {_size(WHOLE[device])}."
    )
    return _embedding(plan, "static"), why


def _embedding(plan: Plan, embedder: str) -> Plan:
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
