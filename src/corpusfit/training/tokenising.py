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
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import safe_open

from corpusfit import text as corpus
from corpusfit.core.artifacts import names_in, read_arrays, remove, write_arrays, write_bytes
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
from corpusfit.core.types import Document, Shard, Source, file_of, in_file
from corpusfit.embed.contract import file_digest
from corpusfit.embed.transformer import LOCAL, loading
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons, Tally, from_stored, read_shard, require_none_rejected
from corpusfit.text.rejects import RefusedError
from corpusfit.text.same_text import FORM, text_keys
from corpusfit.training.chats import ChatEncoder, Chats, Encoded
from corpusfit.training.objectives import load
from corpusfit.training.plan import ALL
from corpusfit.training.special_tokens import largest_id

_NAME = re.compile(r"part-(\d+)\.safetensors")
MAX_MAPS = 16_384  # files mapped at once; Linux lets a process map about 65,000
CHARACTERS_AT_ONCE = 1_000_000  # the library needs about 200 bytes per token
_NEAR = 4_096  # last characters of a piece, in which to look for a space
_BETWEEN = re.compile(r"(?<=\S)\s(?=\S)")
_PAIRS_AT_ONCE = 1_000
_COUNTED = (
    *("empty", "characters", "tokens"),
    "first_tokens",  # of pairs
    *("cut", "counted"),  # of conversations
)


@dataclass(frozen=True)
class Read:
    """The n texts of a shard."""

    names: Sequence[str]  # of their files
    rows: NDArray[np.int64]  # [n]
    sides: Sequence[list[str]]  # the texts; of pairs both sides
    tally: Tally
    documents: Sequence[Document] = ()  # [n], of conversations

    def counts(self, **more: int) -> dict[str, Any]:
        """The counts of reading them, with their characters."""
        characters = sum(len(text) for side in self.sides for text in side)
        return self.tally.as_dict() | {"characters": characters, "empty": 0, **more}


Tokenise = Callable[[Read], tuple["Part", dict[str, Any]]]
"""From texts to their part and its counts."""


def _of_texts(path: Path, end: int | None) -> Tokenise:
    """Open a tokenizer that appends `end` to each text with tokens; it truncates nothing."""
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
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    largest = max((end or 0, *tokenizer.get_vocab(with_added_tokens=True).values()))
    kind: type[np.generic] = np.uint16 if largest < 2**16 else np.uint32

    def tokenise(read: Read) -> tuple[Part, dict[str, Any]]:
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
        return Part(read.names, read.rows, ids, offsets, text_keys(texts)), counts

    return tokenise


def _of_pairs(folder: Path, objective: str) -> Tokenise:
    """Open a tokenizer of both columns, by which an objective encodes them."""
    with importing("Training a model", "train"):
        from transformers import AutoTokenizer
    with loading(f"The tokenizer {folder}"):
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **LOCAL)
    kind: type[np.generic] = np.uint16 if largest_id(tokenizer) < 2**16 else np.uint32
    encode = load(objective).encode

    def tokenise(read: Read) -> tuple[Part, dict[str, Any]]:
        first, second = read.sides
        ids: list[NDArray[Any]] = [np.empty(0, kind)]
        begins: list[int] = []
        lengths: list[int] = []
        for at in range(0, len(first), _PAIRS_AT_ONCE):
            rows = slice(at, at + _PAIRS_AT_ONCE)
            # interleave the columns, so that a pair is one run of ids
            for one, other in zip(*encode(tokenizer, first[rows], second[rows]), strict=True):
                ids += [np.array(one, kind), np.array(other, kind)]
                begins.append(len(one))
                lengths.append(len(one) + len(other))
        counts = read.counts(tokens=sum(lengths), first_tokens=sum(begins))
        offsets = np.cumsum([0, *lengths])
        keys = np.stack([text_keys(side) for side in read.sides], 1)
        of_first = np.array(begins, np.int64)
        part = Part(read.names, read.rows, np.concatenate(ids), offsets, keys, of_first)
        return part, counts

    return tokenise


def _of_chats(folder: Path, chats: Chats, end: int | None, field: str) -> Tokenise:
    """Open a tokenizer of conversations; a refused one has no token and joins the rejects."""
    encoder = ChatEncoder(folder, chats, end)
    kind: type[np.generic] = np.uint16 if largest_id(encoder.tokenizer) < 2**16 else np.uint32

    def tokenise(read: Read) -> tuple[Part, dict[str, Any]]:
        encoded = []
        for document in read.documents:
            try:
                encoded.append(encoder.encode(document.text, document.fields, field))
            except RefusedError as e:
                encoded.append(Encoded([], np.empty(0, np.bool_)))
                read.tally.documents -= 1
                read.tally.rejects.append((document.row, document.byte, e.reason))
        read.tally.rejects.sort(key=lambda rejected: rejected[:2])
        ids = np.concatenate([np.empty(0, kind), *(np.array(e.ids, kind) for e in encoded)])
        counted = np.concatenate([np.empty(0, np.bool_), *(e.counted for e in encoded)])
        counts = read.counts(
            tokens=len(ids), cut=sum(e.cut for e in encoded), counted=int(counted.sum())
        )
        offsets = np.cumsum([0, *(len(e.ids) for e in encoded)])
        keys = text_keys(read.sides[0])
        part = Part(read.names, read.rows, ids, offsets, keys)
        if chats.loss_on != ALL:
            part = dataclasses.replace(part, counted=counted)
        return part, counts

    return tokenise


def batches(texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Batches of pieces of texts in order, with the number of each piece's text."""
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

    def _read(self, shard: Shard) -> Read:
        documents: list[Document] = []
        if self.chats is not None:
            tally = Tally.of(shard)
            for row in corpus.rows(shard, self.read):
                if isinstance(row, Document):
                    documents.append(row)
                else:
                    tally.rejects.append((row.row, row.byte, row.reason))
            tally.documents = len(documents)
            rows = np.array([document.row for document in documents], np.int64)
            sides = [[document.text for document in documents]]
        else:
            plans = self.read.sides() if self.pairs else (self.read,)
            (texts, tally), *others = (read_shard(shard, plan, self.names) for plan in plans)
            rows = texts.row
            sides = [side.texts.to_pylist() for side in (texts, *(other for other, _ in others))]
        return Read(tally.sources(self.names), rows, sides, tally, documents)


@dataclass(frozen=True)
class Tokenising:
    """Turns texts into token ids; those of the same texts and tokenizer are reused."""

    read: ReadPlan
    tokenizer: Path  # file of the tokenizer; for pairs, folder of a transformers tokenizer
    place: Path  # folder for all token ids, by content
    end: int | None  # id that ends a text, if any
    context: Run
    pairs: str = ""  # the objective that encodes aligned pairs; empty for texts
    longest: int = 0  # most tokens of a side of a pair
    chats: Chats | None = None  # if some texts are conversations; then `tokenizer` is a folder

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a corpus, and counts; a file with the counts marks them as complete."""
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
                reasons.add(from_stored(tally["rejects"]))
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
        return self.place / digest(identity)

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
        said = []
        if counts["cut"]:
            said.append(
                f"{counts['cut']:,} are cut after the last turn of the assistant that fits in "
                "`train.length`"
            )
        if refused:
            said.append(f"{refused:,} are left out: {reasons}")
        if said:
            self.context.progress.warn(f"Of {rows:,} rows of {kind}, {', and '.join(said)}.")


@dataclass(frozen=True, eq=False)
class Part:
    """The n texts of one shard, t tokens in all."""

    names: Sequence[str]  # names of the files of the texts
    rows: NDArray[np.int64]  # [n], row of each text in the shard
    # uint16 or uint32 [t], the texts' tokens end to end; of a pair, its first text and then
    # its second text
    ids: NDArray[Any]
    # int64 [n + 1]; text i is `ids[offsets[i] : offsets[i + 1]]`, possibly empty
    offsets: NDArray[np.int64]
    # uint64 [n], equal for texts with the same letters and digits; [n, 2] of pairs
    keys: NDArray[np.uint64]
    # int64 [n], tokens of the first text of each pair; None for texts
    begins: NDArray[np.int64] | None = None
    # bool [t], whether the loss is on each token; None for all
    counted: NDArray[np.bool_] | None = None


def _path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.safetensors"


def finished(folder: Path) -> set[int]:
    """Numbers of the parts in a folder; a part is written atomically."""
    return {int(match[1]) for name in names_in(folder) if (match := _NAME.fullmatch(name))}


def write_part(folder: Path, number: int, part: Part, tally: dict[str, Any]) -> None:
    """Write a part and the counts of reading its texts."""
    counted = {name: value for name, value in tally.items() if name != "rejects"}
    arrays: dict[str, NDArray[Any]] = {
        "rows": part.rows,
        "ids": part.ids,
        "offsets": part.offsets,
        "keys": part.keys,
        **({} if part.begins is None else {"begins": part.begins}),
        **({} if part.counted is None else {"counted": part.counted}),
        # not in the header, whose size is limited: a shard can have millions of bad rows
        "rejects": np.frombuffer(orjson.dumps(tally["rejects"]), np.uint8),
    }
    header = {"source": part.names[0], "tally": counted}
    if len(part.names) > 1:
        header["files"] = part.names
    write_arrays(_path(folder, number), arrays, header)


def read_tally(folder: Path, number: int) -> dict[str, Any]:
    """The counts of reading one part."""
    arrays, header = read_arrays(_path(folder, number), ["rejects"])
    return {**header["tally"], "rejects": orjson.loads(arrays["rejects"].tobytes())}


class Tokens:
    """The n texts of all parts of a folder, ordered by part and position."""

    # 24 bytes of memory per text; the ids stay in memory-mapped local files. safetensors maps them,
    # because each numpy memmap holds a file handle and a process has about a thousand of those.
    lengths: NDArray[np.int64]  # [n], tokens of each text
    keys: NDArray[np.uint64]  # [n], or [n, 2] of pairs, as in `Part`

    def __init__(self, paths: list[Path]) -> None:
        read = [read_arrays(path, ["offsets", "keys"])[0] for path in paths]
        counts = [len(arrays["keys"]) for arrays in read]
        self._paths = paths
        self._first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._begins = _joined([arrays["offsets"][:-1] for arrays in read], np.int64)
        self._maps: dict[tuple[int, str], Any] = {}
        self.lengths = _joined([np.diff(arrays["offsets"]) for arrays in read], np.int64)
        self.keys = _joined([arrays["keys"] for arrays in read], np.uint64)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open all parts of a folder."""
        return cls([_path(folder, number) for number in sorted(finished(folder))])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, which map the files themselves."""
        return {**vars(self), "_maps": {}}

    def name(self, text: int) -> str:
        """File and row of a text, for messages."""
        part, index = self._place(text)
        arrays, header = read_arrays(self._paths[part], ["rows"])
        row = int(arrays["rows"][index])
        names = header.get("files", [header["source"]])
        return f"{names[file_of(row)]}, row {in_file(row)}"

    def ids(self, text: int, begin: int, end: int) -> NDArray[Any]:
        """uint16 or uint32 [end - begin]: the tokens of a text from `begin` to `end`."""
        return self._between("ids", text, begin, end)

    def _between(self, array: str, text: int, begin: int, end: int) -> NDArray[Any]:
        if begin >= end:
            return np.empty(0, np.uint16)  # safetensors cannot slice an empty range
        first = int(self._begins[text])
        part = self._place(text)[0]
        if (part, array) not in self._maps:
            if len(self._maps) >= MAX_MAPS:
                del self._maps[next(iter(self._maps))]
            opened: Any = safe_open(self._paths[part], framework="numpy")
            self._maps[part, array] = opened.get_slice(array)
        values: NDArray[Any] = self._maps[part, array][first + begin : first + end]
        return values

    def _place(self, text: int) -> tuple[int, int]:
        """The part that holds a text, and the text's position in it."""
        part = int(np.searchsorted(self._first, text, side="right")) - 1
        return part, text - int(self._first[part])


class PairTokens(Tokens):
    """The n pairs of all parts of a folder; a text is a first text and then its second."""

    sides: NDArray[np.int64]  # [n, 2], tokens of both sides of each pair

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        first = _joined([read_arrays(path, ["begins"])[0]["begins"] for path in paths], np.int64)
        self.sides = np.stack([first, self.lengths - first], 1)


class ChatTokens(Tokens):
    """Texts whose loss is on a part of their tokens."""

    counts: NDArray[np.int64]  # [n], tokens of each text that the loss is on

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        counts = []
        for path in paths:
            arrays, _ = read_arrays(path, ["counted", "offsets"])
            counts.append(
                np.diff(np.concatenate([[0], np.cumsum(arrays["counted"])])[arrays["offsets"]])
            )
        self.counts = _joined(counts, np.int64)

    def counted(self, text: int, begin: int, end: int) -> NDArray[np.bool_]:
        """Whether the loss is on each token of a text from `begin` to `end`."""
        return self._between("counted", text, begin, end)


def _joined(arrays: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    """Concatenate arrays; an empty array if there are none."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)
