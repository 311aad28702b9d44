"""All pairs of an input, and the languages of a corpus."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.languages import can_identify, identifier
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.text.cures import of_encoding
from corpusfit.text.rejects import EMPTY_LINE, EMPTY_TEXT, INVALID_UTF8, in_translation


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


_NOT_UTF8 = (INVALID_UTF8, in_translation(INVALID_UTF8))
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
    read = ReadPlan()
    blank = 0
    named_input = f"`{role}={name}`"
    sources = corpus.find([name], read, role=role)
    sides: tuple[list[str], list[str]] = ([], [])
    files = list(corpus.files_of(sources[0]))
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                sides[0].append(row.text.strip())
                sides[1].append(carried_text(row).strip())
            elif row.reason in _BLANK:
                blank += 1
            else:
                cure = ""
                if row.reason in _NOT_UTF8:
                    file = files[-_NOT_UTF8.index(row.reason)]
                    cure = f" {of_encoding(PurePath(file).name, file)}"
                raise InputError(
                    f"{named_input} cannot be read at row {row.row}: {row.reason}.{cure}"
                )
    if not sides[0]:
        raise EmptyInputError(f"{named_input} has no pair with text on both sides.")
    return Pairs(corpus.sides(sources), sides, blank, files)


ENGLISH = "en"
# Names of encoders that are trained on English only, `auto` among them, as it chooses one of these.
# Any other encoder counts as multilingual, because the languages of a model folder are unknown.
_ENGLISH_ONLY = re.compile(
    r"auto|minilm|static|(.+/)?((distil)?bert-(base|large)-(un)?cased|(distil)?roberta-(base|large)"
    r"|all-(MiniLM|mpnet)-[\w.-]+)"
)

MOST_IDENTIFIED = 256
"""Texts of a sample whose languages are looked at."""
_PAGE = 1_000  # characters, as many as the identifier reads
_ENOUGH = 1_000  # characters without which a sample says nothing of an encoder


def is_english_only(embedder: str) -> bool:
    """Whether an encoder reads only English."""
    return bool(_ENGLISH_ONLY.fullmatch(embedder.partition("@")[0]))


def warn_english_only(embedder: str, texts: Sequence[str], warn: Callable[[str], None]) -> None:
    """Warn if the encoder reads only English and most of a sample of the corpus is not English."""
    if not (is_english_only(embedder) and can_identify()):
        return
    counts = count_languages(texts)
    others = Counter({code: n for code, n in counts.items() if code != ENGLISH})
    if 2 * others.total() > counts.total() >= _ENOUGH:
        share = 100 * others.total() / counts.total()
        warn(
            f"{share:.0f} % of a sample of the corpus is in other languages than English "
            f"({', '.join(code for code, _ in others.most_common(3))}), and the encoder {embedder} "
            "is trained on English only. Name a multilingual one: `embed.embedder=MODEL`."
        )


def count_languages(texts: Sequence[str]) -> Counter[str]:
    """The characters in each language among a few hundred of some texts, evenly spaced."""
    identify = identifier()
    counts = Counter[str]()
    for text in texts[:: math.ceil(len(texts) / MOST_IDENTIFIED) or 1]:
        # by length: the language of a single word is a guess
        counts[identify(text)] += min(len(text), _PAGE)
    counts.pop("", None)
    return counts
