"""Jobs that draw the background: a bounded, uniform sample of the corpus's units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_arrays
from corpusfit.core.engine import PlainJob
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Shard, Texts, taken
from corpusfit.embed.store import VectorStore
from corpusfit.kernels.chance import part_keys
from corpusfit.text.reading import Tally, cut_units, read_shard, read_units

ALL = 2**64
"""A bound above every key."""

_PLENTY = 3
T = TypeVar("T")


@dataclass(frozen=True)
class Drawn(Generic[T]):
    """The drawn items of one shard: keys uint64 [n] and n texts, or records with texts."""

    shard: int
    keys: NDArray[np.uint64]
    texts: list[T]


@dataclass(frozen=True)
class SampleTexts(PlainJob[tuple[Shard, int], tuple[Drawn[str], Tally]]):
    """Draw the k units of a shard with the smallest keys below a bound; also returns the tally."""

    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    k: int
    seed: int

    def _work(self, piece: tuple[Shard, int]) -> tuple[Drawn[str], Tally]:
        shard, bound = piece
        keys, _, texts, tally = below(shard, bound, self.read, self.cut, self.names, self.seed)
        places = lowest(keys, self.k)
        return Drawn(shard.index, keys[places], strings(texts, places)), tally


def below(
    shard: Shard, bound: int, read: ReadPlan, cut: CutPlan, names: tuple[str, ...], seed: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], Texts, Tally]:
    """The n units of a shard with keys below a bound, in reading order.

    Only the rows with a drawn unit are parsed. A row's number of units is unknown before that, so a
    row counts as many parts as its bytes suggest; parts are drawn, and a drawn part gives the units
    in it. Every unit is equally likely, but neighbours can be drawn together.

    Reference: bottom-k sampling, see `kernels/chance.py`; cluster sampling.
    """
    draw = _Draw(seed, shard.index, bound, _typical_bytes(cut))
    found, tally = read_shard(shard, read, names, draw.pick)
    units, texts = cut_units(found, cut)
    keys, places = draw.units(found.row, np.unique(units.row, return_counts=True)[1])
    order = np.argsort(places, kind="stable")
    places = places[order]
    return keys[order], units.row[places], taken(texts, places), tally


def lowest(keys: NDArray[np.uint64], k: int) -> NDArray[np.int64]:
    """The places of the k smallest keys, int64, increasing."""
    return np.sort(np.argsort(keys, kind="stable")[:k])


def _typical_bytes(cut: CutPlan) -> int:
    """Typical bytes of a unit; affects only how many neighbours are drawn together."""
    if cut.unit == "document":
        return 2**62
    return {"sentence": 128, "paragraph": 512}.get(cut.unit, 4 * cut.pieces)


def first_bound(size: int, k: int, cut: CutPlan) -> int:
    """A bound below which a corpus of `size` bytes very likely has k units, and not many more."""
    return min(ALL, ALL * _PLENTY * k // (size // _typical_bytes(cut) + 1))


def strings(texts: Texts, places: NDArray[np.int64]) -> list[str]:
    """The texts at some places, int64 [k], as Python strings."""
    found: list[str] = taken(texts, places).to_pylist()
    return found


class _Draw:
    """The drawn parts of one shard's rows: those with a key below the bound."""

    def __init__(self, seed: int, shard: int, bound: int, typical: int) -> None:
        self._seed, self._shard, self._bound, self._typical = seed, shard, bound, typical
        self._row = self._parts = self._number = np.empty(0, np.int64)
        self._keys = np.empty(0, np.uint64)

    def pick(self, rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row has a drawn part: bool [n]."""
        parts = sizes // self._typical + 1
        owner, number, keys = part_keys(self._seed, self._shard, rows, parts)
        drawn = keys < np.uint64(self._bound) if self._bound < ALL else np.ones(len(keys), np.bool_)
        owner = owner[drawn]
        self._row, self._parts = rows[owner], parts[owner]
        self._number, self._keys = number[drawn], keys[drawn]
        picked = np.zeros(len(rows), np.bool_)
        picked[owner] = True
        return picked

    def units(
        self, rows: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Keys and places of the drawn units: unit j of n falls into part floor(j parts / n)."""
        at = np.searchsorted(rows, self._row)
        usable = (at < len(rows)) & np.isin(self._row, rows)  # without rejected rows
        at, parts = at[usable], self._parts[usable]
        number, keys = self._number[usable], self._keys[usable]
        n, first = counts[at], (np.cumsum(counts) - counts)[at]
        begin, end = -(-number * n // parts), -(-(number + 1) * n // parts)
        many = end - begin
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        return np.repeat(keys, many), np.repeat(first + begin, many) + within


def merge(drawn: list[Drawn[T]], k: int) -> list[Drawn[T]]:
    """The items with the k smallest keys of all, by shard; shards without any are left out."""
    drawn = sorted((d for d in drawn if len(d.keys)), key=lambda d: d.shard)
    keys = np.concatenate([d.keys for d in drawn]) if drawn else np.empty(0, np.uint64)
    if len(keys) <= k:
        return drawn
    bound = np.partition(keys, k - 1)[k - 1]
    smallest = []
    for d in drawn:
        mask = d.keys <= bound
        texts = [t for t, small in zip(d.texts, mask.tolist(), strict=True) if small]
        if texts:
            smallest.append(Drawn(d.shard, d.keys[mask], texts))
    return smallest


@dataclass(frozen=True)
class TextsAt(PlainJob[tuple[Shard, NDArray[np.int64]], tuple[int, list[str]]]):
    """Read the texts of a shard's units at some places; returns the shard's number too."""

    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]

    def _work(self, piece: tuple[Shard, NDArray[np.int64]]) -> tuple[int, list[str]]:
        shard, places = piece
        return shard.index, strings(read_units(shard, self.read, self.cut, self.names)[1], places)


@dataclass(frozen=True)
class SampleVectors(PlainJob[list[tuple[int, NDArray[np.int64]]], int]):
    """Gather the vectors at (shard, places) from the store into a file; returns their number."""

    store: Path
    out: Path

    def _work(self, places: list[tuple[int, NDArray[np.int64]]]) -> int:
        vectors = VectorStore(self.store).gather(places)
        write_arrays(self.out, {"vectors": vectors}, {})
        return len(vectors)
