"""Read an n-gram model from an ARPA file, the format that KenLM, SRILM and others write.

What: the file's n-grams, probabilities and back-offs in the table of `kernels/backoff.py`.
Why: who has a model of a domain or of general text need not train another.
Trade-off: our tokens only. They are lower-cased words without signs (with, on request), so an
n-gram with any other word, "The" or "don't", can never be met and is left out; train the model on
lower-cased text for good matches. Plain text only, about 300,000 n-grams a second.
Reference: the ARPA format as KenLM reads it (Heafield 2011): log10, `<unk>` is -100 if missing.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import ModelError
from corpusfit.kernels.backoff import UNKNOWN, empty_table, find, incomplete, keys_of, put
from corpusfit.kernels.tokens import BEGIN, END, identity, reference

LONGEST_ORDER = 9
_SPECIAL = {
    b"<s>": int(BEGIN),
    b"</s>": int(END),
    b"<unk>": int(UNKNOWN),
    b"<UNK>": int(UNKNOWN),
}
_NEVER = 0
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)$")
_NO_UNKNOWN = -100.0
_LONGEST_LINE = 1 << 16


@dataclass
class _Lines:
    """The file's lines that are not empty, and where we are."""

    path: str
    file: BinaryIO
    number: int = 0

    def next(self, wanted: str) -> bytes:
        while line := self.file.readline(_LONGEST_LINE):
            self.number += 1
            if stripped := line.strip():
                return stripped
        raise self.wrong(f"the file ends where {wanted} should be; it was cut short")

    def wrong(self, what: str, number: int | None = None) -> ModelError:
        number = self.number if number is None else number
        return ModelError(
            f"{self.path}, line {number}: {what}. Copy the ARPA file again, or write it anew, for "
            "example with KenLM's lmplz."
        )


@dataclass
class _Section:
    """The n-grams of one length whose words our tokenizer can produce."""

    words: array[int] = field(default_factory=lambda: array("Q"))
    values: array[float] = field(default_factory=lambda: array("f"))
    lines: array[int] = field(default_factory=lambda: array("q"))


def read_arpa(path: str) -> tuple[NDArray[np.uint64], int]:
    """Read a model.

    Args:
        path: a plain ARPA file of order 1 to 9.

    Returns:
        The table for `kernels/backoff.py`, and the model's order.

    Raises:
        ModelError: the file cannot be read, or is not a whole and sound ARPA file; names the line.
    """
    try:
        with open(path, "rb") as file:
            lines = _Lines(path, file)
            counts = _header(lines)
            known: dict[bytes, int] = {}
            sections = []
            for k, count in enumerate(counts, 1):
                sections.append(_section(lines, k, count, known))
                after = f"\\{k + 1}-grams:" if k < len(counts) else "\\end\\"
                _expect(lines, after, f"more than the {count} {k}-grams that the header counts")
    except OSError as e:
        raise ModelError(f"Cannot read {path}: {e.strerror}. Give the path of an ARPA file.") from e
    return _table(lines, sections), len(counts)


def _expect(lines: _Lines, wanted: str, otherwise: str) -> None:
    if lines.next(wanted) != wanted.encode():
        raise lines.wrong(f"expected {wanted!r}, found {otherwise}")


def _header(lines: _Lines) -> list[int]:
    """How many n-grams of each length there are, and the line after is the first section's."""
    _expect(lines, "\\data\\", "something else: this is no plain ARPA file")
    counts: list[int] = []
    while found := _COUNT.match(line := lines.next("\\1-grams:")):
        k = int(found[1])
        if k != len(counts) + 1:
            raise lines.wrong(f"expected the number of {len(counts) + 1}-grams, found that of {k}")
        counts.append(int(found[2]))
    if line != b"\\1-grams:" or not counts:
        raise lines.wrong(r"expected 'ngram N=COUNT' or '\1-grams:', found something else")
    if len(counts) > LONGEST_ORDER:
        raise lines.wrong(f"the order is {len(counts)}; at most {LONGEST_ORDER} can be used")
    return counts


def _section(lines: _Lines, k: int, count: int, known: dict[bytes, int]) -> _Section:
    """Read the n-grams of length k; those of length 1 fill `known`, identities by word."""
    section = _Section()
    for i in range(count):
        fields = lines.next(f"{k}-gram {i + 1} of {count}").split()
        if fields[0].startswith(b"\\"):
            raise lines.wrong(f"only {i} of the {count} {k}-grams that the header counts came")
        if len(fields) not in (k + 1, k + 2):
            raise lines.wrong(
                f"a {k}-gram has a probability, {k} words and perhaps a back-off, so {k + 1} or "
                f"{k + 2} fields; here are {len(fields)}"
            )
        names = fields[1 : k + 1]
        if k == 1:
            known[names[0]] = _identity(lines, names[0])
        words = [known.get(name, -1) for name in names]
        if -1 in words:
            raise lines.wrong(f"{names[words.index(-1)]!r} is not among the 1-grams")
        back = _number(lines, fields[k + 1]) if len(fields) == k + 2 else 0.0
        values = min(_number(lines, fields[0]), 0.0), back  # some round 1 up; KenLM forgives it too
        if _NEVER not in words:
            section.words.extend(words)
            section.values.extend(values)
            section.lines.append(lines.number)
    return section


def _number(lines: _Lines, text: bytes) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) < 1e6:
        raise lines.wrong(f"{text!r} is not a finite number")
    return number


def _identity(lines: _Lines, word: bytes) -> int:
    """Identity of a word, or `_NEVER` if our tokenizer does not produce it."""
    if word in _SPECIAL:
        return _SPECIAL[word]
    try:
        text = word.decode()
    except UnicodeDecodeError as e:
        raise lines.wrong(f"{word!r} is not UTF-8") from e
    return identity(text) if reference(text, signs=True) == [text] else _NEVER


def _table(lines: _Lines, sections: list[_Section]) -> NDArray[np.uint64]:
    """All sections in one table, checked: nothing twice, and every part of an n-gram is there."""
    table = empty_table(sum(len(s.lines) for s in sections) + 1)
    for k, section in enumerate(sections, 1):
        words = np.array(section.words, np.uint64).reshape(-1, k)
        values = np.array(section.values, np.float32).reshape(-1, 2)
        backoffs = values[:, 1].copy() if k < len(sections) else np.zeros(len(values), np.float32)
        twice = put(table, keys_of(words), values[:, 0].copy(), backoffs)
        if twice >= 0:
            raise lines.wrong(f"this {k}-gram is there twice", section.lines[twice])
        bad = incomplete(table, words)
        if bad >= 0:
            raise lines.wrong(
                f"the first or the last {k - 1} words of this {k}-gram are no {k - 1}-gram of the "
                "model, as some pruning leaves it",
                section.lines[bad],
            )
    for name in (b"<s>", b"</s>"):
        if not find(table, np.uint64(_SPECIAL[name]))[1]:
            raise lines.wrong(f"the model has no {name.decode()}")
    if not find(table, UNKNOWN)[1]:
        unknown = np.array([UNKNOWN]), np.full(1, _NO_UNKNOWN, np.float32), np.zeros(1, np.float32)
        put(table, *unknown)
    return table
