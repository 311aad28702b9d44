"""Jobs that turn aligned pairs into token ids for training: of a shard or of a selected part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import Job
from corpusfit.core.errors import importing
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, file_of, in_file
from corpusfit.embed.transformer import LOCAL, loading
from corpusfit.text.reading import Tally, read_shard
from corpusfit.text.same_text import text_keys
from corpusfit.training.tokenise_job import TokenTally, selected_lines
from corpusfit.training.tokens import Part, write_part
from corpusfit.training.translators import domain_tag

_AT_ONCE = 1_000  # texts


@dataclass
class PairTally(TokenTally):
    """Counts of one part; `documents` are its pairs.

    Attributes:
        source_tokens: tokens of the source texts, special tokens included.
        unknown_source: how many of them are the unknown token.
        unknown_target: unknown tokens of the target texts.
    """

    source_tokens: int = 0
    unknown_source: int = 0
    unknown_target: int = 0


class _PairTokeniser:
    """An opened tokenizer of both sides, which adds its special tokens and truncates nothing."""

    def __init__(self, folder: Path, *, tagged: bool) -> None:
        with importing("Training a model", "train"):
            from transformers import AutoTokenizer
        with loading(f"The tokenizer {folder}"):
            self._tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **LOCAL)
        self._tagged = tagged
        size = len(self._tokenizer)
        self._kind: type[np.generic] = np.uint16 if size <= 2**16 else np.uint32

    def part(
        self,
        source: str,
        rows: NDArray[np.int64],
        texts: Sequence[Sequence[str]],
        names: Sequence[str],
        scores: NDArray[np.float32],
        tally: Tally,
    ) -> tuple[Part, PairTally]:
        """The part of n pairs."""
        told = texts[0]
        if self._tagged:
            told = [f"{domain_tag(n)} {text}" for n, text in zip(names, told, strict=True)]
        first, second = self._ids(told, "text"), self._ids(texts[1], "text_target")
        both = [ids for pair in zip(first, second, strict=True) for ids in pair]
        begins = np.fromiter(map(len, first), np.int64, len(first))
        lengths = begins + np.fromiter(map(len, second), np.int64, len(second))
        counted = PairTally(**tally.as_dict())
        counted.characters = sum(len(text) for side in texts for text in side)
        counted.tokens, counted.source_tokens = int(lengths.sum()), int(begins.sum())
        unknown = self._tokenizer.unk_token_id
        counted.unknown_source, counted.unknown_target = (
            sum(int((ids == unknown).sum()) for ids in side) for side in (first, second)
        )
        found = Part(
            source,
            rows,
            np.concatenate([np.empty(0, self._kind), *both]),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.stack([text_keys(side) for side in texts], 1),
            scores,
            begins,
        )
        return found, counted

    def _ids(self, texts: Sequence[str], side: str) -> list[NDArray[Any]]:
        """The ids of each text of a side."""
        found: list[NDArray[Any]] = []
        for at in range(0, len(texts), _AT_ONCE):
            given = {side: list(texts[at : at + _AT_ONCE])}
            encoded = self._tokenizer(**given, return_attention_mask=False, verbose=False)
            found += [np.array(ids, self._kind) for ids in encoded["input_ids"]]
        return found


@dataclass(frozen=True)
class TokenisePairs(Job[Shard, tuple[int, PairTally]]):
    """Tokenise a shard of aligned pairs, with score 0 for every pair; returns its number.

    Attributes:
        tokenizer: folder of a transformers tokenizer.
        out: folder of the parts, on this machine.
        tagged: whether a source text begins with the tag of its file's domain.
    """

    read: ReadPlan
    names: tuple[str, ...]
    tokenizer: Path
    out: Path
    tagged: bool

    def start(self) -> Callable[[Shard], tuple[int, PairTally]]:
        """Open the tokenizer."""
        tokenise = _PairTokeniser(self.tokenizer, tagged=self.tagged)
        first, second = self.read.sides()

        def work(shard: Shard) -> tuple[int, PairTally]:
            found, tally = read_shard(shard, first, self.names)
            others, _ = read_shard(shard, second, self.names)
            texts = [found.texts.to_pylist(), others.texts.to_pylist()]
            files = [self.names[shard.source + int(n)] for n in file_of(found.row)]
            name, scores = self.names[shard.source], np.zeros(len(found), np.float32)
            part, counts = tokenise.part(name, in_file(found.row), texts, files, scores, tally)
            write_part(self.out, shard.index, part, counts.as_dict())
            return shard.index, counts

        return work


@dataclass(frozen=True)
class TokeniseSelectedPairs(Job[tuple[int, Path], tuple[int, PairTally]]):
    """Tokenise a part of the `selected/` of aligned pairs, with scores; returns its number.

    A piece is that of `TokeniseSelected`; the attributes are those of `TokenisePairs`.
    """

    tokenizer: Path
    out: Path
    tagged: bool

    def start(self) -> Callable[[tuple[int, Path]], tuple[int, PairTally]]:
        """Open the tokenizer; raises as `TokenisePairs.start` does.

        The work raises `InputError` for a part that no run over pairs wrote.
        """
        tokenise = _PairTokeniser(self.tokenizer, tagged=self.tagged)

        def work(piece: tuple[int, Path]) -> tuple[int, PairTally]:
            number, path = piece
            name = f"{path.parent.name}/{path.name}"
            rows, lines = selected_lines(path, name, _fields)
            scores = np.array([line[3] for line in lines], np.float32)
            texts = [[line[0] for line in lines], [line[1] for line in lines]]
            files = [line[2] for line in lines]
            tally = Tally(number, len(lines))
            part, counts = tokenise.part(name, rows, texts, files, scores, tally)
            write_part(self.out, number, part, counts.as_dict())
            return number, counts

        return work


def _fields(line: dict[str, Any]) -> tuple[str, str, str, float]:
    """Both sides of a line, the name of its file, and its score."""
    found = str(line["text"]), str(line["translation"]), str(line["source"]), float(line["score"])
    if not np.isfinite(found[3]):
        raise ValueError(f"score {found[3]:g}")
    return found
