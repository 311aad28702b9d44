"""Warns if target and corpus are in different languages and the method cannot bridge them."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from corpusfit import text as corpus
from corpusfit.core.languages import can_identify, identifier
from corpusfit.core.plan import Plan, ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.scoring import registry
from corpusfit.scoring.contract import LabelMethod
from corpusfit.text.context import Run
from corpusfit.text.pairs import is_english_only, sampled, warn_english_only, with_side

_SOURCES = 32  # maximum number of sources in the sample, evenly spaced
_TEXTS = 8  # texts from each of these; more if there are fewer sources
_MIN_SHARE = 0.1  # of the target's sample, for a language to be one of the target's


def reads_words(plan: Plan) -> bool:
    """Whether the method compares words, which two languages do not share."""
    name = plan.method.name
    if name == "auto":
        return True
    method_class = registry.load(name)
    if name == "random" or issubclass(method_class, LabelMethod):
        return False
    method = registry.build(name, plan.method.options)
    return method.reads != "embedding" and method.exact


def encoder_of(plan: Plan) -> str:
    """The encoder whose embeddings the method reads; empty for none."""
    name = plan.method.name
    encodes = name == "auto" or registry.build(name, plan.method.options).encodes
    return plan.embed.embedder if encodes else ""


def choose_side(run: Run) -> None:
    """Decide which side of a parallel corpus is scored, and put it into the plan."""
    corpus_sample = sampled(run.sources, run.plan.read)
    target_sample = sampled(run.target, run.plan.target_read)
    encoder = encoder_of(run.plan)
    read = with_side(run.plan.read, encoder, run.progress.note, corpus_sample, target_sample)
    run.plan = run.asked = dataclasses.replace(run.plan, read=read)


def warn_language_mismatch(run: Run) -> None:
    """Warn if most of the corpus is in other languages than the target and scores would suffer."""
    # Checks the first texts of some sources; skipped without the extra `languages`.
    # Reference: mDAPT, section 3; Lui and Baldwin (2012), langid.py.
    encoder = encoder_of(run.plan)
    compares_words = reads_words(run.plan)
    if not ((compares_words or is_english_only(encoder)) and can_identify()):
        return
    identify = identifier()

    def count_languages(sources: Sequence[Source], read: ReadPlan) -> Counter[str]:
        return Counter(filter(None, map(identify, _sample(sources, read))))

    target_counts = count_languages(run.target, run.plan.target_read)
    corpus_counts = count_languages(run.sources, run.plan.read)
    minimum = _MIN_SHARE * target_counts.total()
    target_languages = {code for code, n in target_counts.items() if n >= minimum}
    other_counts = Counter(
        {code: n for code, n in corpus_counts.items() if code not in target_languages}
    )
    if not target_languages or 2 * other_counts.total() <= corpus_counts.total():
        warn_english_only(encoder, run.sources, run.plan.read, "the corpus", run.warn)
        return
    if compares_words:
        why = "compares words"
    else:
        why = f"uses the encoder {encoder}, trained on English only"
    percent = 100 * other_counts.total() / corpus_counts.total()
    run.warn(
        f"{percent:.0f} % of a sample of the corpus is in other languages "
        f"({', '.join(code for code, _ in other_counts.most_common(3))}) than the target "
        f"({', '.join(sorted(target_languages))}), and {run.plan.method.name} {why}, so scores "
        "across languages are unreliable. Use a multilingual encoder with `embed.embedder=PATH` "
        "and a method that reads only embeddings, for instance `method.name=centroid_distance`."
    )


def _sample(sources: Sequence[Source], read: ReadPlan) -> Iterator[str]:
    """The first texts of evenly spaced sources."""
    step = max(1, math.ceil(len(sources) / _SOURCES))
    texts_per_source = _TEXTS * max(1, _SOURCES // len(sources[::step]))
    for source in sources[::step]:
        texts = (
            row.text
            for shard in corpus.shards([source], read)
            for row in corpus.rows(shard, read)
            if isinstance(row, Document)
        )
        yield from islice(texts, texts_per_source)
