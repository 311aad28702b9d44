"""Jobs that turn texts into token ids for training: of a corpus's shard or of a selected part."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from corpusfit.core.engine import Job
from corpusfit.core.errors import InputError, ModelError, importing, raise_machine_fault, tokenizing
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard
from corpusfit.text.reading import Tally, read_shard
from corpusfit.text.same_text import text_keys
from corpusfit.training.tokens import Part, write_part

CHARACTERS_AT_ONCE = 1_000_000  # the library needs about 200 bytes per token
_NEAR = 4_096  # last characters of a piece, in which to look for a space
T = TypeVar("T")
_BETWEEN = re.compile(r"(?<=\S)\s(?=\S)")


@dataclass
class TokenTally(Tally):
    """Counts of one part; `documents` are its texts.

    Attributes:
        tokens: number of tokens, ends of text included.
        empty: number of texts without a token.
    """

    tokens: int = 0
    empty: int = 0


class _Tokeniser:
    """An opened tokenizer, which appends `end` to each text with tokens; it truncates nothing."""

    def __init__(self, path: Path, end: int | None) -> None:
        with importing("Training a model", "train"):
            from tokenizers import Tokenizer
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except Exception as e:  # the library raises bare exceptions
            raise_machine_fault(e)
            raise ModelError(f"{path} is not a readable tokenizer: {e}.") from e
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # the fast one tracks no offsets; older releases do not have it
        tokenizer = self._tokenizer
        self._encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        self._end = end
        largest = max((end or 0, *tokenizer.get_vocab(with_added_tokens=True).values()))
        self._kind: type[np.generic] = np.uint16 if largest < 2**16 else np.uint32

    def __call__(self, texts: list[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of n texts, concatenated, and int64 [n + 1]: where each text begins."""
        found: list[NDArray[Any]] = []
        lengths = np.zeros(len(texts), np.int64)
        for owners, pieces in batches(texts):
            with tokenizing():
                coded = self._encode(pieces, add_special_tokens=False)
            for owner, piece in zip(owners, coded, strict=True):
                found.append(np.array(piece.ids, self._kind))
                lengths[owner] += len(found[-1])
        ids = np.concatenate([np.empty(0, self._kind), *found])
        if self._end is not None:
            filled = lengths > 0
            ids = np.insert(ids, np.cumsum(lengths)[filled], self._end)
            lengths += filled
        return ids, np.concatenate([[0], np.cumsum(lengths)])


def batches(texts: list[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Batches of pieces of texts in order, with the number of each piece's text."""
    owners: list[int] = []
    pieces: list[str] = []
    total = 0
    for owner, text in enumerate(texts):
        for piece in pieces_of(text):
            if total + len(piece) > CHARACTERS_AT_ONCE and pieces:
                yield owners, pieces
                owners, pieces, total = [], [], 0
            owners.append(owner)
            pieces.append(piece)
            total += len(piece)
    if pieces:
        yield owners, pieces


def pieces_of(text: str) -> Iterator[str]:
    """A text, cut before a space between words if it is too long to tokenise at once.

    That bounds memory. A tokenizer that does not split at spaces can give another token at a cut.
    """
    begin = 0
    while len(text) - begin > CHARACTERS_AT_ONCE:
        end = begin + CHARACTERS_AT_ONCE
        for found in _BETWEEN.finditer(text, end - _NEAR, end):
            end = found.start()
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


@dataclass(frozen=True)
class TokeniseShard(Job[Shard, tuple[int, TokenTally]]):
    """Tokenise a shard of a corpus, with score 0 for every text; returns its number.

    Attributes:
        tokenizer: a `tokenizer.json`.
        out: folder of the parts, on this machine.
        end: id to append to each text, if any.
    """

    read: ReadPlan
    names: tuple[str, ...]
    tokenizer: Path
    out: Path
    end: int | None

    def start(self) -> Callable[[Shard], tuple[int, TokenTally]]:
        """Open the tokenizer."""
        tokenise = _Tokeniser(self.tokenizer, self.end)

        def work(shard: Shard) -> tuple[int, TokenTally]:
            found, tally = read_shard(shard, self.read, self.names)
            texts = found.texts.to_pylist()
            scores = np.zeros(len(texts), np.float32)
            name = self.names[shard.source]
            part = Part(name, found.row, *tokenise(texts), text_keys(texts), scores)
            return shard.index, _write(self.out, shard.index, part, tally, texts)

        return work


@dataclass(frozen=True)
class TokeniseSelected(Job[tuple[int, Path], tuple[int, TokenTally]]):
    """Tokenise a part of a run's `selected/`, with its scores; returns its number.

    A piece is a number and the path of a `part-*.jsonl.zst`; the number stands for the source in
    the tally. The attributes are those of `TokeniseShard`, and `field`, the text's.
    """

    field: str
    tokenizer: Path
    out: Path
    end: int | None

    def start(self) -> Callable[[tuple[int, Path]], tuple[int, TokenTally]]:
        """Open the tokenizer; raises as `TokeniseShard.start` does.

        The work raises `InputError` for a part that no run wrote.
        """
        tokenise = _Tokeniser(self.tokenizer, self.end)

        def work(piece: tuple[int, Path]) -> tuple[int, TokenTally]:
            number, path = piece
            name = f"{path.parent.name}/{path.name}"
            rows, texts, scores = read_selected(path, name, self.field)
            part = Part(name, rows, *tokenise(texts), text_keys(texts), scores)
            return number, _write(self.out, number, part, Tally(number, len(texts)), texts)

        return work


def _write(out: Path, number: int, part: Part, tally: Tally, texts: list[str]) -> TokenTally:
    counted = TokenTally(**tally.as_dict())
    counted.characters = sum(map(len, texts))
    counted.tokens = len(part.ids)
    counted.empty = int((np.diff(part.offsets) == 0).sum())
    write_part(out, number, part, counted.as_dict())
    return counted


def read_selected(
    path: Path, name: str, field: str, column: str = "score"
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float32]]:
    """The n lines of a selected part: int64 line numbers, texts, and float32 scores or weights."""
    rows, found = selected_lines(path, name, lambda line: _fields(line, field, column))
    return rows, [text for text, _ in found], np.array([f for _, f in found], np.float32)


def selected_lines(
    path: Path, name: str, fields: Callable[[dict[str, Any]], T]
) -> tuple[NDArray[np.int64], list[T]]:
    """The line numbers of a selected part, int64 [n], and fields of each line."""
    rows: list[int] = []
    found: list[T] = []
    row = 0
    try:
        lines = zstandard.ZstdDecompressor().decompress(path.read_bytes()).split(b"\n")
        for row, line in enumerate(lines):
            if line:
                found.append(fields(orjson.loads(line)))
                rows.append(row)
    except (OSError, zstandard.ZstdError, ValueError, KeyError, TypeError) as e:
        raise_machine_fault(e)
        raise InputError(
            f"{name}, row {row}: `corpusfit select` did not write this line ({e}). Run the "
            "selection again, or give the file itself instead of its run folder."
        ) from e
    return np.array(rows, np.int64), found


def _fields(line: dict[str, Any], field: str, column: str) -> tuple[str, float]:
    """The text of a line, and its score or weight."""
    text, figure = line[field], float(line[column])
    if not isinstance(text, str):
        raise TypeError(f"{field} is not a string")
    if not math.isfinite(figure):
        raise ValueError(f"{column} {figure:g}")
    return text, figure
