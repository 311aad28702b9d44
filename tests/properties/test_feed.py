"""Rows for training, whatever the texts: nothing lost or too long, and resumable anywhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.kernels.batches import fill_rows
from corpusfit.training.batches import Feed, Passes, drawn_counts
from corpusfit.training.chunks import cut_chunks, split_heldout

lengths = st.lists(st.integers(0, 90), min_size=1, max_size=60)
weights = st.floats(0, 1e6, width=32)


@st.composite
def made(draw):
    """Passes over some texts, and what they were made with."""
    room = draw(st.integers(1, 40))
    of_texts = draw(lengths.filter(any))
    w = np.array(
        draw(st.lists(weights, min_size=len(of_texts), max_size=len(of_texts))), np.float32
    )
    data = cut_chunks(np.array(of_texts), w, room)
    if not data.weight.any():
        data = cut_chunks(np.array(of_texts), np.ones(len(w), np.float32), room)
    general = draw(st.none() | lengths.filter(any))
    replay = None
    if general is not None:
        replay = cut_chunks(np.array(general), np.ones(len(general), np.float32), room, store=1)
    overhead = draw(st.integers(0, 3))
    given_settings = {
        "length": room + overhead,
        "overhead": overhead,
        "resample": draw(st.booleans()),
        "pack": draw(st.booleans()),
        "batch": draw(st.integers(1, 9)),
        "seed": draw(st.integers(0, 2**63 - 1)),
    }
    share = draw(st.floats(0, 0.9))
    return lambda: Passes(data, replay, share, **given_settings), data, given_settings


@given(made(), st.integers(0, 5))
def test_a_pass_holds_every_chunk_and_no_row_is_too_long(given_passes, number):
    make, data, plan = given_passes
    passes = make()
    rows = passes.rows(number)
    assert (rows.begins[0], rows.begins[-1]) == (0, len(rows.order))
    assert (np.diff(rows.begins) > 0).all()
    taken = passes.chunks.length + plan["overhead"]
    used = np.add.reduceat(taken[rows.order], rows.begins[:-1])
    assert used.max() <= plan["length"]
    if not plan["pack"]:
        assert (np.diff(rows.begins) == 1).all()
    own = rows.order[rows.order < len(data)]
    if plan["resample"]:
        assert len(own) == len(data)
        assert (data.weight[own] > 0).all()
    else:
        assert sorted(own.tolist()) == list(range(len(data)))
    np.testing.assert_array_equal(make().rows(number).order, rows.order)


@given(made(), st.lists(st.integers(1, 50), min_size=1, max_size=8), st.data())
def test_a_feed_goes_on_from_any_place(given_passes, takes, data):
    make, _, _ = given_passes
    feed, expected, states = Feed(make()), [], []
    for k in takes:
        states.append((len(expected), feed.at))
        expected += feed.take(k)
    assert len(expected) == sum(takes)
    plain, number = [], 0
    while len(plain) < len(expected):  # whole passes, one after the other
        rows = make().rows(number)
        plain += np.split(rows.order, rows.begins[1:-1])
        number += 1
    same(expected, plain[: len(expected)])
    done, at = data.draw(st.sampled_from(states))
    resumed = Feed(make(), at)
    found = []
    while len(found) < len(expected) - done:
        left = len(expected) - done - len(found)
        found += resumed.take(data.draw(st.integers(1, left)))
    same(found, expected[done:])
    assert resumed.at == feed.at


def same(rows, others):
    assert [r.tolist() for r in rows] == [r.tolist() for r in others]


@given(st.lists(weights, min_size=1, max_size=80).filter(any), st.floats(0, 1, exclude_max=True))
def test_counts_are_the_expected_ones_rounded(given_weights, chance):
    w = np.array(given_weights, np.float32)
    counts = drawn_counts(w, chance)
    exact = len(w) * w.astype(np.float64) / w.astype(np.float64).sum()
    assert counts.sum() == len(w)
    assert (counts >= np.floor(exact * (1 - 1e-9))).all()
    assert (counts <= np.ceil(exact * (1 + 1e-9))).all()
    assert (counts[w == 0] == 0).all()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=400), st.integers(50, 70), st.randoms())
def test_packing_wastes_less_than_half(given_lengths, room, order):
    """At most one row is at most half full, so there are fewer than 2 sum / room + 1 rows."""
    numbers = list(range(len(given_lengths)))
    order.shuffle(numbers)
    of = np.array(given_lengths, np.int32)
    packed, begins = fill_rows(np.array(numbers), of, room)
    assert sorted(packed.tolist()) == sorted(numbers)
    used = np.add.reduceat(of[packed], begins[:-1])
    assert used.max() <= room
    assert (2 * used <= room).sum() <= 1
    assert of.sum() / room <= len(used) < 2 * of.sum() / room + 1


@given(lengths, st.integers(1, 30), st.integers(0, 100), st.integers(0, 2**63 - 1))
def test_chunks_tile_texts_and_held_out_ones_are_apart(of_texts, room, most, seed):
    data = cut_chunks(np.array(of_texts), np.ones(len(of_texts), np.float32), room)
    places = [
        (t, b + i)
        for t, b, n in zip(data.text, data.begin, data.length, strict=True)
        for i in range(n)
    ]
    assert places == [(t, i) for t, n in enumerate(of_texts) for i in range(n)]
    assert all(1 <= n <= room for n in data.length)
    training, held = split_heldout(data, np.arange(len(of_texts), dtype=np.uint64), most, seed)
    texts = {t for t, n in enumerate(of_texts) if n}
    left, out = set(training.text.tolist()), set(held.text.tolist())
    assert left | out == texts
    assert not left & out
    assert len(held) == len(out) == min(most, max(len(texts) // 20, int(len(texts) > 1)))
