"""All pairs of an input, and checks of the languages of pairs and of other texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.languages import can_identify, count_words, identifier
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.text.rejects import EMPTY_LINE, EMPTY_TEXT, in_translation

Pair = tuple[str, str]


class Pairs(NamedTuple):
    """n texts with their translations."""

    # names of both sides: the files' last suffixes, the names of the columns, or `text` and
    # `translation`
    languages: tuple[str, str]
    sides: tuple[list[str], list[str]]  # n texts each
    blank: int  # number of pairs that were left out because a side is blank
    files: list[str]  # what was read


def carried_text(row: Document) -> str:
    """Of a row of aligned pairs, the text that is not read but carried."""
    (text,) = (row.fields or {}).values()
    return str(text)


_BLANK = {EMPTY_LINE, EMPTY_TEXT, in_translation(EMPTY_LINE), in_translation(EMPTY_TEXT)}


def read_pairs(name: str, *, role: str) -> Pairs:
    """All pairs of an input `pair:…`, stripped.

    Args:
        name: as for `corpus` of `select`.
        role: the argument that names it; messages name it.

    Raises:
        InputError: a row cannot be read, as scores on part of a test set are other scores.
        EmptyInputError: no pair has text on both sides.
    """
    read, blank = ReadPlan(), 0
    given = f"`{role}={name}`"
    sources = corpus.find([name], read, spool=Path(), role=role)
    sides: tuple[list[str], list[str]] = ([], [])
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                sides[0].append(row.text.strip())
                sides[1].append(carried_text(row).strip())
            elif row.reason in _BLANK:
                blank += 1
            else:
                raise InputError(f"{given} cannot be read at row {row.row}: {row.reason}.")
    if not sides[0]:
        raise EmptyInputError(f"{given} has no pair with text on both sides.")
    return Pairs(corpus.sides(sources), sides, blank, list(corpus.files_of(sources[0])))


ENGLISH = "en"
# Names of encoders that are trained on English only, `auto` among them, as it chooses one of these.
# Any other encoder counts as multilingual, because the languages of a model folder are unknown.
_ENGLISH_ONLY = re.compile(
    r"auto|minilm|static|(.+/)?((distil)?bert-(base|large)-(un)?cased|(distil)?roberta-(base|large)"
    r"|all-(MiniLM|mpnet)-[\w.-]+)"
)

# the sample: this many sources, evenly spaced, and this many of their first rows together
_SOURCES = 32
_ROWS = 256
# a shorter text is not identified, and fewer identified rows give no verdict
_MIN_WORDS = 5
_MIN_ROWS = 20
# a larger share of pairs in other languages is warned of
_MAX_OTHERS = 0.1


def check_sources(
    sources: Sequence[Source], read: ReadPlan, setting: str, warn: Callable[[str], None]
) -> Pair | None:
    """Check the languages of a sample of the corpus if it is parallel; see `check_languages`."""
    if not (sources and corpus.is_parallel(sources)):
        return None
    return check_languages(_sample(sources, read), setting, warn)


def check_languages(
    pairs: Iterable[tuple[str, ...]], setting: str, warn: Callable[[str], None]
) -> Pair | None:
    """Refuse pairs whose sides are in one language, and warn of many pairs in other languages.

    Skipped without the extra `languages`, and where few pairs have five words on both sides.

    Reference: Lui and Baldwin (2012), langid.py.
    """
    identified = _languages(pairs)
    if not identified:
        return None
    counts = [Counter(sides) for sides in zip(*identified, strict=True)]
    (first, second), frequencies = zip(*(c.most_common(1)[0] for c in counts), strict=True)
    if first == second and 2 * min(frequencies) > len(identified):
        raise InputError(
            f"{setting} must be pairs of two languages; both sides of a sample of "
            f"{len(identified)} pairs are in the same one ({first}). Name the file of the other "
            "language, as in pair:train.de,train.en."
        )
    others = sum(pair != (first, second) for pair in identified)
    if others > _MAX_OTHERS * len(identified):
        shares = ", ".join(
            f"{100 * (1 - n / len(identified)):.0f} % of the {name} side not in {code}"
            for name, code, n in zip(("first", "second"), (first, second), frequencies, strict=True)
        )
        warn(
            f"{setting}: {others} of a sample of {len(identified)} pairs have a side in another "
            f"language than most ({shares}). Look at some, and remove those that are no "
            "translations."
        )
    return first, second


def is_english_only(embedder: str) -> bool:
    """Whether an encoder, or the one that a static model is distilled from, reads only English."""
    return bool(_ENGLISH_ONLY.fullmatch(embedder.removeprefix("static:").partition("@")[0]))


def warn_english_only(
    embedder: str,
    sources: Sequence[Source],
    read: ReadPlan,
    setting: str,
    warn: Callable[[str], None],
) -> None:
    """Warn if the encoder reads only English and most of a sample is in other languages."""
    if not is_english_only(embedder):
        return
    identified = _languages(_sample(sources, read))
    others = Counter(codes[0] for codes in identified if codes[0] != ENGLISH)
    if 2 * others.total() > len(identified):
        share = 100 * others.total() / len(identified)
        warn(
            f"{share:.0f} % of a sample of {setting} is in other languages than English "
            f"({', '.join(code for code, _ in others.most_common(3))}), and the encoder {embedder} "
            "is trained on English only. Take a multilingual one with `embed.embedder=MODEL`, or a "
            "fast static model distilled from it with `embed.embedder=static:MODEL`."
        )


def _languages(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The languages of the texts of the first rows that are long enough; empty if they are few."""
    if not can_identify():
        return []
    long = (row for row in rows if min(map(count_words, row)) >= _MIN_WORDS)
    identify = identifier()
    identified = [tuple(map(identify, row)) for row in islice(long, _ROWS)]
    return identified if len(identified) >= _MIN_ROWS else []


def _sample(sources: Sequence[Source], read: ReadPlan) -> Iterable[tuple[str, ...]]:
    """The first rows of a few sources: texts, and the other sides of pairs."""
    chosen = sources[:: max(1, -(-len(sources) // _SOURCES))]
    each = -(-_ROWS // max(1, len(chosen)))
    parallel = corpus.is_parallel(chosen)
    for source in chosen:
        texts = (
            (row.text, carried_text(row)) if parallel else (row.text,)
            for shard in corpus.shards([source], read)
            for row in corpus.rows(shard, read)
            if isinstance(row, Document) and count_words(row.text) >= _MIN_WORDS
        )
        yield from islice(texts, each)
