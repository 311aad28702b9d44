"""Texts and aligned pairs as token ids, once per tokenizer, kept in the cache by content."""

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.engine import Job
from corpusfit.core.errors import (
    EmptyInputError,
    ModelError,
    changed_input,
    importing,
    raise_machine_fault,
    tokenizing,
)
from corpusfit.core.manifest import digest, read_kept, source_identity
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Shard, Source
from corpusfit.embed.contract import file_digest
from corpusfit.embed.transformer import LOCAL, loading
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons, Rejects, Tally, read_shard, require_none_rejected
from corpusfit.text.rejects import RefusedError
from corpusfit.text.same_text import FORM, text_keys
from corpusfit.training.chats import ChatEncoder, Chats, Encoded
from corpusfit.training.objectives import load
from corpusfit.training.plan import ALL
from corpusfit.training.special_tokens import largest_id
from corpusfit.training.token_store import (
    ChatTokens,
    PairTokens,
    ShardTokens,
    Tokens,
    finished,
    read_tally,
    write_part,
)

CHARACTERS_AT_ONCE = 1_000_000  # tokenizers needs about 200 bytes of memory per token
_NEAR = 4_096  # last characters of a piece, in which to look for a space
_BETWEEN = re.compile(r"(?<=\S)\s(?=\S)")
_PAIRS_AT_ONCE = 1_000
_COUNTED = (
    *("empty", "characters", "tokens"),
    "first_tokens",  # of pairs
    *("cut", "counted"),  # of conversations
)


@dataclass(frozen=True)
class ShardTexts:
    """The n texts of a shard."""

    names: Sequence[str]  # of their files
    rows: NDArray[np.int64]  # [n]
    sides: Sequence[list[str]]  # the texts; of pairs both sides
    tally: Tally
    documents: Sequence[Document] = ()  # [n], of conversations

    def counts(self, **more: int) -> dict[str, Any]:
        """The counts of reading the texts, with their characters."""
        characters = sum(len(text) for side in self.sides for text in side)
        return self.tally.as_dict() | {"characters": characters, "empty": 0, **more}


Tokenise = Callable[[ShardTexts], tuple[ShardTokens, dict[str, Any]]]
"""Turns the texts of a shard into its token ids, and counts both."""


def _of_texts(path: Path, end: int | None) -> Tokenise:
    """A function that tokenises whole texts, and appends the id `end` to those with tokens."""
    with importing("Training a model", "train"):
        from tokenizers import Tokenizer
    try:
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except Exception as e:  # the library raises bare exceptions
        raise_machine_fault(e)
        raise ModelError(
            f"{path} is not a readable tokenizer: {e}. Save it again, or name another model."
        ) from e
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # `encode_batch_fast` tracks no offsets; older releases of tokenizers do not have it
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    largest = max((end or 0, *tokenizer.get_vocab(with_added_tokens=True).values()))
    kind: type[np.generic] = np.uint16 if largest < 2**16 else np.uint32

    def tokenise(read: ShardTexts) -> tuple[ShardTokens, dict[str, Any]]:
        (texts,) = read.sides
        encoded: list[NDArray[Any]] = []
        lengths = np.zeros(len(texts), np.int64)
        for owners, pieces in batches(texts):
            with tokenizing():
                coded = encode(pieces, add_special_tokens=False)
            for owner, piece in zip(owners, coded, strict=True):
                encoded.append(np.array(piece.ids, kind))
                lengths[owner] += len(encoded[-1])
        ids = np.concatenate([np.empty(0, kind), *encoded])
        filled = lengths > 0
        if end is not None:
            ids = np.insert(ids, np.cumsum(lengths)[filled], end)
            lengths += filled
        counts = read.counts(tokens=len(ids), empty=int((~filled).sum()))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return ShardTokens(read.names, read.rows, ids, offsets, text_keys(texts)), counts

    return tokenise


def _of_pairs(folder: Path, objective: str) -> Tokenise:
    """A function that tokenises aligned pairs as an objective encodes them."""
    with importing("Training a model", "train"):
        from transformers import AutoTokenizer
    with loading(f"The tokenizer {folder}"):
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **LOCAL)
    kind: type[np.generic] = np.uint16 if largest_id(tokenizer) < 2**16 else np.uint32
    encode = load(objective).encode

    def tokenise(read: ShardTexts) -> tuple[ShardTokens, dict[str, Any]]:
        first, second = read.sides
        ids: list[NDArray[Any]] = [np.empty(0, kind)]
        first_lengths: list[int] = []
        lengths: list[int] = []
        for at in range(0, len(first), _PAIRS_AT_ONCE):
            rows = slice(at, at + _PAIRS_AT_ONCE)
            # interleave the columns, so that a pair is one run of ids
            for ids_1, ids_2 in zip(*encode(tokenizer, first[rows], second[rows]), strict=True):
                ids += [np.array(ids_1, kind), np.array(ids_2, kind)]
                first_lengths.append(len(ids_1))
                lengths.append(len(ids_1) + len(ids_2))
        counts = read.counts(tokens=sum(lengths), first_tokens=sum(first_lengths))
        offsets = np.cumsum([0, *lengths])
        keys = np.stack([text_keys(side) for side in read.sides], 1)
        begins = np.array(first_lengths, np.int64)
        part = ShardTokens(read.names, read.rows, np.concatenate(ids), offsets, keys, begins)
        return part, counts

    return tokenise


def _of_chats(folder: Path, chats: Chats, end: int | None, field: str) -> Tokenise:
    """A function that tokenises conversations; a refused one joins the rejects."""
    encoder = ChatEncoder(folder, chats, end)
    kind: type[np.generic] = np.uint16 if largest_id(encoder.tokenizer) < 2**16 else np.uint32

    def tokenise(read: ShardTexts) -> tuple[ShardTokens, dict[str, Any]]:
        encoded = []
        for document in read.documents:
            try:
                encoded.append(encoder.encode(document.text, document.fields, field))
            except RefusedError as e:
                encoded.append(Encoded([], np.empty(0, np.bool_)))
                read.tally.documents -= 1
                read.tally.rejects.append(document.row, document.byte, e.reason)
        read.tally.rejects = Rejects(sorted(read.tally.rejects, key=lambda rejected: rejected[:2]))
        ids = np.concatenate([np.empty(0, kind), *(np.array(e.ids, kind) for e in encoded)])
        counted = np.concatenate([np.empty(0, np.bool_), *(e.counted for e in encoded)])
        counts = read.counts(
            tokens=len(ids), cut=sum(e.cut for e in encoded), counted=int(counted.sum())
        )
        offsets = np.cumsum([0, *(len(e.ids) for e in encoded)])
        keys = text_keys(read.sides[0])
        part = ShardTokens(read.names, read.rows, ids, offsets, keys)
        if chats.loss_on != ALL:
            part = dataclasses.replace(part, counted=counted)
        return part, counts

    return tokenise


def batches(texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Batches of pieces of texts in order, each piece with the number of its text."""
    owners: list[int] = []
    pieces: list[str] = []
    total = 0
    for owner, text in enumerate(texts):
        for piece in pieces_of(text):
            if total + len(piece) > CHARACTERS_AT_ONCE and pieces:
                yield owners, pieces
                owners = []
                pieces = []
                total = 0
            owners.append(owner)
            pieces.append(piece)
            total += len(piece)
    if pieces:
        yield owners, pieces


def pieces_of(text: str) -> Iterator[str]:
    """A text, cut before a space between words if it is too long to tokenise at once."""
    # bounds memory; a tokenizer that does not split at spaces may tokenise a cut differently
    begin = 0
    while len(text) - begin > CHARACTERS_AT_ONCE:
        end = begin + CHARACTERS_AT_ONCE
        for match in _BETWEEN.finditer(text, end - _NEAR, end):
            end = match.start()
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


@dataclass(frozen=True)
class TokeniseTexts(Job[Shard, int]):
    """Tokenise a shard of a corpus; returns its tokens."""

    read: ReadPlan
    names: tuple[str, ...]  # of the corpus's files
    tokenizer: Path  # a `tokenizer.json`; for pairs and chats, the folder of one of transformers
    out: Path  # folder of the parts, on this machine
    end: int | None  # id to append to each text, if any
    pairs: str = ""  # the objective that encodes aligned pairs
    chats: Chats | None = None

    def start(self) -> Callable[[Shard], int]:
        """Open the tokenizer."""
        if self.chats is not None:
            field = self.read.text_field
            tokenise = _of_chats(self.tokenizer, self.chats, self.end, field)
        elif self.pairs:
            tokenise = _of_pairs(self.tokenizer, self.pairs)
        else:
            tokenise = _of_texts(self.tokenizer, self.end)

        def work(shard: Shard) -> int:
            read = self._read(shard)
            part, counts = tokenise(read)
            if self.read.strict:  # a chat may have been refused
                require_none_rejected(read.tally, self.names)
            write_part(self.out, shard.index, part, counts)
            return len(part.ids)

        return work

    def _read(self, shard: Shard) -> ShardTexts:
        documents: list[Document] = []
        if self.chats is not None:
            tally = Tally.of(shard)
            for row in corpus.rows(shard, self.read):
                if isinstance(row, Document):
                    documents.append(row)
                else:
                    tally.rejects.append(row.row, row.byte, row.reason)
            tally.documents = len(documents)
            rows = np.array([document.row for document in documents], np.int64)
            sides = [[document.text for document in documents]]
        else:
            plans = self.read.sides() if self.pairs else (self.read,)
            (texts, tally), *others = (read_shard(shard, plan, self.names) for plan in plans)
            rows = texts.row
            sides = [side.texts.to_pylist() for side in (texts, *(other for other, _ in others))]
        return ShardTexts(tally.sources(self.names), rows, sides, tally, documents)


@dataclass(frozen=True)
class Tokenising:
    """Turns texts into token ids; those of the same texts and tokenizer are reused."""

    read: ReadPlan
    tokenizer: Path  # file of the tokenizer; for pairs, folder of a transformers tokenizer
    cache: Path  # folder of all stored token ids, by content
    end: int | None  # id that ends a text, if any
    context: Run
    pairs: str = ""  # the objective that encodes aligned pairs; empty for texts
    longest: int = 0  # most tokens of a side of a pair
    chats: Chats | None = None  # if some texts are conversations; then `tokenizer` is a folder

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """The token ids of a corpus, and counts; the file `counts.json` is written last."""
        out = self._folder(sources)
        progress = self.context.progress
        mark = out / "counts.json"
        counts = read_kept(mark, lambda value: value["parts"] == len(finished(out)))
        if counts is None:
            mark.unlink(missing_ok=True)
            with progress.showing(f"tokenise {kind}", sum(s.size for s in sources), "tokens"):
                for tokens in self._missing(sources, out):
                    progress.advance(0, tokens)
            # a source that changed since it was fingerprinted would poison the cache
            if changed := corpus.changed(sources, everywhere=True):
                remove(out)
                raise changed_input(changed.name)
            # rows = texts + rejected
            names = ("parts", "rows", "texts", "rejected", "empty", "characters", "tokens")
            sums = Counter(dict.fromkeys(names, 0))
            reasons = Reasons()
            for number in sorted(finished(out)):
                tally = read_tally(out, number)
                reasons.add(Rejects.stored(tally["rejects"]).counts())
                sums.update(
                    parts=1,
                    rows=tally["documents"] + len(tally["rejects"]),
                    texts=tally["documents"],
                    rejected=len(tally["rejects"]),
                    **{name: tally[name] for name in _COUNTED if name in tally},
                )
            counts = {**sums, "reasons": reasons.as_dict()}
            write_bytes(mark, json.dumps(counts).encode())
        if self.chats:
            self._note_refused(kind, counts)
            return (Tokens if self.chats.loss_on == ALL else ChatTokens).open(out), counts
        if not self.pairs:
            return Tokens.open(out), counts
        pairs = PairTokens.open(out)
        too_long = int((pairs.sides.max(1, initial=0) > self.longest).sum())
        if too_long:
            progress.note(
                f"{too_long:,} of {len(pairs):,} pairs of {kind} have a side of more than "
                f"{self.longest} tokens and are left out (`train.length`)."
            )
        return pairs, counts | {"too_long": too_long}

    def _missing(self, sources: list[Source], out: Path) -> Iterable[int]:
        """Tokenise the shards that a folder lacks; the tokens of each."""
        names = tuple(source.name for source in sources)
        job = TokeniseTexts(self.read, names, self.tokenizer, out, self.end, self.pairs, self.chats)
        shards = self.context.shards_of(sources, self.read, corpus.packed)
        done = finished(out)
        return self.context.map(job, (shard for shard in shards if shard.index not in done))

    def texts(self, kind: str, texts: list[str], spool: Path) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of texts in memory, which are written to a file first."""
        write_bytes(spool, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
        sources = corpus.find([str(spool)], ReadPlan(), role=kind)
        return dataclasses.replace(self, read=ReadPlan()).corpus(kind, sources)

    def _folder(self, sources: list[Source]) -> Path:
        """The folder of token ids, named by all that decides them."""
        identity: dict[str, Any] = {
            "how": "corpus 3",  # raised when reading changes
            "keys": [FORM, unicodedata.unidata_version],
            "sources": source_identity(sources),
            "read": dataclasses.asdict(self.read),
            "end": self.end,
            **corpus.layout(sources, self.read),
        }
        if self.pairs or self.chats:
            files = sorted(self.tokenizer.iterdir())
            identity["tokenizer"] = {p.name: file_digest(p) for p in files}
        if self.chats:
            identity["chats"] = dataclasses.asdict(self.chats)
        elif self.pairs:
            identity["pairs"] = self.pairs
        else:
            identity["tokenizer"] = file_digest(self.tokenizer)
        return self.cache / digest(identity)

    def _note_refused(self, kind: str, counts: dict[str, Any]) -> None:
        """Say how many conversations are cut or left out, and why."""
        rows = counts["rows"]
        refused = counts["rejected"]
        reasons = "; ".join(f"{why} ({n:,})" for why, n in counts["reasons"].items())
        if rows and refused == rows:
            raise EmptyInputError(
                f"`{kind}` has no row to train on: {reasons}. Set `read.text_field` to the field "
                "with the messages, or a larger `train.length`."
            )
        notes = []
        if counts["cut"]:
            notes.append(
                f"{counts['cut']:,} are cut after the last turn of the assistant that fits in "
                "`train.length`"
            )
        if refused:
            notes.append(f"{refused:,} are left out: {reasons}")
        if notes:
            self.context.progress.warn(f"Of {rows:,} rows of {kind}, {', and '.join(notes)}.")
