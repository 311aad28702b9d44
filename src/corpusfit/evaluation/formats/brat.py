"""Read brat standoff annotations (.txt with .ann) as BIO tags."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, text_array
from corpusfit.evaluation.formats.labelled import Labelled, lines_of, whole_text
from corpusfit.text.units import cut_units

_MARKS = "".join(c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c)[0] == "M")
WORD = re.compile(
    rf"[^\W\d_]+(?:(?=[^\0-\x7f])[{_MARKS}]+[^\W\d_]*)*|\d+|[^\w\s\ufeff]|_"  # ASCII is fast
)
"""A word as in mDAPT: split at white space, with numbers and special characters separate."""

_ANNOTATION = re.compile(r"T\S*\t(\S+)[ \t]+(\d+ +\d+(?: *; *\d+ +\d+)*) *(?:\t(.*))?")
_OTHERS = ("R", "E", "A", "M", "N", "#", "*")
_SENTENCES = CutPlan(unit="sentence", pieces=1 << 20)

_SAID = {
    "gaps": "discontinuous annotations of {} were taken from their first character to their last",
    "shared": "annotations of {} were left out: they share a word with a longer one",
    "wordless": "annotations of {} were left out: they hold no word",
    "moved": "annotations of {} have another text than what stands where they point",
    "no_text": ".ann files of {} were left out: there is no .txt of the same name",
    "no_marks": ".txt files of {} were left out: there is no .ann of the same name",
}


@dataclass(frozen=True)
class _Span:
    """An annotation: characters [begin, end) of a text."""

    type: str
    begin: int
    end: int


def read_brat(places: Sequence[str], split: str) -> Labelled:
    """Read the tagged sentences of a split.

    A document is split into sentences at line breaks, or without any at sentence ends, never inside
    an annotation. Gaps of a discontinuous annotation are tagged too, as in mDAPT. Of annotations
    that share a word, the longest is kept, of equally long ones the first.

    Reference: https://brat.nlplab.org/standoff.html; mDAPT, appendix B.
    """
    paths = {Path(place) for place in places}
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for path in sorted(paths):
        other = path.with_suffix(".txt" if path.suffix == ".ann" else ".ann")
        if other not in paths:
            _count(counts, example, "no_text" if path.suffix == ".ann" else "no_marks", path.name)
        elif path.suffix == ".ann":
            text, found = _as_counted(whole_text(other), path)
            spans = list(_spans(path, text, found, counts, example))
            for words, labels in _sentences(text, spans, counts, example, path.name):
                pieces.append(words)
                tags.append(labels)
    if not pieces:
        raise EmptyInputError(
            f"The {split} split of `task` must hold .txt files with .ann files; no such pair has "
            "a word."
        )
    notes = (
        f"{counts[kind]:,} {words.format(split)} (for instance {example[kind]})."
        for kind, words in _SAID.items()
        if counts[kind]
    )
    return Labelled(pieces, tags, tuple(notes))


def _count(counts: Counter[str], example: dict[str, str], kind: str, where: str) -> None:
    counts[kind] += 1
    example.setdefault(kind, where)


@dataclass(frozen=True)
class _Annotation:
    """A text-bound annotation: line in the file, type, characters, and their text if given."""

    line: int
    type: str
    parts: list[tuple[int, int]]
    words: str

    def fits(self, text: str) -> bool:
        """Whether its characters of a text are those that it was written for."""
        return _solid(self.words) == _solid("".join(text[b:e] for b, e in self.parts))


def _as_counted(text: str, path: Path) -> tuple[str, list[_Annotation]]:
    """The text with the line ends that the offsets count, and the annotations.

    Files that passed through Windows have two characters at each line end, or a byte order mark,
    which their annotations do not count. Of the forms of the text, the one is taken that most
    annotations fit: as stored if as many fit.
    """
    annotations = list(_annotations(path))
    plain = text.removeprefix("\ufeff")
    forms = dict.fromkeys([text, plain, plain.replace("\r\n", "\n")])
    if len(forms) == 1:
        return text, annotations
    return max(forms, key=lambda form: sum(a.fits(form) for a in annotations)), annotations


def _annotations(path: Path) -> Iterator[_Annotation]:
    """The text-bound annotations of an `.ann` file, in file order."""
    for number, line in lines_of(path):
        if not line.strip() or line.startswith(_OTHERS):
            continue
        found = _ANNOTATION.fullmatch(line)
        if not found:
            raise InputError(
                f"{path}, line {number}: must be an annotation such as 'T1<tab>TYPE 0 5<tab>words';"
                f" got {line[:60]!r}."
            )
        name, places, words = found.groups()
        pairs = [part.split() for part in places.split(";")]
        yield _Annotation(number, name, [(int(b), int(e)) for b, e in pairs], words or "")


def _spans(
    path: Path,
    text: str,
    annotations: Sequence[_Annotation],
    counts: Counter[str],
    example: dict[str, str],
) -> Iterator[_Span]:
    """Each annotation from its first character to its last."""
    for found in annotations:
        begin, end = min(b for b, _ in found.parts), max(e for _, e in found.parts)
        if end > len(text) or any(b >= e for b, e in found.parts):
            places = ";".join(f"{b} {e}" for b, e in found.parts)
            raise InputError(
                f"{path}, line {found.line}: offsets must be within 0 and {len(text)}, the length "
                f"of the .txt, and begin before they end; got {places!r}."
            )
        here = f"{path.name}, line {found.line}"
        if len(found.parts) > 1:
            _count(counts, example, "gaps", here)
        if found.words and not found.fits(text):
            _count(counts, example, "moved", here)
        yield _Span(found.type, begin, end)


def _solid(text: str) -> str:
    return "".join(text.split())


def _sentences(
    text: str, spans: list[_Span], counts: Counter[str], example: dict[str, str], name: str
) -> Iterator[tuple[list[str], list[str]]]:
    """The words and tags of each sentence."""
    places = [found.span() for found in WORD.finditer(text)]
    tags = ["O"] * len(places)
    begins, ends = [b for b, _ in places], [e for _, e in places]
    for span in sorted(spans, key=lambda s: s.begin - s.end):  # stable: the first of equal ones
        first, past = bisect_right(ends, span.begin), bisect_left(begins, span.end)
        if first >= past:
            _count(counts, example, "wordless", f"{name}: {text[span.begin : span.end]!r}")
        elif any(tag != "O" for tag in tags[first:past]):
            _count(counts, example, "shared", f"{name}: {text[span.begin : span.end]!r}")
        else:
            tags[first:past] = [f"B-{span.type}", *[f"I-{span.type}"] * (past - first - 1)]
    borders = _borders(text)
    words: list[str] = []
    labels: list[str] = []
    before = 0
    for (begin, end), tag in zip(places, tags, strict=True):
        sentence = bisect_right(borders, begin)
        if words and sentence != before and tag[0] != "I":
            yield words, labels
            words, labels = [], []
        before = sentence
        words.append(text[begin:end])
        labels.append(tag)
    if words:
        yield words, labels


def _borders(text: str) -> list[int]:
    """Where sentences begin: after line breaks, or without any after sentence ends."""
    if "\n" in text.strip():
        return [found.end() for found in re.finditer("\n", text)]
    document = Documents(np.zeros(1, np.int64), text_array([text]))
    starts: list[int] = cut_units(document, _SENTENCES)[0].start.tolist()
    return starts
