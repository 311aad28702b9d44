"""Read an n-gram model from an ARPA file (KenLM, SRILM and others)."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ModelError, raise_machine_fault
from corpusfit.kernels.backoff import UNKNOWN, empty_table, find, incomplete, keys_of, put
from corpusfit.kernels.tokens import BEGIN, END, identity, reference

MAX_ORDER = 9
_SPECIAL = {b"<s>": int(BEGIN), b"</s>": int(END), b"<unk>": int(UNKNOWN), b"<UNK>": int(UNKNOWN)}
_NEVER = 0
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)$")
_NO_UNKNOWN = -100.0
_LONGEST_LINE = 1 << 16


@dataclass
class _Lines:
    """The non-empty lines of the file, and the number of the current line."""

    path: str
    file: BinaryIO
    number: int = 0

    def next(self, wanted: str) -> bytes:
        while line := self.file.readline(_LONGEST_LINE):
            self.number += 1
            if stripped := line.strip():
                return stripped
        raise self.wrong(f"expected {wanted}, found the end of the file")

    def wrong(self, fault: str, number: int | None = None) -> ModelError:
        number = self.number if number is None else number
        return ModelError(
            f"{self.path}, line {number}: {fault}. Copy the ARPA file again or recreate it, for "
            "example with KenLM's lmplz."
        )


@dataclass
class _Section:
    """The n-grams of one length whose words this package's tokenizer can produce."""

    words: array[int] = field(default_factory=lambda: array("Q"))
    values: array[float] = field(default_factory=lambda: array("f"))
    lines: array[int] = field(default_factory=lambda: array("q"))


def read_arpa(path: str) -> tuple[NDArray[np.uint64], int]:
    """Read a model."""
    # Tokens are lower-cased words without punctuation (with it, on request). An n-gram with any
    # other word, such as "The" or "don't", can never match and is skipped, so train the model on
    # lower-cased text. About 300,000 n-grams per second are read.
    try:
        with open(path, "rb") as file:
            lines = _Lines(path, file)
            counts = _header(lines)
            known: dict[bytes, int] = {}
            sections = []
            for k, count in enumerate(counts, 1):
                sections.append(_section(lines, k, count, known))
                after = f"\\{k + 1}-grams:" if k < len(counts) else "\\end\\"
                _expect(lines, after, f"more than the {count} {k}-grams of the header")
    except OSError as e:
        raise_machine_fault(e)
        raise ModelError(f"{path} cannot be read: {e.strerror}. Name an ARPA file.") from e
    return _table(lines, sections), len(counts)


def _expect(lines: _Lines, wanted: str, otherwise: str) -> None:
    if lines.next(wanted) != wanted.encode():
        raise lines.wrong(f"expected {wanted!r}, found {otherwise}")


def _header(lines: _Lines) -> list[int]:
    """Numbers of n-grams of each length; the next line is the first section's."""
    _expect(lines, "\\data\\", "other text: this is not a plain ARPA file")
    counts: list[int] = []
    while match := _COUNT.match(line := lines.next("\\1-grams:")):
        k = int(match[1])
        if k != len(counts) + 1:
            raise lines.wrong(f"expected 'ngram {len(counts) + 1}=COUNT', found 'ngram {k}='")
        counts.append(int(match[2]))
    if line != b"\\1-grams:" or not counts:
        raise lines.wrong(r"expected 'ngram N=COUNT' or '\1-grams:', found other text")
    if len(counts) > MAX_ORDER:
        raise lines.wrong(f"the order must be at most {MAX_ORDER}; got {len(counts)}")
    return counts


def _section(lines: _Lines, k: int, count: int, known: dict[bytes, int]) -> _Section:
    """Read the n-grams of length k; 1-grams fill `known`, a map of words to identities."""
    section = _Section()
    for i in range(count):
        fields = lines.next(f"{k}-gram {i + 1} of {count}").split()
        if fields[0].startswith(b"\\"):
            raise lines.wrong(f"expected {count} {k}-grams as in the header, found {i}")
        if len(fields) not in (k + 1, k + 2):
            raise lines.wrong(
                f"expected a probability, {k} words and an optional back-off ({k + 1} or {k + 2} "
                f"fields), found {len(fields)} fields"
            )
        names = fields[1 : k + 1]
        if k == 1:
            known[names[0]] = _identity(lines, names[0])
        words = [known.get(name, -1) for name in names]
        if -1 in words:
            raise lines.wrong(f"{names[words.index(-1)]!r} is not among the 1-grams")
        back = _number(lines, fields[k + 1]) if len(fields) == k + 2 else 0.0
        # some tools round probabilities above 1; KenLM accepts that, too
        values = min(_number(lines, fields[0]), 0.0), back
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
    """Identity of a word, or `_NEVER` if the tokenizer cannot produce it."""
    if word in _SPECIAL:
        return _SPECIAL[word]
    try:
        text = word.decode()
    except UnicodeDecodeError as e:
        raise lines.wrong(f"{word!r} is not UTF-8") from e
    return identity(text) if reference(text, signs=True) == [text] else _NEVER


def _table(lines: _Lines, sections: list[_Section]) -> NDArray[np.uint64]:
    """All sections in one table, checked for repeated n-grams and missing sub-n-grams."""
    table = empty_table(sum(len(s.lines) for s in sections) + 1)
    for k, section in enumerate(sections, 1):
        words = np.array(section.words, np.uint64).reshape(-1, k)
        values = np.array(section.values, np.float32).reshape(-1, 2)
        backoffs = values[:, 1].copy() if k < len(sections) else np.zeros(len(values), np.float32)
        twice = put(table, keys_of(words), values[:, 0].copy(), backoffs)
        if twice >= 0:
            raise lines.wrong(f"this {k}-gram occurs twice", section.lines[twice])
        bad = incomplete(table, words)
        if bad >= 0:
            raise lines.wrong(
                f"the first or the last {k - 1} words of this {k}-gram are not a {k - 1}-gram of "
                "the model (some pruning does this)",
                section.lines[bad],
            )
    for name in (b"<s>", b"</s>"):
        if not find(table, np.uint64(_SPECIAL[name]))[1]:
            raise lines.wrong(f"the model has no {name.decode()}")
    if not find(table, UNKNOWN)[1]:
        unknown = np.array([UNKNOWN]), np.full(1, _NO_UNKNOWN, np.float32), np.zeros(1, np.float32)
        put(table, *unknown)
    return table
