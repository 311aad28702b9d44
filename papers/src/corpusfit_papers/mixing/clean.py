"""Clean documents: remove markup, transliterate Russian, cut sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import Texts, word_form
from corpusfit.core.errors import importing
from corpusfit.core.languages import EXTRA
from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, take_texts, text_array
from corpusfit.text.normalize import unescaped
from corpusfit.text.reading import cut_units

_CYRILLIC = re.compile(r"[\u0400-\u052f]")
_ROWS = (
    "а a, б b, в v, г g, д d, е e, з z, и i, к k, л l, м m, н n, о o, п p, р r, с s, т t, у u, ф f",
    "ж zh ž, й ĭ j, х kh h x, ц ts c, ч ch č, ш sh š, щ shch šč sch, ы y, э ė è",
    "ё ë yë yo, ю iu yu ju, я ia ya ja",
)
_LETTERS = {
    latin: letter
    for row in _ROWS
    for letter, *written in map(str.split, row.split(","))
    for latin in written
}
_SIGNS = {**dict.fromkeys("'’ʹ", "ь"), **dict.fromkeys('"”ʺ', "ъ")}
# A quotation mark after a consonant; elsewhere it is a quotation mark.
_SIGN = r"""(?<=[bcdfghklmnprstvxzčšž])(?:['’ʹ]|["”ʺ](?=\w))"""
_LATIN = re.compile("|".join([*sorted(_LETTERS, key=len, reverse=True), _SIGN]), re.I)
_TIES = re.compile("[\u0361\ufe20\ufe21]")  # Marks of ALA-LC over the letters of ia, iu and ts
_SHORT_I = re.compile(r"(?<=[aeiouy])y(?![aeuë])", re.I)  # BGN's й: a y after a vowel
# BGN's е; after a consonant, y and e are two letters.
_YE = re.compile(r"(?:(?<=[aeiouy'’ʹ\"”ʺ])|\b)ye", re.I)
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
# Elements whose tags are markup alone; other names are placeholders, types or tokens too.
_SURE = re.compile(
    r"blockquote|body|br|center|d[dlt]|div|em|font|h[1-6r]|head|html|iframe|img|li|nav|nobr|[ou]l|"
    r"p|span|strike|strong|su[bp]|t[dhr]|tbody|tfoot|thead|tt|wbr",
    re.I,
)
_INVISIBLE = re.compile(
    r"<(!--)|<(script|style)\b[^<>]*>|<!doctype[^<>]*>|<\?[^<>]*\?>", re.IGNORECASE
)
# where those end that may hold tags
_ENDS = {
    "!--": re.compile("-->"),
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
}
_BLOCKS = re.compile(
    r"address|article|aside|blockquote|body|br|caption|d[dlt]|div|fieldset|fig(?:caption|ure)|footer"
    r"|form|h[1-6r]|head(?:er)?|html|li|main|nav|[ou]l|option|p|pre|section|table|t(?:body|foot|head)"
    r"|t[dhr]|title",
    re.I,
)
_COMMENT = re.compile(r"^[ \t]*#.*(?:\n|\Z)", re.M)
_LETTER = re.compile(r"[^\W\d_]")
# characters that are cut into sentences at once, as sentencex takes the square of the quotation
# marks in a paragraph; a longer text is divided at a blank line, else where a sentence ends, else
# at a blank
_MOST = 1 << 15
_STRETCH = re.compile(
    rf".{{1,{_MOST}}}(?:\Z|(?<=\n\n))|.{{1,{_MOST}}}(?<=[.!?。।]\s)|.{{1,{_MOST}}}(?<=\s)"
    rf"|.{{1,{_MOST}}}",
    re.DOTALL,
)
# behind an end of a sentence in Khmer or Tibetan, of which sentencex knows none
_BEHIND_ENDS = re.compile(r"(?<=[។៕།༎༏༐༑༔])(?!\s*[។៕།༎༏༐༑༔])")


def cyrillic(text: str) -> str:
    """Transliterate Russian from Latin to Cyrillic letters; a text with Cyrillic is unchanged."""
    if _CYRILLIC.search(text):
        return text
    latin = _TIES.sub("", word_form(text))
    latin = _SHORT_I.sub(lambda m: _cased("j", m[0]), latin)
    latin = _YE.sub(lambda m: _cased("e", m[0]), latin)
    letters = _LETTERS | _SIGNS
    converted = _LATIN.sub(lambda m: _cased(letters[m[0].lower()], m[0]), latin)
    return converted.upper() if text.isupper() else converted


def _cased(letters: str, like: str) -> str:
    """The letters, with a capital where the others have one."""
    return letters.capitalize() if like[0].isupper() else letters


@dataclass(frozen=True, eq=False)
class Sentences:
    """k sentences of n documents, in reading order."""

    owner: NDArray[np.int64]  # int64 [k], the number of each sentence's document, increasing
    texts: Texts  # [k], the sentences
    pieces: NDArray[np.int32]  # int32 [k], estimated word pieces
    # comment lines and sentences without letters that were dropped, sentences over the maximum
    # length that were cut, and documents with markup
    counts: Counter[str] = field(default_factory=Counter)

    def sums(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64 [n] each: numbers of sentences and of word pieces of the n documents."""
        pieces = np.zeros(n, np.int64)
        np.add.at(pieces, self.owner, self.pieces)
        return np.bincount(self.owner, minlength=n).astype(np.int64), pieces


def without_markup(text: str) -> str:
    """The text without HTML, as a browser shows it, with a line for each block."""
    # A tag is recognized by its shape (a name, attributes with values or known ones without), and
    # it must be one of HTML that means nothing else, have an attribute or its own end, or its
    # partner must be in the text. So `a < b`, `vector<float>`, `<unk>` and `cp <source> <target>`
    # stay; so does `<s>`, unless there is other markup.
    if "<" in text:
        text = _visible(text)
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
        # `<s>` alone is a token of a language model, not struck-out text
        if all(tags[tag][1] == "s" for tag in markup):
            return unescaped(text)
        shown = {tag: "\n\n" if _BLOCKS.fullmatch(tags[tag][1]) else "" for tag in markup}
        text = _TAG.sub(lambda match: shown.get(match[0], match[0]), text)
    return unescaped(text)


def _visible(text: str) -> str:
    """The text with a space for each comment, script, style sheet and declaration."""
    parts: list[str] = []
    begin = at = 0
    # looked for once, as a text may begin any number of comments
    without_end = set[str]()
    while found := _INVISIBLE.search(text, at):
        kind = (found[1] or found[2] or "").lower()
        at = found.end()
        if kind in without_end:
            continue
        end = _ENDS[kind].search(text, at) if kind else found
        if end is None:
            without_end.add(kind)
            continue
        parts += (text[begin : found.start()], " ")
        begin = at = end.end()
    return "".join((*parts, text[begin:]))


def clean(
    texts: Sequence[str], languages: Sequence[str], longest: int, *, transliterated: bool = False
) -> Sentences:
    """Clean documents and cut them into sentences.

    Reference: mDAPT, appendices B and C.
    """
    # Markup, comment lines and sentences without a letter are removed. Every line that begins with
    # # is a comment, a Markdown heading too. A language without rules of its own is cut at the full
    # stops of all scripts.
    counts: Counter[str] = Counter()
    owner: list[int] = []
    sentences: list[str] = []
    for number, (text, language) in enumerate(zip(texts, languages, strict=True)):
        if not language:
            continue
        for sentence in _sentences(text, language, transliterated, counts):
            owner.append(number)
            sentences.append(sentence)
    return _cut_long(np.array(owner, np.int64), sentences, longest, counts)


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
    stretches = _STRETCH.findall(plain) if len(plain) > _MOST else [plain]
    pieces = [piece for stretch in stretches for piece in _BEHIND_ENDS.split(stretch)]
    for part in (part for piece in pieces for part in segment(language, piece)):
        sentence = " ".join(part.split())
        if _LETTER.search(sentence):
            sentences.append(sentence)
        elif sentence:
            counts["without_letters"] += 1
    return sentences


def _cut_long(
    owner: NDArray[np.int64], sentences: list[str], longest: int, counts: Counter[str]
) -> Sentences:
    """The sentences, with those over the limit cut into parts."""
    texts = text_array(sentences)
    numbers = np.arange(len(sentences))
    pieces = cut_units(Documents(numbers, texts), CutPlan("document"))[0].pieces
    too_long = np.flatnonzero(pieces > longest)
    if not len(too_long):
        return Sentences(owner, texts, pieces, counts)
    counts["cut_again"] += len(too_long)
    units, parts = cut_units(
        Documents(too_long, take_texts(texts, too_long)), CutPlan("sentence", pieces=longest)
    )
    parts_of_long = [(int(row), " ".join(part.split()))
             for row, part in zip(units.row, parts.to_pylist(), strict=True)]  # fmt: skip
    parts_of_long = [(row, part) for row, part in parts_of_long if _LETTER.search(part)]
    short = np.delete(numbers, too_long)
    all_texts = text_array(
        [*(sentences[i] for i in short.tolist()), *(part for _, part in parts_of_long)]
    )
    rows = np.concatenate([short, np.array([row for row, _ in parts_of_long], np.int64)])
    order = np.argsort(rows, kind="stable")
    texts = take_texts(all_texts, order)
    pieces = cut_units(Documents(rows, texts), CutPlan("document"))[0].pieces
    return Sentences(owner[rows[order]], texts, pieces, counts)
