"""Texts and aligned pairs as token ids, once per tokenizer, kept in the cache by content."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.engine import Job
from corpusfit.core.errors import (
    InputError,
    ModelError,
    changed_input,
    importing,
    raise_machine_fault,
    tokenizing,
)
from corpusfit.core.manifest import digest, source_identity
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Source, file_of, in_file
from corpusfit.embed.contract import file_digest
from corpusfit.embed.transformer import LOCAL, loading
from corpusfit.text.context import RunContext
from corpusfit.text.reading import Reasons, Tally, read_shard
from corpusfit.text.same_text import FORM, text_keys
from corpusfit.training.tokens import PairTokens, Part, Tokens, finished, read_tally, write_part
from corpusfit.training.translators import domain_tag

CHARACTERS_AT_ONCE = 1_000_000  # the library needs about 200 bytes per token
_NEAR = 4_096  # last characters of a piece, in which to look for a space
_BETWEEN = re.compile(r"(?<=\S)\s(?=\S)")
_PAIRS_AT_ONCE = 1_000
_UNKNOWN = 0.01  # share of a side's tokens from which a warning is shown
_COUNTED = (
    *("empty", "characters", "tokens"),
    *("source_tokens", "unknown_source", "unknown_target"),  # of pairs
)
Sides = Sequence[Sequence[str]]
"""The texts, or the source texts and the target texts of pairs."""


@dataclass
class TokenTally(Tally):
    """Counts of one part; `documents` are its texts or pairs."""

    tokens: int = 0  # number of tokens, ends of text included
    empty: int = 0  # number of texts without a token


@dataclass
class PairTally(TokenTally):
    """Counts of one part of pairs."""

    source_tokens: int = 0  # tokens of the source texts, special tokens included
    unknown_source: int = 0  # how many of them are the unknown token
    unknown_target: int = 0  # unknown tokens of the target texts


class _Tokeniser:
    """An opened tokenizer, which appends `end` to each text with tokens; it truncates nothing."""

    def __init__(self, path: Path, end: int | None) -> None:
        with importing("Training a model", "train"):
            from tokenizers import Tokenizer
        try:
            tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except Exception as e:  # the library raises bare exceptions
            raise_machine_fault(e)
            raise ModelError(f"{path} is not a readable tokenizer: {e}.") from e
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # the fast one tracks no offsets; older releases do not have it
        self._encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        self._end = end
        largest = max((end or 0, *tokenizer.get_vocab(with_added_tokens=True).values()))
        self._kind: type[np.generic] = np.uint16 if largest < 2**16 else np.uint32

    def __call__(
        self,
        source: str,
        rows: NDArray[np.int64],
        sides: Sides,
        files: Sequence[str],
        scores: NDArray[np.float32],
        tally: Tally,
    ) -> tuple[Part, TokenTally]:
        """The part of n texts, and its counts."""
        (texts,) = sides
        encoded: list[NDArray[Any]] = []
        lengths = np.zeros(len(texts), np.int64)
        for owners, pieces in batches(texts):
            with tokenizing():
                coded = self._encode(pieces, add_special_tokens=False)
            for owner, piece in zip(owners, coded, strict=True):
                encoded.append(np.array(piece.ids, self._kind))
                lengths[owner] += len(encoded[-1])
        ids = np.concatenate([np.empty(0, self._kind), *encoded])
        empty = int((lengths == 0).sum())
        if self._end is not None:
            filled = lengths > 0
            ids = np.insert(ids, np.cumsum(lengths)[filled], self._end)
            lengths += filled
        counted = TokenTally(**tally.as_dict())
        counted.characters = sum(map(len, texts))
        counted.tokens, counted.empty = len(ids), empty
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return Part(source, rows, ids, offsets, text_keys(texts), scores), counted


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

    def __call__(
        self,
        source: str,
        rows: NDArray[np.int64],
        sides: Sides,
        files: Sequence[str],
        scores: NDArray[np.float32],
        tally: Tally,
    ) -> tuple[Part, TokenTally]:
        """The part of n pairs, and its counts."""
        inputs = sides[0]
        if self._tagged:
            inputs = [f"{domain_tag(n)} {text}" for n, text in zip(files, inputs, strict=True)]
        first, second = self._ids(inputs, "text"), self._ids(sides[1], "text_target")
        both = [ids for pair in zip(first, second, strict=True) for ids in pair]
        begins = np.fromiter(map(len, first), np.int64, len(first))
        lengths = begins + np.fromiter(map(len, second), np.int64, len(second))
        counted = PairTally(**tally.as_dict())
        counted.characters = sum(len(text) for side in sides for text in side)
        counted.tokens, counted.source_tokens = int(lengths.sum()), int(begins.sum())
        unknown = self._tokenizer.unk_token_id
        counted.unknown_source, counted.unknown_target = (
            sum(int((ids == unknown).sum()) for ids in side) for side in (first, second)
        )
        ids = np.concatenate([np.empty(0, self._kind), *both])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        keys = np.stack([text_keys(side) for side in sides], 1)
        return Part(source, rows, ids, offsets, keys, scores, begins), counted

    def _ids(self, texts: Sequence[str], side: str) -> list[NDArray[Any]]:
        ids: list[NDArray[Any]] = []
        for at in range(0, len(texts), _PAIRS_AT_ONCE):
            batch = {side: list(texts[at : at + _PAIRS_AT_ONCE])}
            encoded = self._tokenizer(**batch, return_attention_mask=False, verbose=False)
            ids += [np.array(row, self._kind) for row in encoded["input_ids"]]
        return ids


def batches(texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
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
    """A text, cut before a space between words if it is too long to tokenise at once."""
    # this bounds memory; a tokenizer that does not split at spaces can give another token at a cut
    begin = 0
    while len(text) - begin > CHARACTERS_AT_ONCE:
        end = begin + CHARACTERS_AT_ONCE
        for match in _BETWEEN.finditer(text, end - _NEAR, end):
            end = match.start()
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


@dataclass(frozen=True)
class TokeniseShard(Job[Shard, tuple[int, TokenTally]]):
    """Tokenise a shard of a corpus, with score 0 for every text; returns its number."""

    read: ReadPlan
    names: tuple[str, ...]
    tokenizer: Path  # a `tokenizer.json`; for pairs, the folder of a transformers tokenizer
    out: Path  # folder of the parts, on this machine
    end: int | None  # id to append to each text, if any
    pairs: bool = False
    tagged: bool = False  # whether a source text begins with the tag of its file's domain

    def start(self) -> Callable[[Shard], tuple[int, TokenTally]]:
        """Open the tokenizer."""
        tokenise = _opened(self)
        reads = self.read.sides() if self.pairs else (self.read,)

        def work(shard: Shard) -> tuple[int, TokenTally]:
            documents, tally = read_shard(shard, reads[0], self.names)
            sides = [documents.texts.to_pylist()]
            sides += [read_shard(shard, r, self.names)[0].texts.to_pylist() for r in reads[1:]]
            files = [self.names[shard.source + int(n)] for n in file_of(documents.row)]
            scores = np.zeros(len(documents), np.float32)
            rows, name = in_file(documents.row), self.names[shard.source]
            part, counts = tokenise(name, rows, sides, files, scores, tally)
            write_part(self.out, shard.index, part, counts.as_dict())
            return shard.index, counts

        return work


@dataclass(frozen=True)
class TokeniseSelected(Job[tuple[int, Path], tuple[int, TokenTally]]):
    """Tokenise a part of a run's `selected/`, with its scores; returns its number.

    A piece is a number and the path of a `part-*.jsonl.zst`; the number stands for the source in
    the tally.
    """

    field: str
    tokenizer: Path
    out: Path
    end: int | None
    pairs: bool = False
    tagged: bool = False

    def start(self) -> Callable[[tuple[int, Path]], tuple[int, TokenTally]]:
        """Open the tokenizer."""
        tokenise = _opened(self)
        fields = ("text", "translation", "source") if self.pairs else (self.field,)

        def work(piece: tuple[int, Path]) -> tuple[int, TokenTally]:
            number, path = piece
            name = f"{path.parent.name}/{path.name}"
            rows, columns, scores = _selected_lines(path, name, fields, "score")
            tally = Tally(number, len(rows))
            part, counts = tokenise(name, rows, columns[:2], columns[-1], scores, tally)
            write_part(self.out, number, part, counts.as_dict())
            return number, counts

        return work


def _opened(job: TokeniseShard | TokeniseSelected) -> _Tokeniser | _PairTokeniser:
    if job.pairs:
        return _PairTokeniser(job.tokenizer, tagged=job.tagged)
    return _Tokeniser(job.tokenizer, job.end)


def read_selected(
    path: Path, name: str, field: str, column: str = "score"
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float32]]:
    """The n lines of a selected part: int64 line numbers, texts, and float32 scores or weights."""
    rows, (texts,), scores = _selected_lines(path, name, (field,), column)
    return rows, texts, scores


def _selected_lines(
    path: Path, name: str, fields: Sequence[str], column: str
) -> tuple[NDArray[np.int64], list[list[str]], NDArray[np.float32]]:
    """The line numbers of a selected part, its texts by field, and its scores or weights."""
    rows: list[int] = []
    texts: list[list[str]] = [[] for _ in fields]
    scores: list[float] = []
    row = 0
    try:
        lines = zstandard.ZstdDecompressor().decompress(path.read_bytes()).split(b"\n")
        for row, line in enumerate(lines):
            if not line:
                continue
            values = orjson.loads(line)
            for field, column_texts in zip(fields, texts, strict=True):
                if not isinstance(values[field], str):
                    raise TypeError(f"{field} is not a string")
                column_texts.append(values[field])
            scores.append(float(values[column]))
            if not math.isfinite(scores[-1]):
                raise ValueError(f"{column} {scores[-1]:g}")
            rows.append(row)
    except (OSError, zstandard.ZstdError, ValueError, KeyError, TypeError) as e:
        raise_machine_fault(e)
        raise InputError(
            f"{name}, row {row}: `corpusfit select` did not write this line ({e}). Run the "
            "selection again, or give the file itself instead of its run folder."
        ) from e
    return np.array(rows, np.int64), texts, np.array(scores, np.float32)


@dataclass(frozen=True)
class Tokenising:
    """Turns texts into token ids; those of the same texts and tokenizer are reused.

    Token ids take 2 bytes each on this machine's disk.
    """

    read: ReadPlan
    tokenizer: Path  # file of the tokenizer; for pairs, folder of a transformers tokenizer
    place: Path  # folder for all token ids, by content
    end: int | None  # id that ends a text, if any
    context: RunContext
    pairs: int = 0  # of aligned pairs, most tokens of a side; 0 for texts
    tagged: bool = False  # whether the source text of a pair begins with its domain's tag

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a corpus."""
        out = self._folder("corpus", sources)
        names = tuple(s.name for s in sources)
        job = TokeniseShard(
            self.read, names, self.tokenizer, out, self.end, bool(self.pairs), self.tagged
        )
        done = finished(out)
        shards = self.context.shards_of(sources, self.read)
        pieces = (s for s in shards if s.index not in done)
        return self._tokens(kind, sources, out, job, pieces, sum(s.size for s in sources))

    def selected(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a selection, with its scores."""
        out = self._folder("selected", sources)
        field, pairs = self.read.text_field, bool(self.pairs)
        job = TokeniseSelected(field, self.tokenizer, out, self.end, pairs, self.tagged)
        done = finished(out)
        pieces = [(i, Path(s.url)) for i, s in enumerate(sources) if i not in done]
        return self._tokens(kind, sources, out, job, pieces, len(pieces))

    def texts(self, kind: str, texts: list[str], spool: Path) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of texts in memory, which are written to a file first."""
        write_bytes(spool, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
        sources = corpus.find([str(spool)], ReadPlan(), spool=spool.parent, role=kind)
        return dataclasses.replace(self, read=ReadPlan()).corpus(kind, sources)

    def _folder(self, how: str, sources: list[Source]) -> Path:
        """The folder of token ids, named by all that decides them."""
        identity: dict[str, Any] = {
            "how": f"{how} 2",  # 2: with keys
            "keys": [FORM, unicodedata.unidata_version],
            "sources": source_identity(sources),
            "read": self.read.stated(),
            "end": self.end,
        }
        if self.pairs:
            files = sorted(self.tokenizer.iterdir())
            identity |= {"pairs": 1, "tokenizer": {p.name: file_digest(p) for p in files}}
            if self.tagged:
                identity["tags"] = [domain_tag(s.name) for s in sources]
        else:
            identity["tokenizer"] = file_digest(self.tokenizer)
        return self.place / digest(identity)

    def _tokens(
        self,
        kind: str,
        sources: list[Source],
        out: Path,
        job: Any,
        pieces: Iterable[Any],
        total: int,
    ) -> tuple[Tokens, dict[str, Any]]:
        """The tokens in a folder; a file with the counts marks it as complete."""
        mark, progress = out / "counts.json", self.context.progress
        counts = json.loads(mark.read_text("utf-8")) if mark.exists() else {}
        if counts.get("parts") != len(finished(out)):
            mark.unlink(missing_ok=True)
            with progress.showing(f"tokenise {kind}", total, "tokens"):
                for _, tally in self.context.map(job, pieces):
                    progress.advance(0, tally.tokens)
            # ids of a source that changed since its fingerprint would be found under a wrong name
            for source in sources:
                if corpus.content(source) != source.fingerprint:
                    remove(out)
                    raise changed_input(source.name)
            counts = _total_counts(out)
            write_bytes(mark, json.dumps(counts).encode())
        if not self.pairs:
            return Tokens.open(out), counts
        tokens = PairTokens.open(out)
        too_long = int((tokens.sides.max(1, initial=0) > self.pairs).sum())
        if too_long:
            progress.note(
                f"{too_long:,} of {len(tokens):,} pairs of {kind} have a side of more than "
                f"{self.pairs} tokens and are left out (`train.length`)."
            )
        sizes = {"source": counts["source_tokens"]}
        sizes["target"] = counts["tokens"] - sizes["source"]
        for side, size in sizes.items():
            unknown = counts[f"unknown_{side}"]
            if unknown > _UNKNOWN * size:
                progress.warn(
                    f"The model's vocabulary cannot spell the {side} side of {kind}: {unknown:,} "
                    f"of {size:,} tokens ({100 * unknown / size:.0f} %) are unknown. Name a "
                    "model of both languages, or start from an untrained one with "
                    "`model.init=small`."
                )
        return tokens, counts | {"too_long": too_long}


def _total_counts(out: Path) -> dict[str, Any]:
    """Counts over all parts of a kind; rows = texts + rejected."""
    total = Counter(parts=0, rows=0, texts=0, rejected=0, empty=0, characters=0, tokens=0)
    reasons = Reasons()
    for number in sorted(finished(out)):
        tally = read_tally(out, number)
        reasons.add(tally["rejects"])
        total.update(
            parts=1,
            rows=tally["documents"] + len(tally["rejects"]),
            texts=tally["documents"],
            rejected=len(tally["rejects"]),
            **{name: tally[name] for name in _COUNTED if name in tally},
        )
    return {**total, "reasons": dict(reasons.counts.most_common())}
