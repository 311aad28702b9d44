"""Cleans documents: removes markup, cuts sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import importing
from corpusfit.core.languages import EXTRA
from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, Texts, taken, text_array
from corpusfit.mixing.russian import cyrillic
from corpusfit.text.normalise import unescaped
from corpusfit.text.reading import cut_units

_NAME = r"[A-Za-z][A-Za-z0-9:-]*"
_VALUE = r"(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s<>\"'=]+)"
_FLAG = (
    "allowfullscreen|async|autofocus|autoplay|checked|compact|controls|default|defer|disabled|"
    "hidden|ismap|itemscope|loop|multiple|muted|nohref|noshade|novalidate|nowrap|open|playsinline|"
    "readonly|required|reversed|selected"
)
_TAG = re.compile(
    rf"<(/?)({_NAME})(?:\s+(?:[\w:.-]+\s*=\s*{_VALUE}|(?i:{_FLAG})(?=[\s/>])))*\s*/?>"
)
_SURE = re.compile(
    r"blockquote|body|br|center|d[dlt]|div|em|font|h[1-6r]|head|html|iframe|img|li|nav|nobr|[ou]l|"
    r"p|span|strike|strong|su[bp]|t[dhr]|tbody|tfoot|thead|tt|wbr",
    re.I,
)
"""Elements whose tags are markup alone; other names are placeholders, types or tokens too."""
_INVISIBLE = re.compile(
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


@dataclass(frozen=True, eq=False)
class Sentences:
    """k sentences of n documents, in reading order.

    Attributes:
        owner: int64 [k], the number of each sentence's document, increasing.
        texts: [k], the sentences.
        pieces: int32 [k], estimated word pieces.
        counts: comment lines and sentences without letters that were dropped, sentences over the
            maximum length that were cut, and documents with markup.
    """

    owner: NDArray[np.int64]
    texts: Texts
    pieces: NDArray[np.int32]
    counts: Counter[str] = field(default_factory=Counter)

    def sums(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64 [n] each: numbers of sentences and of word pieces of the n documents."""
        pieces = np.zeros(n, np.int64)
        np.add.at(pieces, self.owner, self.pieces)
        return np.bincount(self.owner, minlength=n).astype(np.int64), pieces


def without_markup(text: str) -> str:
    """The text without HTML, as a browser shows it, with a line for each block.

    A tag is recognised by its shape (a name, attributes with values or known ones without), and it
    must be one of HTML that means nothing else, have an attribute or its own end, or its partner
    must be in the text. So `a < b`, `vector<float>`, `<unk>` and `cp <source> <target>` stay; so
    does `<s>`, unless there is other markup.
    """
    if "<" in text:
        text = _INVISIBLE.sub(" ", text)
        tags = {match[0]: match.groups() for match in _TAG.finditer(text)}
        names = {(bool(slash), name) for slash, name in tags.values()}
        markup = {
            tag
            for tag, (slash, name) in tags.items()
            if _SURE.fullmatch(name)
            or "=" in tag
            or tag.endswith("/>")
            or (not slash, name) in names
        }
        if all(tags[tag][1] == "s" for tag in markup):
            return unescaped(text)
        shown = {tag: "\n\n" if _BLOCKS.fullmatch(tags[tag][1]) else "" for tag in markup}
        text = _TAG.sub(lambda match: shown.get(match[0], match[0]), text)
    return unescaped(text)


def clean(
    texts: Sequence[str], languages: Sequence[str], longest: int, *, transliterated: bool = False
) -> Sentences:
    """Clean documents and cut them into sentences.

    Markup, comment lines and sentences without a letter are removed. Every line that begins with #
    is a comment, a Markdown heading too. A language without rules of its own is cut at the full
    stops of all scripts.

    Reference: mDAPT, appendices B and C.
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
    """The sentences of a document that contain a letter."""
    with importing("Cutting sentences", EXTRA):
        from sentencex import segment
    plain = without_markup(text)
    counts["documents_with_markup"] += plain != text
    if "#" in plain:
        plain, lines = _COMMENT.subn("", plain)
        counts["comment_lines"] += lines
    if transliterated and language == "ru":
        plain = cyrillic(plain)
    sentences = []
    for part in segment(language, plain):
        sentence = " ".join(part.split())
        if _LETTER.search(sentence):
            sentences.append(sentence)
        elif sentence:
            counts["without_letters"] += 1
    return sentences


def _cut_long(
    owner: NDArray[np.int64], found: list[str], longest: int, counts: Counter[str]
) -> Sentences:
    """The sentences, with those over the limit cut into parts."""
    texts = text_array(found)
    numbers = np.arange(len(found))
    pieces = cut_units(Documents(numbers, texts), CutPlan("document"))[0].pieces
    too_long = np.flatnonzero(pieces > longest)
    if not len(too_long):
        return Sentences(owner, texts, pieces, counts)
    counts["cut_again"] += len(too_long)
    units, parts = cut_units(
        Documents(too_long, taken(texts, too_long)), CutPlan("sentence", pieces=longest)
    )
    parts_of_long = [(int(row), " ".join(part.split()))
             for row, part in zip(units.row, parts.to_pylist(), strict=True)]  # fmt: skip
    parts_of_long = [(row, part) for row, part in parts_of_long if _LETTER.search(part)]
    short = np.delete(numbers, too_long)
    all_texts = text_array(
        [*(found[i] for i in short.tolist()), *(part for _, part in parts_of_long)]
    )
    rows = np.concatenate([short, np.array([row for row, _ in parts_of_long], np.int64)])
    order = np.argsort(rows, kind="stable")
    texts = taken(all_texts, order)
    pieces = cut_units(Documents(rows, texts), CutPlan("document"))[0].pieces
    return Sentences(owner[rows[order]], texts, pieces, counts)
