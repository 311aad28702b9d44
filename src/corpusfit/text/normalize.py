"""Undo the tokenisation and markup of task files, so that a target reads like ordinary text."""

from __future__ import annotations

import html
import html.entities
import re
from collections.abc import Callable

# upper limit of passes; each pass undoes one layer (`&lt;b&gt;` has two)
_PASSES = 100

_Replacement = str | Callable[[re.Match[str]], str]
_Rule = tuple[re.Pattern[str], _Replacement]

_BRACKETS = {"lrb": "(", "rrb": ")", "lsb": "[", "rsb": "]", "lcb": "{", "rcb": "}"}
_TAGS = "a|b|i|u|em|strong|p|font|span|div|sub|sup|strike|small|big|hr|img|li|ul|ol|td|tr|table"
_CONTRACTION = r"'(?:s|re|ve|ll|d|m)\b(?!')"
_PRONOUNS = "it|that|he|she|what|there|who|here|let|where|how|i|you|we|they"
_DUTCH = "avonds|morgens|middags|nachts|ochtends|winters|zomers|lands|werelds|gravenhage"
# numbers of punctuation and other signs in broken entities, such as `#39;`
_CODES = r"3[46-9]|60|62|9[1-3]|14[5-8]|15[01]|160|8\d{3}"
_BLANK = r"[ \t\xa0]"

_EVIDENCE = re.compile(
    r"(?<=[^\s.,]) (?:,|\.(?!\s?\.))(?=\s|$)"  # a space before a comma or a full stop
    r"|(?<!`)``(?: |\w[^`\n]*'')"
    r"|-[LR][RSC]B-|\w n't\b|quot;|#39;\w"
    rf"|\b(?:{_PRONOUNS}) {_CONTRACTION}",
    re.IGNORECASE,
)


def normalize(text: str) -> str:
    """Return the text without traces of tokenisation; ordinary text comes back unchanged.

    A target that looks different from the corpus is matched by its look, not by its subject. The
    rules cover the Penn Treebank's brackets, quotes and split contractions (as NLTK's
    `TreebankWordDetokenizer`), the entity brackets of ChemProt and SciERC, HTML entities whole or
    broken (` #39;s` in AG News), and C1 control characters that were Windows quotes. Line breaks of
    web pages stay, because web corpora have them too (docs/ranking.md). Rules that could damage
    ordinary text (French sets a space before `!`, Dutch begins words with `'s`) apply only where
    the text shows evidence of a tokeniser, such as a space before a comma.

    Runs of blanks become one blank, runs of blank lines one blank line, and surrounding white space
    is removed. The function is idempotent. It is meant for targets: its work is bounded, but it is
    not fast.
    """
    for _ in range(_PASSES):
        before = text
        tokenised = _EVIDENCE.search(text) is not None
        text = _applied(_ALWAYS, text)
        # Brackets around entities go if the text has both kinds, or if one kind encloses words:
        # programs have such brackets, too.
        if ("<< " in text and " >>" in text) and ("[[ " in text and " ]]" in text):
            text = _ENTITY_BRACKETS.sub("", text)
        else:
            text = _WORDS_IN_BRACKETS.sub(lambda m: m[1] or m[2], text)
        if tokenised:
            text = _applied(_TOKENISED, text)
        text = _applied(_SPACES, text).strip()
        if text == before:
            break
    return text


def _applied(rules: tuple[_Rule, ...], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,30});", re.IGNORECASE)


def unescaped(text: str) -> str:
    """The text with its HTML entities decoded.

    An entity must end in a semicolon. Browsers decode `&copy` without one, but in an address it may
    be a parameter.
    """
    return _ENTITY.sub(_entity, text)


def _entity(match: re.Match[str]) -> str:
    entity = match[0]
    exists = entity[1:] in html.entities.html5 or entity.startswith("&#")
    return html.unescape(entity) if exists else entity


def _rule(pattern: str, replacement: _Replacement) -> _Rule:
    return re.compile(pattern, re.IGNORECASE), replacement


_ENTITY_BRACKETS = re.compile(r"(?:<<|\[\[) | (?:>>|\]\])")
_WORDS_IN_BRACKETS = re.compile(
    r"<< ([A-Za-z][^<>=$;|&{}\n]{0,200}) >>|\[\[ ([A-Za-z][^\[\]=$;|&{}\n]{0,200}) \]\]"
)

_ALWAYS: tuple[_Rule, ...] = (
    _rule(r"[\x80-\x9f]", lambda m: m[0].encode("latin-1").decode("cp1252", "ignore") or " "),
    _rule(rf"</?(?:{_TAGS})(?: [^<>\n=]*=[^<>\n]*)?/?>", ""),
    _rule(r"&(?:amp;)+", "&"),
    (_ENTITY, _entity),
    _rule(r"(?<=\w) #39;(?=(?:s|t|re|ve|ll|d|m)\b)", "'"),
    _rule(rf"(?<![&\w])#({_CODES});(?=\S)", lambda m: html.unescape(f"&#{m[1]};")),
    _rule(r" quot;(?=[\s.,;:!?)]|$)", '"'),
    _rule(r"(?<![&\w])quot;", '"'),
    _rule(r"(?<=[^\d\s]) amp;", " &"),
    _rule(r"(?<=\s)lt;(?=/?[a-z])", "<"),
    _rule(r"-(L[RSC]B)- ?", lambda m: _BRACKETS[m[1].lower()]),
    _rule(r" ?-(R[RSC]B)-", lambda m: _BRACKETS[m[1].lower()]),
    _rule(r"(?<!`)``(?: +(?!`)|(?=\w[^`\n]*''))", '"'),
    _rule(r"(?<=\w) n't\b", "n't"),
)

_TOKENISED: tuple[_Rule, ...] = (
    _rule(r"(?<=[\w.,!?]) #39;(?=[\s.,;:!?)]|$)", "'"),
    _rule(r"(?<=\S) ''(?=[\s,.;:!?)\]]|$)", '"'),
    _rule(r"(?<=[\w.,!?)])''(?!')", '"'),
    _rule(r"(?<![\w'])''(?=\w)", '"'),
    _rule(r"(?<!\S)` (?=\w)", "'"),
    _rule(r"(?<=[\w.,!?]) '(?=[\s,.;:!?]|$)", "'"),
    _rule(rf"(?<=\w) ({_CONTRACTION})(?! (?:{_DUTCH})\b)", r"\1"),
    _rule(r"\b(gon|wan|got) (na|ta)\b", r"\1\2"),
    _rule(r"([(\[{]) +(?=\S)", r"\1"),
    _rule(r"(?<=\S) +(?=[)\]}])", ""),
    _rule(r"(?<=\d) %", "%"),
    _rule(r"([$£€]) (?=\d)", r"\1"),
    _rule(r"(?<=\S) ([,;:?!]+|(?<=[^.] )(?:\.\.\.|\.(?!\s?\.)))(?=[\s\"')\]]|$)", r"\1"),
)

_SPACES: tuple[_Rule, ...] = (
    _rule(r"\r\n?", "\n"),
    _rule(rf"(?<=\S){_BLANK}{{2,}}+(?=\S)", " "),
    _rule(rf"(?<!{_BLANK}){_BLANK}++(?=\n)", ""),
    _rule(r"\n{3,}", "\n\n"),
)
