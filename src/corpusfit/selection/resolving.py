"""Decides all that a plan leaves open, before anything is scored, and refuses what cannot be done.

Each command that scores has one function here, from its request and its inputs to a `Resolved`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.engine import Call
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import AUTO, PAIR, ChoosePlan, CutPlan, EmbedPlan, Plan
from corpusfit.core.types import Document, Source
from corpusfit.core.where import parsed
from corpusfit.embed import precision_of, reads_whole
from corpusfit.embed.folders import default_embedder
from corpusfit.embed.hardware import may_have_cuda, resolve_device
from corpusfit.scoring import registry
from corpusfit.scoring.contract import SOURCE, AnyMethod, LabelMethod
from corpusfit.scoring.table import MAX_SOURCES
from corpusfit.selection.balance import check_shares, clusters_fingerprint
from corpusfit.selection.fit import commits_of, pin_encoder
from corpusfit.selection.input_checks import (
    LOOKED_AT,
    first_rows,
    require_fields,
    require_groups,
    require_kept,
    require_target,
    require_texts_for_near,
    warn_of_other_fields,
)
from corpusfit.selection.resolved import Resolved
from corpusfit.text.context import Run, noting
from corpusfit.text.fields import is_conversation
from corpusfit.text.input import Input
from corpusfit.text.reading import cut_units

EMBEDDERS = ("minilm", "static")


def resolve(
    run: Run,
    plan: Plan,
    target_inputs: Sequence[str],
    corpus_inputs: Sequence[str],
    *,
    role: str = "corpus",
) -> Resolved:
    """Resolve a selection.

    Args:
        run: the running command.
        plan: the request.
        target_inputs: files, folders, globs, URLs or datasets.
        corpus_inputs: texts to choose from, in the same forms.
        role: the argument that names these; messages name it.
    """
    # what needs no input, as to find the inputs may take minutes
    plan = _by_lines(plan.check(), corpus_inputs)
    asked = registry.with_embedder(plan.method, plan.embed.embedder)
    method = registry.usable(asked.name, asked.options)
    if isinstance(method, LabelMethod) and method.truth != SOURCE:  # a label is read as the id
        plan = plan.with_value("read.id_field", method.truth)
    plan = plan.with_value("read.numbers", ",".join(method.fields))

    # what needs the inputs and their first rows
    target, texts = _found(run, plan, target_inputs, corpus_inputs, role)
    embedder, embedder_reason = embedder_for(plan.embed, texts.sources, encodes=method.encodes)
    plan = plan.with_value("embed.embedder", embedder)
    method_plan = registry.with_embedder(plan.method, embedder)
    cut, cut_reason = _cut_for(plan, target, texts, [method])
    plan = dataclasses.replace(plan, method=method_plan, cut=cut)
    for reason in filter(None, (embedder_reason, cut_reason)):
        run.progress.note(reason)

    # what needs the models: one can change under its name, and `auto` can choose another precision
    # on another machine
    method = registry.build(method_plan.name, method_plan.options)
    encoder = None
    precision = ""
    commits: dict[str, str] = {}
    if method.encodes:
        run.engine.require_shared(run.cache, "`cache`")
        encoder, commits = pin_encoder(run, plan.embed)
        precision = run.one(Call(precision_of, encodes=True), plan.embed)
        if embedder not in EMBEDDERS and run.one(reads_whole, plan.embed):
            run.warn(
                f"The tokenizer of {embedder} does not cut texts at words as BERT's does, so it "
                "reads every text whole: embedding takes up to ten times as long as with other "
                "static models."
            )
    commits |= commits_of(run.engine, method.models)
    files = {file: corpus.fingerprint(file)[0] for file in sorted(set(method.files))}
    clusters = clusters_fingerprint(run, plan.choose.clusters) if plan.choose.clusters else ""
    reasons = (embedder_reason, cut_reason)
    return Resolved(plan, target, texts, *reasons, encoder, precision, commits, files, clusters)


def resolve_again(
    run: Run, scored: Path, manifest: Mapping[str, Any], amount: ChoosePlan
) -> Resolved:
    """Resolve another choice from the scores of a run in a folder, by its manifest."""
    before = Resolved.stored(manifest)
    plan = dataclasses.replace(before.plan, choose=amount).check()
    sources = run.find_again(before.corpus.sources, plan.read, scored)
    texts = dataclasses.replace(before.corpus, sources=sources)
    _require_choice(texts, amount)
    clusters = clusters_fingerprint(run, amount.clusters) if amount.clusters else ""
    return dataclasses.replace(before, plan=plan, corpus=texts, clusters=clusters)


def resolve_ranking(
    run: Run,
    plan: Plan,
    target_inputs: Sequence[str],
    corpus_inputs: Sequence[str],
    names: Sequence[str],
) -> Resolved:
    """Resolve a comparison of methods on one sample; all of them get one cut and one embedder."""
    # what needs no input
    labels = [name for name in names if issubclass(registry.load(name), LabelMethod)]
    if labels:
        raise bad_setting("`method`", "a method that scores texts, not labels", ", ".join(labels))
    options = plan.method.options if len(names) == 1 else {}
    methods = [registry.build(name, options) for name in names]
    plan = _by_lines(plan, corpus_inputs)
    fields = dict.fromkeys(field for method in methods for field in method.fields)
    plan = plan.with_value("read.numbers", ",".join(fields))

    # what needs the inputs and their first rows
    target, texts = _found(run, plan, target_inputs, corpus_inputs)
    encoding = any(method.encodes for method in methods)
    if encoding:
        embedder, _ = embedder_for(plan.embed, texts.sources, encodes=True)
        plan = plan.with_value("embed.embedder", embedder)
    # the cut of methods on words, as of the default
    comparing = [method for method in methods if method.compares_words]
    cut, reason = _cut_for(plan, target, texts, comparing or methods)
    plan = dataclasses.replace(plan, cut=cut)
    if reason and encoding:
        reason += f" A selection by embeddings takes {CutPlan().most}."
    if reason:
        run.progress.note(reason)
    if cut.gamma > 1:
        run.warn(
            f"Methods are compared by single units, not by the segments of {cut.gamma} units "
            "(`cut.gamma`) that `select` takes."
        )

    # what needs the encoder
    encoder = None
    commits: dict[str, str] = {}
    if encoding:
        encoder, commits = pin_encoder(run, plan.embed)
    return Resolved(plan, target, texts, encoder=encoder, commits=commits)


def _by_lines(plan: Plan, corpus_inputs: Sequence[str]) -> Plan:
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
    why = "Only a whole line of a pair has a translation, so each line is one segment."
    return dataclasses.replace(plan, cut=_whole(plan.cut, "aligned pairs", why))


def _whole(cut: CutPlan, rows: str, why: str) -> CutPlan:
    """The cut with whole rows as segments; an error if it asks for parts of them."""
    if cut.unit not in ("document", "window"):  # the default
        raise bad_setting("`cut.unit`", f"document or left out with {rows}", cut.unit, why)
    return dataclasses.replace(cut, unit="document")


def _found(
    run: Run,
    plan: Plan,
    target_inputs: Sequence[str],
    corpus_inputs: Sequence[str],
    role: str = "corpus",
) -> tuple[Input, Input]:
    """Find target and corpus; refuse what lacks the rows or the fields that the plan asks for."""
    run.engine.needs_gpu = plan.embed.needs_gpu
    read = plan.target_read
    with noting("find inputs", run.seconds):
        target = Input(run.find(target_inputs, read, "target"), read, "target")
        sources = run.find(corpus_inputs, plan.read, role)
    texts = Input(sources, plan.read, role, with_target=not plan.fit.target_field)
    warn_of_other_fields(run, texts)
    filtered = parsed(plan.read.where).fields if plan.read.where else ()
    require_fields(texts, filtered, "read.where")
    require_fields(texts, plan.read.number_fields(), "method.name")
    _require_choice(texts, plan.choose)
    require_target(target)
    return target, texts


def _require_choice(texts: Input, choose: ChoosePlan) -> None:
    """Refuse a choice by groups or fields that the corpus lacks."""
    group = choose.balance.partition("field:")[2]
    require_fields(texts, [group] if group else [], "choose.balance")
    if choose.balance == "source" and len(texts.names) <= MAX_SOURCES:
        check_shares(choose.quota_shares(), texts.names, "source")
    require_groups(texts, group)
    require_kept(texts, choose.kept_fields())
    require_texts_for_near(texts, choose.dedup)


_LENGTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Word pieces of a unit that follows the target: shorter ones leave the domain, and a model learns
less of long texts from short ones (benchmarks/log.md, 2026-11-28 and 2026-11-29)."""
_LARGE = {1e11: 128, 1e12: 256}
"""Least word pieces of a unit of a corpus with more bytes of text: at 64 `scores/` has 63 MB per
GB, at 128 half of that."""


def _cut_for(
    plan: Plan, target: Input, texts: Input, methods: Iterable[AnyMethod]
) -> tuple[CutPlan, str]:
    """The cut that fits corpus, target and methods, and a sentence that says why.

    Conversations stay whole. The word pieces of a `window`, if the plan leaves them out, are for
    methods on words about as many as the median text of the target has. Others take long ones:
    a short unit would cost as many bytes for its embedding, and what reads labels or fields finds
    the same in each unit of a document.
    """
    cut = plan.cut
    first = islice(first_rows(texts.sources, texts.read), LOOKED_AT)
    if cut.unit != "document" and any(
        isinstance(row, Document) and is_conversation(row.fields, texts.read.text_field)
        for row in first
    ):
        why = "A model is trained on the assistant's turns of whole conversations."
        return _whole(cut, "conversations", why), "Conversations are selected whole."
    if cut.pieces is not None or cut.unit != "window":
        return cut, ""
    if any(m.encodes or m.fields or isinstance(m, LabelMethod) for m in methods):
        return dataclasses.replace(cut, pieces=cut.most), ""
    lengths: list[int] = []
    for shard in corpus.shards(target.sources, target.read):
        usable, _ = corpus.documents(shard, target.read)
        lengths += cut_units(usable, CutPlan("document"))[0].pieces.tolist()
    median = float(np.median(lengths))
    pieces = min(_LENGTHS, key=lambda length: (abs(length - median), -length))
    nearest = f"the nearest of {_LENGTHS[0]} to {_LENGTHS[-1]:,}"
    reason = f"the target's median text has about {median:,.0f} ({nearest})"
    text = _text_bytes(texts.sources)
    least = max((p for size, p in _LARGE.items() if text > size), default=0)
    if pieces < least:
        pieces = least
        reason = f"the corpus has {_size(text)} of text"
    reason = f"Units have at most {pieces} word pieces (`cut.pieces`), as {reason}."
    return dataclasses.replace(cut, pieces=pieces), reason


WHOLE = {"cpu": 4e6, "cuda": 4e8}
"""Bytes of text up to which `minilm` encodes every unit: about 3 minutes on two cores."""

UNPACKED = 4
"""Bytes of text per stored byte of a compressed file."""


def embedder_for(embed: EmbedPlan, sources: Sequence[Source], *, encodes: bool) -> tuple[str, str]:
    """The embedder of a plan, `auto` resolved by the size of the corpus, and the reason."""
    # `minilm` for a small corpus, `static` for a larger one and where `minilm` is not installed
    if embed.embedder != AUTO:
        return embed.embedder, ""
    if not encodes:
        return "minilm", ""
    if default_embedder() == "static":
        why = "The embedder is static, as minilm is not here: `embed.embedder=minilm` downloads it."
        return "static", why
    # torch is slow to import, so look for a GPU only if a CPU would be too slow
    text = _text_bytes(sources)
    device = "cpu"
    if text > WHOLE["cpu"] and embed.device != "cpu" and may_have_cuda():
        device = resolve_device("auto", "embed")
    if text <= WHOLE[device]:
        why = f"The embedder is minilm, because the corpus has only {_size(text)} of text."
        return "minilm", f"{why} `embed.embedder=static` is faster."
    why = (
        f"The embedder is static, because the corpus has {_size(text)} of text; "
        f"`embed.embedder=minilm` is for up to {_size(WHOLE[device])}."
    )
    return "static", why


def _text_bytes(sources: Sequence[Source]) -> float:
    """About the bytes of text; a dataset whose size is unknown counts as large."""
    return sum(
        s.size * (UNPACKED if s.compression or s.format == "parquet" else 1)
        if s.size or corpus.files_of(s)  # a file may be empty
        else float("inf")
        for s in sources
    )


def _size(text: float) -> str:
    if text == float("inf"):
        return "an unknown amount"
    return f"{text / 1e9:,.3g} GB" if text >= 1e9 else f"{text / 1e6:,.3g} MB"
