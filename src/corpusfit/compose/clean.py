"""From a document to clean sentences.

What: HTML and tags go, comment lines go, what is left is cut into sentences; those without a letter
go, over-long ones are cut again, transliterated Russian is put back into Cyrillic.
Why: the paper's corpora are lists of sentences, and a budget counts sentences.
Trade-off: a tag is known by its shape (a name, attributes with values), so that `a < b` stays; all
lines that begin with # go, a heading in Markdown too. A language without rules of its own is cut at
the full stops of all scripts. Word pieces are estimated (`kernels/cut.py`).
Reference: mDAPT, appendices B and C.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpusfit.compose.languages import EXTRA
from corpusfit.errors import MissingDependencyError
from corpusfit.plan import CutPlan
from corpusfit.segments import cut_units
from corpusfit.types import Documents, Texts, taken, text_array

_NAME = r"[A-Za-z][A-Za-z0-9:-]*"
_VALUE = r"(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s<>\"'=]+)"
_TAG = re.compile(rf"</?({_NAME})(?:\s+[\w:.-]+\s*=\s*{_VALUE})*\s*/?>")
_UNSEEN = re.compile(
    r"<!--.*?-->|<(script|style)\b[^<>]*>.*?</\1\s*>|<!doctype[^<>]*>|<\?[^<>]*\?>", re.S | re.I
)
_BLOCKS = re.compile(
    r"address|article|aside|blockquote|body|br|caption|d[dlt]|div|fieldset|fig(?:caption|ure)|footer"
    r"|form|h[1-6r]|head(?:er)?|html|li|main|nav|[ou]l|option|p|pre|section|table|t(?:body|foot|head)"
    r"|t[dhr]|title",
    re.I,
)
_COMMENT = re.compile(r"^[ \t]*#.*(?:\n|\Z)", re.M)
_LETTER = re.compile(r"[^\W\d_]")
_CYRILLIC = re.compile(r"[\u0400-\u052f]")

_BGN = (
    *(("shch", "sch"), ("Shch", "Sch"), ("kh", "h"), ("Kh", "H"), ("ya", "ja"), ("Ya", "Ja")),
    *(("yu", "ju"), ("Yu", "Ju"), ("ia", "ja"), ("Ia", "Ja"), ("iu", "ju"), ("Iu", "Ju")),
    *(("ĭ", "й"), ("Ĭ", "Й"), ("ė", "э"), ("Ė", "Э"), ("'", "ь"), ("ʹ", "ь"), ("’", "ь")),
)
"""Letters of catalogues (ALA-LC, BGN) as the `transliterate` package writes them."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """k sentences of n documents, in reading order.

    Attributes:
        owner: int64 [k], the place of each one's document, increasing.
        texts: [k].
        pieces: int32 [k], estimated word pieces.
        counts: how many comment lines and sentences without letters were dropped, over-long
            sentences were cut, and documents had markup.
    """

    owner: NDArray[np.int64]
    texts: Texts
    pieces: NDArray[np.int32]
    counts: Counter[str] = field(default_factory=Counter)

    def sums(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64 [n] each: the sentences and the word pieces of the n documents."""
        pieces = np.zeros(n, np.int64)
        np.add.at(pieces, self.owner, self.pieces)
        return np.bincount(self.owner, minlength=n).astype(np.int64), pieces


def without_markup(text: str) -> str:
    """The text without HTML: what a browser shows, with a line for each block."""
    if "<" in text:
        text = _UNSEEN.sub(" ", text)
        text = _TAG.sub(lambda m: "\n\n" if _BLOCKS.fullmatch(m[1]) else "", text)
    return html.unescape(text) if "&" in text else text


def cyrillic(text: str) -> str:
    """Russian in Latin letters, put back into Cyrillic; what has Cyrillic already stays as it is.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
    """
    if _CYRILLIC.search(text):
        return text
    try:
        from transliterate import translit
    except ImportError as e:
        raise MissingDependencyError("Transliterating Russian", EXTRA) from e
    for roman, other in _BGN:
        text = text.replace(roman, other)
    return str(translit(text, "ru"))


def clean(
    texts: Sequence[str], languages: Sequence[str], longest: int, *, transliterated: bool = False
) -> Sentences:
    """Clean documents and cut them into sentences.

    Args:
        texts: n documents.
        languages: the code of each one's language; where it is empty, the document has no
            sentences.
        longest: word pieces of a sentence at most; what is over is cut at full stops, then between
            words.
        transliterated: Russian documents without Cyrillic letters are put back into it.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
    """
    counts: Counter[str] = Counter()
    owner: list[int] = []
    found: list[str] = []
    for place, (text, language) in enumerate(zip(texts, languages, strict=True)):
        if not language:
            continue
        for sentence in _sentences(text, language, transliterated, counts):
            owner.append(place)
            found.append(sentence)
    return _cut_long(np.array(owner, np.int64), found, longest, counts)


def _sentences(text: str, language: str, transliterated: bool, counts: Counter[str]) -> list[str]:
    """The sentences of a document that have a letter."""
    try:
        from sentencex import segment
    except ImportError as e:
        raise MissingDependencyError("Cutting sentences", EXTRA) from e
    plain = without_markup(text)
    counts["documents_with_markup"] += plain != text
    if "#" in plain:
        plain, lines = _COMMENT.subn("", plain)
        counts["comment_lines"] += lines
    if transliterated and language == "ru":
        plain = cyrillic(plain)
    kept = []
    for part in segment(language, plain):
        sentence = " ".join(part.split())
        if _LETTER.search(sentence):
            kept.append(sentence)
        elif sentence:
            counts["without_letters"] += 1
    return kept


def _cut_long(
    owner: NDArray[np.int64], found: list[str], longest: int, counts: Counter[str]
) -> Sentences:
    """The sentences with those over the limit cut again."""
    texts = text_array(found)
    numbers = np.arange(len(found))
    pieces = cut_units(Documents(numbers, texts), CutPlan("document"))[0].pieces
    long = np.flatnonzero(pieces > longest)
    if not len(long):
        return Sentences(owner, texts, pieces, counts)
    counts["cut_again"] += len(long)
    units, parts = cut_units(
        Documents(long, taken(texts, long)), CutPlan("sentence", pieces=longest)
    )
    again = [(int(row), " ".join(part.split()))
             for row, part in zip(units.row, parts.to_pylist(), strict=True)]  # fmt: skip
    again = [(row, part) for row, part in again if _LETTER.search(part)]
    short = np.delete(numbers, long)
    whole = text_array([*(found[i] for i in short.tolist()), *(part for _, part in again)])
    rows = np.concatenate([short, np.array([row for row, _ in again], np.int64)])
    order = np.argsort(rows, kind="stable")
    texts = taken(whole, order)
    pieces = cut_units(Documents(rows, texts), CutPlan("document"))[0].pieces
    return Sentences(owner[rows[order]], texts, pieces, counts)
