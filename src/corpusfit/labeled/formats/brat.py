"""Read brat standoff annotations (.txt with .ann) as BIO tags."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, text_array
from corpusfit.labeled.formats import Labeled, lines_of, whole_text
from corpusfit.text.reading import cut_units

_MARKS = "".join(c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c)[0] == "M")
# A word as in mDAPT: split at white space, with numbers and special characters separate.
WORD = re.compile(
    rf"[^\W\d_]+(?:(?=[^\0-\x7f])[{_MARKS}]+[^\W\d_]*)*|\d+|[^\w\s\ufeff]|_"  # ASCII is fast
)
_ANNOTATION = re.compile(r"T\S*\t(\S+)[ \t]+(\d+ +\d+(?: *; *\d+ +\d+)*) *(?:\t(.*))?")
_OTHERS = ("R", "E", "A", "M", "N", "#", "*")
_SENTENCES = CutPlan(unit="sentence", pieces=1 << 20)
_NOTES = {
    "gaps": "discontinuous annotations of {} were taken from their first character to their last",
    "shared": "annotations of {} were left out: they share a word with a longer one",
    "wordless": "annotations of {} were left out: they hold no word",
    "moved": "annotations of {} have another text than what stands where they point",
    "no_text": ".ann files of {} were left out: there is no .txt of the same name",
    "no_marks": ".txt files of {} were left out: there is no .ann of the same name",
    "others": "files of {} were left out: they are neither .txt nor .ann",
}


def read_brat(places: Sequence[str], split: str) -> Labeled:
    """Read the tagged sentences of a split.

    Reference: https://brat.nlplab.org/standoff.html; mDAPT, appendix B.
    """
    # A document is split into sentences at line breaks, or without any at sentence ends, never
    # inside an annotation. Gaps of a discontinuous annotation are tagged too, as in mDAPT. Of
    # annotations that share a word, the longest is kept, of equally long ones the first.
    paths = {Path(file) for file in places}
    events = _Events(Counter(), {})
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for path in sorted(paths):
        other = path.with_suffix(".txt" if path.suffix == ".ann" else ".ann")
        if path.suffix not in (".txt", ".ann"):
            events.note("others", path.name)
        elif other not in paths:
            # half of a pair, which is reported but not read
            events.note("no_text" if path.suffix == ".ann" else "no_marks", path.name)
        elif path.suffix == ".ann":
            text, annotations = _as_counted(whole_text(other), path)
            for words, labels in _sentences(text, annotations, events, path):
                pieces.append(words)
                tags.append(labels)
    if not pieces:
        raise EmptyInputError(
            f"The {split} split of `task` must hold .txt files with .ann files; no such pair has "
            "a word."
        )
    notes = (
        f"{events.counts[kind]:,} {message.format(split)} (for instance {events.examples[kind]})."
        for kind, message in _NOTES.items()
        if events.counts[kind]
    )
    return Labeled(pieces, tags, tuple(notes))


class _Events(NamedTuple):
    """What to report to the user: by kind, a count and the first place."""

    counts: Counter[str]
    examples: dict[str, str]

    def note(self, kind: str, where: str) -> None:
        self.counts[kind] += 1
        self.examples.setdefault(kind, where)


@dataclass(frozen=True)
class _Annotation:
    """A text-bound annotation: line in the file, type, characters, and their text if given."""

    line: int
    type: str
    parts: list[tuple[int, int]]
    words: str

    def fits(self, text: str) -> bool:
        """Whether the text at its offsets is the text that it annotates."""
        marked = "".join(text[b:e] for b, e in self.parts)
        return "".join(self.words.split()) == "".join(marked.split())


def _as_counted(text: str, path: Path) -> tuple[str, list[_Annotation]]:
    """The text in the form that the offsets refer to, and the annotations of an `.ann`."""
    annotations = []
    for number, line in lines_of(path):
        if not line.strip() or line.startswith(_OTHERS):
            continue
        match = _ANNOTATION.fullmatch(line)
        if not match:
            raise InputError(
                f"{path}, line {number}: must be an annotation such as 'T1<tab>TYPE 0 5<tab>words';"
                f" got {line[:60]!r}."
            )
        name, offsets, covered = match.groups()
        parts = [(int(b), int(e)) for b, e in map(str.split, offsets.split(";"))]
        annotations.append(_Annotation(number, name, parts, covered or ""))
    # Files edited on Windows have CRLF line ends or a byte order mark, which their offsets may not
    # count. Try each form of the text and keep the one that fits most annotations; ties go to the
    # text as stored.
    plain = text.removeprefix("\ufeff")
    forms = dict.fromkeys([text, plain, plain.replace("\r\n", "\n")])
    if len(forms) == 1:
        return text, annotations
    return max(forms, key=lambda form: sum(a.fits(form) for a in annotations)), annotations


def _sentences(
    text: str, annotations: Sequence[_Annotation], events: _Events, path: Path
) -> Iterator[tuple[list[str], list[str]]]:
    """The words and tags of each sentence."""
    places = [match.span() for match in WORD.finditer(text)]
    tags = ["O"] * len(places)
    begins = [b for b, _ in places]
    ends = [e for _, e in places]
    spans = []  # each annotation from its first character to its last
    for annotation in annotations:
        parts = annotation.parts
        begin = min(b for b, _ in parts)
        end = max(e for _, e in parts)
        if end > len(text) or any(b >= e for b, e in parts):
            raise InputError(
                f"{path}, line {annotation.line}: offsets must be within 0 and {len(text)}, the "
                "length of the .txt, and begin before they end; got "
                f"{';'.join(f'{b} {e}' for b, e in parts)!r}. Unpack both files again."
            )
        where = f"{path.name}, line {annotation.line}"
        if len(parts) > 1:
            events.note("gaps", where)
        if annotation.words and not annotation.fits(text):
            events.note("moved", where)
        spans.append((begin, end, annotation.type))
    # the sort is stable, so the first of equally long spans wins
    for begin, end, kind in sorted(spans, key=lambda s: s[0] - s[1]):
        first = bisect_right(ends, begin)
        past = bisect_left(begins, end)
        if first >= past:
            events.note("wordless", f"{path.name}: {text[begin:end]!r}")
        elif any(tag != "O" for tag in tags[first:past]):
            events.note("shared", f"{path.name}: {text[begin:end]!r}")
        else:
            tags[first:past] = [f"B-{kind}", *[f"I-{kind}"] * (past - first - 1)]
    # sentences begin after line breaks, or without any after sentence ends
    if "\n" in text.strip():
        borders = [match.end() for match in re.finditer("\n", text)]
    else:
        document = Documents(np.zeros(1, np.int64), text_array([text]))
        borders = cut_units(document, _SENTENCES)[0].start.tolist()
    words: list[str] = []
    labels: list[str] = []
    before = 0
    for (begin, end), tag in zip(places, tags, strict=True):
        sentence = bisect_right(borders, begin)
        if words and sentence != before and tag[0] != "I":  # never inside an annotation
            yield words, labels
            words = []
            labels = []
        before = sentence
        words.append(text[begin:end])
        labels.append(tag)
    if words:
        yield words, labels
