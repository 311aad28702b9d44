"""The scan for listed texts, held to sets of n-grams in plain Python."""

import numpy as np
import pytest

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import table_of
from corpusfit.kernels.overlap import bitmap, inverted, overlaps, sketches
from corpusfit.kernels.tokens import reference

ORDER = 3


def grams(text):
    words = reference(text)
    return {tuple(words[i : i + ORDER]) for i in range(len(words) - ORDER + 1)}


def scan(listed, texts, share, most=1_000):
    """The pairs that `overlaps` finds, as (text, listed): n-grams found."""
    sketch, bounds = sketches(*buffers(text_array(listed)), table(), ORDER, most)
    different, begins, owners = inverted(sketch, bounds)
    need = np.ceil(share * np.diff(bounds)).astype(np.int32)
    found = overlaps(
        *buffers(text_array(texts)),
        table(),
        ORDER,
        bitmap(different),
        *table_of(different),
        begins,
        owners,
        need,
    )
    return {(int(t), int(o)): int(n) for t, o, n, _ in zip(*found, strict=True)}


def made_up(n, seed, words=12):
    chance = np.random.default_rng(seed)
    return [
        " ".join(f"w{i}" for i in chance.integers(0, words, k)) for k in chance.integers(0, 40, n)
    ]


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_counts_are_those_of_sets(share):
    listed, texts = made_up(60, 1, words=4), made_up(80, 2, words=4)
    expected = {}
    for t, text in enumerate(texts):
        for o, other in enumerate(listed):
            shared = len(grams(text) & grams(other))
            if shared and shared >= share * len(grams(other)):
                expected[t, o] = shared
    assert len(expected) > 50
    assert scan(listed, texts, share) == expected


def test_a_sketch_keeps_the_smallest_and_the_same_of_texts_that_share_them():
    listed = made_up(30, 3)
    whole, all_bounds = sketches(*buffers(text_array(listed)), table(), ORDER, 1_000)
    few, bounds = sketches(*buffers(text_array(listed)), table(), ORDER, 5)
    for i in range(30):
        every = whole[all_bounds[i] : all_bounds[i + 1]]
        assert len(every) == len(grams(listed[i]))
        assert np.array_equal(few[bounds[i] : bounds[i + 1]], np.sort(every)[:5])


def test_the_byte_is_where_the_copy_begins():
    copy = "here is the text that was copied and stands in another one now"
    before = "něco jiného stojí před tím " * 60
    sketch, bounds = sketches(*buffers(text_array([copy])), table(), ORDER, 1_000)
    different, begins, owners = inverted(sketch, bounds)
    found = overlaps(
        *buffers(text_array(["", "here is the " + before * 2 + copy + " and more of it" * 9])),
        table(),
        ORDER,
        bitmap(different),
        *table_of(different),
        begins,
        owners,
        np.diff(bounds).astype(np.int32),
    )
    copied = len(("here is the " + before * 2).encode())
    assert found[3].tolist() == [copied + len("here ")]  # its first n-gram stood before, far off


def test_nothing_listed_and_nothing_to_read():
    assert scan([], ["a b c d"], 0.8) == {}
    assert scan(["a b c d"], [], 0.8) == {}
    assert scan(["a b"], ["a b"], 0.8) == {}  # has no n-gram
