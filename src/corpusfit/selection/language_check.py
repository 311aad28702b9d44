"""Warns if target and corpus are in different languages and the method cannot bridge them."""

from __future__ import annotations

import dataclasses
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

_SOURCES, _TEXTS = 32, 8
"""Number of sources in the sample, evenly spaced, and of first texts of each."""
_USUAL = 0.1
"""A language with this share of the target's sample or more is a language of the target."""


def reads_words(plan: Plan) -> bool:
    """Whether the method compares words, which two languages do not share."""
    name = plan.method.name
    if name == "auto":
        return True
    kind = registry.load(name)
    if name == "random" or issubclass(kind, LabelMethod):
        return False
    method = registry.build(name, plan.method.options)
    return method.reads != "embedding" and method.exact


def encoder_of(plan: Plan) -> str:
    """The encoder whose embeddings the method reads; empty for none."""
    name = plan.method.name
    encodes = name == "auto" or registry.build(name, plan.method.options).encodes
    return plan.embed.embedder if encodes else ""


def choose_side(run: Run) -> None:
    """Write out the side of aligned pairs that is scored, in the plan."""
    texts = sampled(run.sources, run.plan.read), sampled(run.target, run.plan.target_read)
    read = with_side(run.plan.read, encoder_of(run.plan), run.progress.note, *texts)
    run.plan = run.asked = dataclasses.replace(run.plan, read=read)


def warn_language_mismatch(run: Run) -> None:
    """Warn if most of the corpus is in languages that the target lacks and the method needs."""
    # Checks the first texts of some sources; skipped without the extra `languages`.
    # Reference: mDAPT, section 3; Lui and Baldwin (2012), langid.py.
    encoder = encoder_of(run.plan)
    words, english = reads_words(run.plan), is_english_only(encoder)
    if not ((words or english) and can_identify()):
        return
    identify = identifier()
    target, texts = (
        Counter(filter(None, map(identify, _sample(sources, read))))
        for sources, read in ((run.target, run.plan.target_read), (run.sources, run.plan.read))
    )
    wanted = {code for code, n in target.items() if n >= _USUAL * target.total()}
    others = Counter({code: n for code, n in texts.items() if code not in wanted})
    if not wanted or 2 * others.total() <= texts.total():
        warn_english_only(encoder, run.sources, run.plan.read, "the corpus", run.warn)
        return
    why = "compares words" if words else f"uses the encoder {encoder}, trained on English only"
    share = 100 * others.total() / texts.total()
    run.warn(
        f"{share:.0f} % of a sample of the corpus is in other languages "
        f"({', '.join(code for code, _ in others.most_common(3))}) than the target "
        f"({', '.join(sorted(wanted))}), and {run.plan.method.name} {why}, so scores across "
        "languages are unreliable. Use a multilingual encoder with `embed.embedder=PATH` and a "
        "method that reads only embeddings, for instance `method.name=centroid_distance`."
    )


def _sample(sources: Sequence[Source], read: ReadPlan) -> Iterator[str]:
    """The first texts of a few sources."""
    step = max(1, -(-len(sources) // _SOURCES))
    each = _TEXTS * max(1, _SOURCES // len(sources[::step]))
    for source in sources[::step]:
        found = (
            row.text
            for shard in corpus.shards([source], read)
            for row in corpus.rows(shard, read)
            if isinstance(row, Document)
        )
        yield from islice(found, each)
