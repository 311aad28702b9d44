"""Token ids of texts on disk, and the chunks that they are cut into."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import safe_open

from corpusfit.core.artifacts import listed, read_arrays, write_arrays
from corpusfit.kernels.chance import uniform, value_keys

_NAME = re.compile(r"part-(\d+)\.safetensors")
MAX_MAPS = 16_384  # files mapped at once; Linux lets a process map about 65,000


@dataclass(frozen=True, eq=False)
class Part:
    """The n texts of one shard or selected part, t tokens in all."""

    source: str  # name of the file of the texts
    rows: NDArray[np.int64]  # [n], row of each text in that file
    # uint16 or uint32 [t], the texts' tokens end to end; of a pair, its source text and then
    # its target text
    ids: NDArray[Any]
    # int64 [n + 1]; text i is `ids[offsets[i] : offsets[i + 1]]`, possibly empty
    offsets: NDArray[np.int64]
    # uint64 [n], equal for texts with the same letters and digits; [n, 2] of pairs
    keys: NDArray[np.uint64]
    scores: NDArray[np.float32]  # [n]
    # int64 [n], tokens of the source text of each pair; None for texts
    begins: NDArray[np.int64] | None = None


def _path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.safetensors"


def finished(folder: Path) -> set[int]:
    """Numbers of the parts in a folder; a part is written atomically."""
    return {int(match[1]) for name in listed(folder) if (match := _NAME.fullmatch(name))}


def write_part(folder: Path, number: int, part: Part, tally: dict[str, Any]) -> None:
    """Write a part and the counts of reading its texts."""
    counted = {name: value for name, value in tally.items() if name != "rejects"}
    arrays: dict[str, NDArray[Any]] = {
        "rows": part.rows,
        "ids": part.ids,
        "offsets": part.offsets,
        "keys": part.keys,
        "scores": part.scores,
        **({} if part.begins is None else {"begins": part.begins}),
        # not in the header, whose size is limited: a shard can have millions of bad rows
        "rejects": np.frombuffer(orjson.dumps(tally["rejects"]), np.uint8),
    }
    write_arrays(_path(folder, number), arrays, {"source": part.source, "tally": counted})


def read_tally(folder: Path, number: int) -> dict[str, Any]:
    """The counts of reading one part."""
    arrays, header = read_arrays(_path(folder, number), ["rejects"])
    return {**header["tally"], "rejects": orjson.loads(arrays["rejects"].tobytes())}


class Tokens:
    """The n texts of all parts of a folder, ordered by part and position.

    24 bytes of memory per text; the ids stay in memory-mapped local files. safetensors maps them,
    because each numpy memmap holds a file handle and a process has about a thousand of those.
    """

    lengths: NDArray[np.int64]  # [n], tokens of each text
    keys: NDArray[np.uint64]  # [n], or [n, 2] of pairs, as in `Part`
    scores: NDArray[np.float32]  # [n]

    def __init__(self, paths: list[Path]) -> None:
        read = [read_arrays(path, ["offsets", "keys", "scores"])[0] for path in paths]
        counts = [len(arrays["keys"]) for arrays in read]
        self._paths = paths
        self._first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._begins = _joined([arrays["offsets"][:-1] for arrays in read], np.int64)
        self._maps: dict[int, Any] = {}
        self.lengths = _joined([np.diff(arrays["offsets"]) for arrays in read], np.int64)
        self.keys = _joined([arrays["keys"] for arrays in read], np.uint64)
        self.scores = _joined([arrays["scores"] for arrays in read], np.float32)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open all parts of a folder."""
        return cls([_path(folder, number) for number in sorted(finished(folder))])

    def __len__(self) -> int:
        return len(self.lengths)

    def name(self, text: int) -> str:
        """File and row of a text, for messages."""
        part, place = self._place(text)
        arrays, header = read_arrays(self._paths[part], ["rows"])
        return f"{header['source']}, row {arrays['rows'][place]}"

    def ids(self, text: int, begin: int, end: int) -> NDArray[Any]:
        """uint16 or uint32 [end - begin]: the tokens of a text from `begin` to `end`."""
        if begin >= end:
            return np.empty(0, np.uint16)  # safetensors cannot slice an empty range
        first = int(self._begins[text])
        part = self._place(text)[0]
        if part not in self._maps:
            if len(self._maps) >= MAX_MAPS:
                del self._maps[next(iter(self._maps))]
            opened: Any = safe_open(self._paths[part], framework="numpy")
            self._maps[part] = opened.get_slice("ids")
        ids: NDArray[Any] = self._maps[part][first + begin : first + end]
        return ids

    def _place(self, text: int) -> tuple[int, int]:
        """The part of a text, and its position there."""
        part = int(np.searchsorted(self._first, text, side="right")) - 1
        return part, text - int(self._first[part])


class PairTokens(Tokens):
    """The n pairs of all parts of a folder; a text is a source text and then its target text."""

    sides: NDArray[np.int64]  # [n, 2], tokens of both sides of each pair

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        first = _joined([read_arrays(path, ["begins"])[0]["begins"] for path in paths], np.int64)
        self.sides = np.stack([first, self.lengths - first], 1)


def _joined(arrays: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    """Concatenate arrays; an empty array if there are none."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)


_TEXT, _CHUNK = range(2)  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Chunks:
    """n chunks, ordered by text and position."""

    text: NDArray[np.int64]  # [n], number of the text
    begin: NDArray[np.int64]  # [n], first token in the text
    length: NDArray[np.int32]  # [n], number of tokens, 1 or more, without special tokens
    weight: NDArray[np.float32]  # [n], weight of the text
    store: NDArray[np.int8]  # [n], which of several `Tokens` holds the text

    def __len__(self) -> int:
        return len(self.text)

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Chunks:
        """Select chunks by position, int64 [k], or by mask, bool [n]."""
        return Chunks(*(getattr(self, f.name)[places] for f in fields(self)))

    def followed_by(self, others: Chunks) -> Chunks:
        """Concatenate with other chunks."""
        pairs = ((getattr(self, f.name), getattr(others, f.name)) for f in fields(self))
        return Chunks(*map(np.concatenate, pairs))


def chunks_of(
    tokens: Tokens, longest: int, weights: NDArray[np.float32] | None = None, *, store: int = 0
) -> Chunks:
    """The chunks of texts, or one chunk for each pair, all of weight 1 without weights."""
    if weights is None:
        weights = np.ones(len(tokens), np.float32)
    if isinstance(tokens, PairTokens):
        return whole_pairs(tokens.sides, weights, longest, store=store)
    return cut_chunks(tokens.lengths, weights, longest, store=store)


def cut_chunks(
    lengths: NDArray[np.int64], weights: NDArray[np.float32], longest: int, *, store: int = 0
) -> Chunks:
    """Cut each text into chunks of `longest` tokens; the last one holds the rest."""
    counts = -(-lengths // longest)
    text = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = number * longest
    length = np.minimum(longest, lengths[text] - begin).astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def whole_pairs(
    sides: NDArray[np.int64], weights: NDArray[np.float32], longest: int, *, store: int = 0
) -> Chunks:
    """One chunk for each pair: its target text, which begins where its source text ends."""
    text = np.flatnonzero((sides.max(1, initial=0) <= longest) & (sides.min(1, initial=1) > 0))
    begin, length = sides[text, 0], sides[text, 1].astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def split_heldout(
    chunks: Chunks, keys: NDArray[np.uint64], most: int, seed: int, share: float = 0.05
) -> tuple[Chunks, Chunks]:
    """Hold whole texts out, with their copies; the draw depends on the seed and the keys alone."""
    # A copy has the same letters and digits; an edited copy is not recognised.
    own = keys if keys.ndim == 1 else keys[:, 0]
    different, first = np.unique(own[chunks.text], return_index=True)
    count = min(most, max(int(len(different) * share), 1 if len(different) > 1 else 0))
    if count < 1:
        return chunks, chunks.take(np.empty(0, np.int64))
    held = np.argsort(value_keys(seed, _TEXT, different), kind="stable")[:count]
    held = held[np.argsort(first[held], kind="stable")]
    texts = chunks.text[first[held]]  # the first of several copies
    begin = np.searchsorted(chunks.text, texts)
    counts = np.searchsorted(chunks.text, texts, side="right") - begin
    draw = uniform(value_keys(seed, _CHUNK, different[held]))
    places = begin + (draw * counts).astype(np.int64)
    return exclude_keys(chunks, keys, keys[chunks.text[places]].reshape(-1)), chunks.take(places)


def exclude_keys(chunks: Chunks, keys: NDArray[np.uint64], held: NDArray[np.uint64]) -> Chunks:
    """The chunks of texts of whose keys, uint64 [n] or [n, sides], none is in `held`."""
    held_keys = np.isin(keys[chunks.text], held)
    copies = np.asarray(held_keys if held_keys.ndim == 1 else held_keys.any(axis=1))
    return chunks.take(~copies)


def effective_size(weights: NDArray[np.float32]) -> float:
    """Effective sample size of weighted texts or chunks: (sum w)² / sum w²."""
    # Reference: Kish (1965), Survey Sampling, section 11.7.
    w = weights.astype(np.float64)
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares else 0.0
