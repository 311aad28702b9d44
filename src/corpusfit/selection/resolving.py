"""Decides a plan before anything runs (embedder, cut) and checks its inputs."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import orjson

from corpusfit import text as corpus
from corpusfit.core.engine import Call
from corpusfit.core.errors import bad_setting
from corpusfit.core.languages import can_identify
from corpusfit.core.plan import (
    AUTO,
    PAIR,
    CutPlan,
    EmbedPlan,
    Plan,
    ReadPlan,
)
from corpusfit.core.types import Document, Reject, Source, in_file
from corpusfit.core.where import parsed
from corpusfit.embed import precision_of, reads_whole
from corpusfit.embed.folders import default_embedder
from corpusfit.embed.hardware import may_have_cuda, resolve_device
from corpusfit.scoring import registry
from corpusfit.scoring.contract import SOURCE, AnyMethod, LabelMethod
from corpusfit.selection.balance import clusters_fingerprint
from corpusfit.selection.fit import commits_of, prepare_encoder
from corpusfit.selection.labels import different_shards
from corpusfit.selection.samples import require_target
from corpusfit.text import rejects
from corpusfit.text.context import Run, RunContext, noting
from corpusfit.text.fields import Row, is_conversation
from corpusfit.text.pairs import count_languages, is_english_only, warn_english_only
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


_SOURCES = 32
"""Most sources that a field is looked for in, evenly spaced."""
_LOOKED_AT = 1_000
"""Rows of each of these."""
_NAMED = 20
"""Most fields that a message names."""


def require_fields(
    sources: Sequence[Source], read: ReadPlan, fields: Sequence[str], setting: str
) -> None:
    """Check that each field is in one of the first rows of some sources, evenly spaced."""
    without = [s.name for s in sources if not corpus.load_format(s.format).named_fields]
    if fields and without:
        cure = "Its rows have no fields but the text."
        allowed = f"left out for a corpus with {without[0]}"
        raise bad_setting(f"`{setting}`", allowed, ", ".join(fields), cure)
    for field in fields:
        # a row without its text field says which fields it has
        plan = dataclasses.replace(read, text_field=field, where="", numbers="", strict=False)
        names = dict[str, None]()
        for row in _first_rows(sources, plan):
            if not isinstance(row, Reject):
                break
            if rejects.lacks_field(row.reason):
                # rows may have different fields
                names |= dict.fromkeys(row.reason.fields)
            elif rejects.of_field(row.reason):
                break
        else:
            if names:
                shown = ", ".join([*names][:_NAMED]) + ", …" * (len(names) > _NAMED)
                near = [f" Did you mean {n!r}?" for n in difflib.get_close_matches(field, names, 1)]
                raise bad_setting(
                    f"`{setting}`",
                    f"one that reads fields of the corpus (its fields are {shown})",
                    field,
                    f"None of its first {_LOOKED_AT:,} rows has this field.{''.join(near)}",
                )


def require_groups(sources: Sequence[Source], read: ReadPlan, field: str) -> None:
    """Check that a field has groups, and that it can be read after the scores."""
    if not field or field == read.id_field:
        return
    if any(not corpus.load_format(source.format).cut_by_text for source in sources):
        raise different_shards(field)
    plan = dataclasses.replace(read, id_field=field, where="", numbers="", strict=False)
    rows = [row for row in _first_rows(sources, plan) if isinstance(row, Document)]
    decimals = any(isinstance(r.value, float) and r.value % 1 > 0 for r in rows)
    if rows and (decimals or all(row.id in (None, "") for row in rows)):
        raise bad_setting(
            "`choose.balance`",
            "a field of words, whole numbers, or true and false",
            f"field:{field}",
            f"{'Some' if decimals else 'None'} of its first {_LOOKED_AT:,} rows "
            f"{'have a decimal number' if decimals else 'has such a value'}.",
        )


def require_kept(sources: Sequence[Source], plan: Plan) -> None:
    """Check that the corpus has the fields to keep, with values that JSON can hold."""
    names = plan.choose.kept_fields()
    require_fields(sources, plan.read, names, "choose.keep")
    for row in _first_rows(sources, plan.read.keeping(names)) if names else ():
        carried = (row.fields or {}) if isinstance(row, Document) else {}
        for name in names:
            # also within an object or a list, such as the bytes of an image
            if match := _FOREIGN.search(orjson.dumps(carried.get(name))):
                allowed = "fields with text, numbers, or objects and lists of them"
                what = match[1].decode()
                cure = f"Row {in_file(row.row):,} has something else there ({what})."
                raise bad_setting("`choose.keep`", allowed, name, cure)


_FOREIGN = re.compile(rb'\{"%s":"([^"]*)"\}' % rejects.FOREIGN.encode())


def _first_rows(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Row]:
    """The first rows of some sources, evenly spaced."""
    for source in sources[:: max(1, math.ceil(len(sources) / _SOURCES))]:
        rows = (row for s in corpus.shards([source], plan) for row in corpus.rows(s, plan))
        yield from islice(rows, _LOOKED_AT)


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
    first = islice(_first_rows(run.sources, plan.read), _LOOKED_AT)
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


def require_texts_for_near(plan: Plan, sources: Sequence[Source]) -> None:
    """Check that near-duplicates are asked of texts, not of aligned pairs."""
    if plan.choose.dedup == "near" and corpus.is_parallel(sources):
        raise bad_setting("`choose.dedup`", "exact or none for aligned pairs", "near")


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


_LANGUAGE_FIELDS = ("language", "lang", "metadata.language", "meta.language")
_MIN_SHARE = 0.1  # of the target's sample, for a language to be one of the target's


def likens(method: AnyMethod) -> bool:
    """Whether the method scores how like the target a text is."""
    return not (method.ignores_target or isinstance(method, LabelMethod))


def reads_words(method: AnyMethod) -> bool:
    """Whether the method compares words, which two languages do not share."""
    if not likens(method):
        return False
    return method.reads != "embedding" and method.exact


def encoder_of(plan: Plan) -> str:
    """The encoder whose embeddings the method reads; empty for none."""
    method = registry.build(plan.method.name, plan.method.options)
    return plan.embed.embedder if method.encodes else ""


def languages_matter(run: Run, method: AnyMethod) -> bool:
    """Whether scores of texts in other languages than the target's would be unreliable."""
    if run.role != "corpus":  # texts to fit a `corpusfit.Scorer` on
        return False
    return (reads_words(method) or is_english_only(encoder_of(run.plan))) and can_identify()


def warn_of_languages(
    run: Run, method: AnyMethod, target: Sequence[str], sample: Sequence[str]
) -> None:
    """Warn if most of a sample of the corpus is in other languages than the target.

    Reference: mDAPT, section 3; Lui and Baldwin (2012), langid.py.
    """
    encoder = encoder_of(run.plan)
    target_counts = count_languages(target)
    corpus_counts = count_languages(sample)
    minimum = _MIN_SHARE * target_counts.total()
    target_languages = sorted(code for code, n in target_counts.items() if n >= minimum)
    other_counts = Counter(
        {code: n for code, n in corpus_counts.items() if code not in target_languages}
    )
    # a minority of other languages does no harm
    if not target_languages or 2 * other_counts.total() <= corpus_counts.total():
        warn_english_only(encoder, sample, run.warn)
        return
    if reads_words(method):
        why = "compares words"
    else:
        why = f"uses the encoder {encoder}, trained on English only"
    percent = 100 * other_counts.total() / corpus_counts.total()
    run.warn(
        f"{percent:.0f} % of a sample of the corpus is in other languages "
        f"({', '.join(code for code, _ in other_counts.most_common(3))}) than the target "
        f"({', '.join(target_languages)}), and {run.plan.method.name} {why}, so scores "
        f"across languages are unreliable. {_language_cure(run, target_languages)} To compare "
        "texts across languages, use a multilingual encoder with `embed.embedder=PATH` and a "
        "method that reads only embeddings, for instance `method.name=domain_cosine`."
    )


def _language_cure(run: Run, languages: Sequence[str]) -> str:
    """How to select from the texts in some languages alone."""
    if corpus.is_parallel(run.sources):
        return "Name the files of the pairs in the other order."
    named = ", ".join(map(json.dumps, languages))
    condition = f"in [{named}]" if len(languages) > 1 else f"== {named}"
    for field in _LANGUAGE_FIELDS:
        read = dataclasses.replace(run.plan.read, text_field=field, where="", numbers="")
        rows = _first_rows(run.sources, read)
        if any(isinstance(row, Document) and row.text in languages for row in rows):
            return f"To select from those in the target's, set `read.where={field} {condition}`."
    return (
        f"To select from those in the target's, name their files alone, or write the language into "
        f"a field of each row and set `read.where=language {condition}`."
    )
