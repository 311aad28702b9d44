"""Jobs that turn texts into token ids for training: a shard of any corpus, or a selected part.

What: read the texts, tokenise them without special tokens, keep them as a part of
`adapt/tokens.py`.
Why: a text is tokenised once and read in every pass.
Trade-off: a text of more than a million characters is tokenised in pieces, cut before a space
between two words. That bounds memory, and gives the same tokens with any tokenizer that takes
words apart by themselves; another may differ by a token at such a cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from corpusfit.adapt.keys import text_keys
from corpusfit.adapt.tokens import Part, write_part
from corpusfit.engine import Job
from corpusfit.errors import InputError, MissingDependencyError, ModelError
from corpusfit.jobs.reading import Tally, read_shard
from corpusfit.plan import ReadPlan
from corpusfit.types import Shard

_AT_ONCE = 1_000_000  # characters; the library needs some 200 bytes a token while it works
_NEAR = 4_096  # characters at the end of a piece in which a space is looked for
_BETWEEN = re.compile(r"(?<=\S)\s(?=\S)")


@dataclass
class TokenTally(Tally):
    """What was counted in one part; `documents` are the texts, `characters` theirs.

    Attributes:
        tokens: of all texts, ends of text included.
        empty: texts that have no token.
    """

    tokens: int = 0
    empty: int = 0


class _Tokeniser:
    """A tokenizer's JSON, opened; special tokens are not added, nothing is cut off.

    Args:
        path: the file.
        end: the id to put behind each text that has tokens, if any.
    """

    def __init__(self, path: Path, end: int | None) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as e:
            raise MissingDependencyError("Training a model", "train") from e
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except Exception as e:  # the library raises bare exceptions
            raise ModelError(f"{path} is not a tokenizer that can be read: {e}.") from e
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # the fast one keeps no places in the text; older releases do not have it
        tokenizer = self._tokenizer
        self._encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        self._end = end
        largest = max((end or 0, *tokenizer.get_vocab(with_added_tokens=True).values()))
        self._kind: type[np.generic] = np.uint16 if largest < 2**16 else np.uint32

    def __call__(self, texts: list[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of n texts end to end, and int64 [n + 1] where each text begins."""
        found: list[NDArray[Any]] = []
        lengths = np.zeros(len(texts), np.int64)
        for owners, pieces in _batches(texts):
            for owner, piece in zip(
                owners, self._encode(pieces, add_special_tokens=False), strict=True
            ):
                found.append(np.array(piece.ids, self._kind))
                lengths[owner] += len(found[-1])
        ids = np.concatenate([np.empty(0, self._kind), *found])
        if self._end is not None:
            filled = lengths > 0
            ids = np.insert(ids, np.cumsum(lengths)[filled], self._end)
            lengths += filled
        return ids, np.concatenate([[0], np.cumsum(lengths)])


def _batches(texts: list[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Pieces of texts in order, with the number of each one's text, to be tokenised together."""
    owners: list[int] = []
    pieces: list[str] = []
    total = 0
    for owner, text in enumerate(texts):
        for piece in _pieces(text):
            if total + len(piece) > _AT_ONCE and pieces:
                yield owners, pieces
                owners, pieces, total = [], [], 0
            owners.append(owner)
            pieces.append(piece)
            total += len(piece)
    if pieces:
        yield owners, pieces


def _pieces(text: str) -> Iterator[str]:
    """A text, cut before a space between words where it is too long to be tokenised at once."""
    begin = 0
    while len(text) - begin > _AT_ONCE:
        end = begin + _AT_ONCE
        for found in _BETWEEN.finditer(text, end - _NEAR, end):
            end = found.start()
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


@dataclass(frozen=True)
class TokeniseShard(Job[Shard, tuple[int, TokenTally]]):
    """Tokenise a shard of a corpus, every text of score 0; returns its number.

    Attributes:
        read: how rows become documents.
        names: the sources' names.
        tokenizer: a `tokenizer.json`.
        out: folder of the parts, on this machine.
        end: the id to put behind each text, if any.
    """

    read: ReadPlan
    names: tuple[str, ...]
    tokenizer: Path
    out: Path
    end: int | None

    def start(self) -> Callable[[Shard], tuple[int, TokenTally]]:
        """Open the tokenizer.

        Raises:
            MissingDependencyError: the library is not installed.
            ModelError: the file is no tokenizer.
        """
        tokenise = _Tokeniser(self.tokenizer, self.end)

        def work(shard: Shard) -> tuple[int, TokenTally]:
            found, tally = read_shard(shard, self.read, self.names)
            texts = found.texts.to_pylist()
            ids, offsets = tokenise(texts)
            n = len(texts)
            part = Part(
                self.names[shard.source],
                found.row,
                ids,
                offsets,
                text_keys(texts),
                np.zeros(n, np.float32),
            )
            return shard.index, _kept(self.out, shard.index, part, tally, texts)

        return work


@dataclass(frozen=True)
class TokeniseSelected(Job[tuple[int, Path], tuple[int, TokenTally]]):
    """Tokenise a part of a run's `selected/`, with its scores; returns its number.

    A piece is a number and the path of a `part-*.jsonl.zst`; its source's number in the tally is
    the part's. The attributes are those of `TokeniseShard`.
    """

    tokenizer: Path
    out: Path
    end: int | None

    def start(self) -> Callable[[tuple[int, Path]], tuple[int, TokenTally]]:
        """Open the tokenizer; raises as `TokeniseShard.start` does.

        The work raises `InputError` for a part that is not what a run wrote.
        """
        tokenise = _Tokeniser(self.tokenizer, self.end)

        def work(piece: tuple[int, Path]) -> tuple[int, TokenTally]:
            number, path = piece
            name = f"{path.parent.name}/{path.name}"
            rows, texts, scores = read_selected(path, name)
            part = Part(name, rows, *tokenise(texts), text_keys(texts), scores)
            return number, _kept(self.out, number, part, Tally(number, len(texts)), texts)

        return work


def _kept(out: Path, number: int, part: Part, tally: Tally, texts: list[str]) -> TokenTally:
    """Write a part; what was counted in it."""
    counted = TokenTally(**tally.as_dict())
    counted.characters = sum(map(len, texts))
    counted.tokens = len(part.ids)
    counted.empty = int((np.diff(part.offsets) == 0).sum())
    write_part(out, number, part, counted.as_dict())
    return counted


def read_selected(
    path: Path, name: str, column: str = "score"
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float32]]:
    """The n lines of a selected part: int64 line numbers, texts, and float32 scores or weights.

    Args:
        path: of the part.
        name: of the part, for errors.
        column: `score` or `weight`.

    Raises:
        InputError: it is damaged, or a line lacks what a run writes.
    """
    rows: list[int] = []
    texts: list[str] = []
    figures: list[float] = []
    row = 0
    try:
        lines = zstandard.ZstdDecompressor().decompress(path.read_bytes()).split(b"\n")
        for row, line in enumerate(lines):
            if line:
                text, figure = _fields(orjson.loads(line), column)
                rows.append(row)
                texts.append(text)
                figures.append(figure)
    except (OSError, zstandard.ZstdError, ValueError, KeyError, TypeError) as e:
        raise InputError(
            f"{name}, row {row}: not what corpusfit select writes ({e}). Run the selection "
            "again, or name its texts as any other corpus."
        ) from e
    return np.array(rows, np.int64), texts, np.array(figures, np.float32)


def _fields(line: dict[str, Any], column: str) -> tuple[str, float]:
    """Text and a figure of a line."""
    text, figure = line["text"], float(line[column])
    if not isinstance(text, str):
        raise TypeError("its text is no string")
    if not math.isfinite(figure):
        raise ValueError(f"{column} {figure:g}")
    return text, figure
