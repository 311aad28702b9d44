"""Packing against a plain best fit in Python, and against the bound that no packing can beat."""

from itertools import pairwise

import numpy as np
import pytest

from corpusfit.kernels.batches import OPEN, fill_rows


def best_fit(order, lengths, room):
    """The same rule, a row a list; a row is closed when it is full or the fullest of too many."""
    rows, opened = [], []
    for chunk in order:
        used = {r: sum(lengths[c] for c in rows[r]) for r in opened}
        fits = [r for r in opened if used[r] + lengths[chunk] <= room]
        if fits:
            rows[max(fits, key=used.get)].append(chunk)
        else:
            if len(opened) == OPEN and lengths[chunk] < room:
                opened.remove(max(opened, key=used.get))
            opened.append(len(rows))
            rows.append([chunk])
        opened = [r for r in opened if sum(lengths[c] for c in rows[r]) < room]
    return rows


def listed(order, begins):
    return [order[a:b].tolist() for a, b in pairwise(begins)]


@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_best_fit(seed):
    rng = np.random.default_rng(seed)
    room = 2**30  # so that no two rows are as full
    lengths = rng.integers(1, room, 600).astype(np.int32)
    order = rng.permutation(600)
    found = listed(*fill_rows(order, lengths, room))
    expected = best_fit(order.tolist(), lengths.tolist(), room)
    assert found == expected


@pytest.mark.parametrize(
    ("name", "least"), [("long", 0.98), ("short", 0.995), ("lognormal", 0.995)]
)
def test_rows_are_nearly_full(name, least):
    """Against the bound: all lengths end to end."""
    rng = np.random.default_rng(0)
    n, room = 50_000, 512
    lengths = {
        "long": np.where(rng.random(n) < 0.5, room, rng.integers(3, room, n)),
        "short": rng.integers(3, 120, n),
        "lognormal": np.clip(rng.lognormal(4, 1, n), 3, room),
    }[name].astype(np.int32)
    _, begins = fill_rows(np.arange(n), lengths, room)
    bound = int(lengths.sum()) / room
    assert bound <= len(begins) - 1 <= bound / least


def test_chunks_stay_near_their_place():
    """Only so many rows are open, so a row that opens late has nothing from early on."""
    rng = np.random.default_rng(1)
    n = 20_000
    order, begins = fill_rows(np.arange(n), rng.integers(3, 300, n).astype(np.int32), 512)
    assert np.median(np.abs(order - np.arange(n))) < OPEN
    first = order[begins[:-1]]
    assert (np.diff(first) > 0).all()  # rows as they were opened


def test_nothing_gives_no_rows():
    order, begins = fill_rows(np.empty(0, np.int64), np.empty(0, np.int32), 8)
    assert (len(order), begins.tolist()) == (0, [0])
