"""Pseudo-random numbers from hashes, and uniform samples of the corpus's units by them.

What: every unit gets a pseudo-random key from the random seed and its position; the k smallest keys
are the sample (the background).
Why: `fit` must run on one machine for any size of the corpus.
Trade-off: keys come from a hash of the position (shard, unit) instead of a generator, so shards can
be sampled anywhere, in any order, and merged to the same sample.
Reference: bottom-k sampling, equal to reservoir sampling; SplitMix64 (Steele et al. 2014).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer: one 64-bit hash per value."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _stream(seed: int, shard: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    base, number = (np.atleast_1d(np.asarray(x & (2**64 - 1), np.uint64)) for x in (seed, shard))
    return _mix(_mix(base + _GOLDEN) + number * _GOLDEN)


def keys_at(
    seed: int, shard: int | NDArray[np.uint64], places: NDArray[np.integer]
) -> NDArray[np.uint64]:
    """uint64 [n]: the keys of n units by their place in a shard, or each in a shard of its own."""
    return _mix(_stream(seed, shard) + (places.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def place_keys(seed: int, shard: int, n: int) -> NDArray[np.uint64]:
    """uint64 [n]: the keys of a shard's n units (or segments)."""
    return keys_at(seed, shard, np.arange(n))


def value_keys(seed: int, stream: int, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64 [n]: the keys of n values; each depends only on seed, stream and value."""
    return _mix(values * _GOLDEN + place_keys(seed, stream, 1))


def part_keys(
    seed: int, shard: int, rows: NDArray[np.int64], parts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
    """The keys of the parts of a shard's rows.

    Args:
        seed: random seed.
        shard: its number.
        rows: int64 [n], row numbers.
        parts: int64 [n], number of parts of each; m in all.

    Returns:
        owner: int64 [m], index in `rows` of each part's row.
        number: int64 [m], the part's number within its row.
        keys: uint64 [m]; a key depends only on seed, shard, row and number.
    """
    owner = np.repeat(np.arange(len(rows)), parts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    of_row = keys_at(seed, shard, rows)
    return owner, number, _mix(of_row[owner] + (number.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """float64 [n] in (0, 1), from keys."""
    return ((keys >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def bottom_k(
    counts: Iterable[tuple[int, int]], k: int, seed: int
) -> list[tuple[int, NDArray[np.int64]]]:
    """The positions of a uniform sample of k units.

    Args:
        counts: (shard, number of its units), by shard.
        k: size of the sample; all units if there are fewer.
        seed: random seed.

    Returns:
        (shard, int64 positions within it, increasing) for every shard with sampled units, by shard.
    """
    keys = np.empty(0, np.uint64)
    shards = np.empty(0, np.int64)
    places = np.empty(0, np.int64)
    for shard, n in counts:
        keys = np.append(keys, place_keys(seed, shard, n))
        shards = np.append(shards, np.full(n, shard, np.int64))
        places = np.append(places, np.arange(n))
        if len(keys) > k:
            lowest = np.sort(np.argsort(keys, kind="stable")[:k])
            keys = keys[lowest]
            shards = shards[lowest]
            places = places[lowest]
    return [(int(s), places[shards == s]) for s in np.unique(shards)]
