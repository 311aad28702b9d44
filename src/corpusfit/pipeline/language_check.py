"""A warning where target and corpus are in different languages and the method cannot bridge them.

What: identifies the languages of a sample of both, where the extra `languages` is installed.
Why: every method gives scores across languages, but words that no two languages share, and an
encoder that knows English alone, make them say little; nothing else would tell.
Trade-off: the sample is the beginning of a few sources, not of all; and of an encoder's folder
nobody knows what languages it has learned, so that it is trusted.
Reference: mDAPT, section 3; Lui and Baldwin (2012), langid.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import islice

from corpusfit import corpus
from corpusfit.compose.languages import identifier
from corpusfit.pipeline.run import Run
from corpusfit.plan import Plan, ReadPlan
from corpusfit.score import registry
from corpusfit.score.contract import LabelMethod
from corpusfit.types import Document, Source

ENGLISH_ONLY = ("minilm", "static")
"""Embedders that have learned English text alone."""

_SOURCES, _TEXTS = 32, 8
"""How many sources are looked at, evenly spaced, and how many texts of each."""
_USUAL = 0.1
"""From this share of the target's sample on, a language is one of the target's."""


def reads_words(plan: Plan) -> bool:
    """Whether the method looks at words that texts of two languages do not share."""
    name = plan.method.name
    if name == "auto":
        return True
    kind = registry.load(name)
    if name == "random" or issubclass(kind, LabelMethod):
        return False
    method = registry.build(name, plan.method.options)
    return method.reads != "embedding" and method.exact


def is_english_only(plan: Plan) -> bool:
    """Whether the method looks at vectors of an encoder that has learned English alone."""
    name = plan.method.name
    encodes = name == "auto" or registry.build(name, plan.method.options).encodes
    return encodes and plan.embed.embedder in ENGLISH_ONLY


def warn_language_mismatch(run: Run) -> None:
    """Warn where most of the corpus is in languages that the target lacks, and that matters."""
    words, english = reads_words(run.plan), is_english_only(run.plan)
    if not (words or english) or find_spec("py3langid") is None or find_spec("langcodes") is None:
        return
    identify = identifier()
    target, pile = (
        Counter(filter(None, map(identify, _sample(sources, run.plan.read))))
        for sources in (run.target, run.sources)
    )
    wanted = {code for code, n in target.items() if n >= _USUAL * target.total()}
    others = Counter({code: n for code, n in pile.items() if code not in wanted})
    if not wanted or 2 * others.total() <= pile.total():
        return
    why = "goes by words" if words else f"has the encoder {run.plan.embed.embedder}"
    knows = "" if words else ", which knows English alone"
    share = 100 * others.total() / pile.total()
    run.warn(
        f"{share:.0f} % of a sample of the corpus is in other languages "
        f"({', '.join(code for code, _ in others.most_common(3))}) than the target "
        f"({', '.join(sorted(wanted))}), and {run.plan.method.name} {why}{knows}: its scores "
        "across languages say little. Take a multilingual encoder with --embedder PATH and a "
        "method that reads embeddings alone, for instance --method centroid_distance."
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
