"""Checks that the two sides of aligned pairs are in two languages, on a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from corpusfit import corpus
from corpusfit.errors import InputError
from corpusfit.languages import can_identify, count_words, identifier
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Source

Pair = tuple[str, str]

_SOURCES, _PAIRS = 32, 256
"""Number of sources in the sample, evenly spaced, and of first pairs of all of them together."""
_WORDS, _ENOUGH = 5, 20
"""Words that make a side long enough to be identified, and pairs of such sides for a verdict."""
_FEW = 0.1
"""Share of pairs in other languages from which a warning is shown."""


def check_sources(
    sources: Sequence[Source], read: ReadPlan, setting: str, warn: Callable[[str], None]
) -> Pair | None:
    """Check the languages of a sample of a parallel corpus; nothing for another corpus."""
    if not (sources and corpus.is_parallel(sources)):
        return None
    return check_languages(_sample(sources, read), setting, warn)


def check_languages(
    pairs: Iterable[Pair], setting: str, warn: Callable[[str], None]
) -> Pair | None:
    """Compare the commonest language of each side, and count pairs with a side in another one.

    Skipped without the extra `languages`, and where few pairs have five words on both sides.

    Reference: Lui and Baldwin (2012), langid.py.

    Args:
        pairs: texts with their translations.
        setting: the setting that named them, for messages.
        warn: called with a warning if a tenth of the pairs are in other languages.

    Returns:
        The commonest language of each side; None where it is skipped.

    Raises:
        InputError: both sides are in the same language.
    """
    if not can_identify():
        return None
    long = (pair for pair in pairs if min(map(count_words, pair)) >= _WORDS)
    identify = identifier()
    found = [(identify(text), identify(translation)) for text, translation in islice(long, _PAIRS)]
    if len(found) < _ENOUGH:
        return None
    counts = [Counter(sides) for sides in zip(*found, strict=True)]
    (first, second), most = zip(*(c.most_common(1)[0] for c in counts), strict=True)
    if first == second and 2 * min(most) > len(found):
        raise InputError(
            f"{setting} must be pairs of two languages; both sides of a sample of {len(found)} "
            f"pairs are in the same one ({first}). Name the file of the other language, as in "
            "pair:train.de,train.en."
        )
    others = sum(pair != (first, second) for pair in found)
    if others > _FEW * len(found):
        shares = ", ".join(
            f"{100 * (1 - n / len(found)):.0f} % of the {name} side not in {code}"
            for name, code, n in zip(("first", "second"), (first, second), most, strict=True)
        )
        warn(
            f"{setting}: {others} of a sample of {len(found)} pairs have a side in another "
            f"language than most ({shares}). Look at some, and remove those that are no "
            "translations."
        )
    return first, second


def _sample(sources: Sequence[Source], read: ReadPlan) -> Iterable[Pair]:
    """The first pairs of a few sources."""
    some = sources[:: max(1, -(-len(sources) // _SOURCES))]
    each = -(-_PAIRS // len(some))
    for source in some:
        found = (
            (row.text, row.translation or "")
            for shard in corpus.shards([source], read)
            for row in corpus.rows(shard, read)
            if isinstance(row, Document) and count_words(row.text) >= _WORDS
        )
        yield from islice(found, each)
