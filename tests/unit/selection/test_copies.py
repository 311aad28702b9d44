"""Copies by their keys, against a plain search."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.core.artifacts import write_arrays
from corpusfit.core.errors import ChangedInputError
from corpusfit.core.types import Segments
from corpusfit.scoring import table
from corpusfit.selection import copies
from corpusfit.selection.copies import (
    Copies,
    Search,
    copies_among,
    find_copies,
    keys_path,
)

EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
keys = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1))
documents = st.tuples(keys, st.sampled_from([3, 1]), st.sampled_from([-1.5, 0.0, 0.25]))


def in_process(job, pieces):
    yield from map(job, pieces)


def beyond(kept, keys, scores):
    """Which entries have the key of so many better ones, or equal ones before, one by one."""
    order = sorted(range(len(keys)), key=lambda place: (-scores[place], place))
    seen, is_copy = Counter(), np.zeros(len(keys), np.bool_)
    for place in order:
        is_copy[place] = seen[keys[place]] >= kept
        seen[keys[place]] += 1
    return is_copy


def search_in(folder, parts, names=("a", "b")):
    """Write the scores (a document's second segment is worse) and keys of parts."""
    for number, part in enumerate(parts):
        n = len(part)
        score = np.array([[score, score - 1] for *_, score in part], np.float32).ravel()
        row, segment = np.repeat(np.arange(n), 2), np.tile(np.arange(2, dtype=np.int32), n)
        zeros = np.zeros(2 * n, np.int64)
        segments = Segments(row, segment, zeros, zeros, zeros.astype(np.int32), zeros, zeros)
        table.write(folder / "scores", number, ["x"], segments, score)
        arrays = {name: np.array([d[i] for d in part], np.uint64) for i, name in enumerate(names)}
        write_arrays(keys_path(folder / "keys", number), arrays, {})
    return Search(folder / "scores", folder / "keys", names, folder / "work", ("x",))


@given(st.lists(documents, max_size=40), st.integers(1, 4))
def test_the_best_of_equal_entries_stay_and_of_those_the_first(entries, kept):
    keys = np.array([key for key, *_ in entries], np.uint64)
    scores = np.array([score for *_, score in entries], np.float32)
    expected = beyond(kept, keys.tolist(), scores.tolist()).tolist()
    assert copies_among(keys, scores, kept).tolist() == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(documents, max_size=9), min_size=1, max_size=6), st.integers(2, 70))
def test_copies_of_a_corpus_are_those_of_a_plain_search(parts, at_once):
    everything = [document for part in parts for document in part]
    scores = [score for *_, score in everything]
    expected = np.zeros(len(everything), np.bool_)
    for name in (0, 1):
        own = [document[name] for document in everything]
        expected |= beyond(1, own, scores)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        search = search_in(folder, parts)
        sizes = {number: len(part) for number, part in enumerate(parts)}
        found = find_copies(
            in_process, search, sizes, "near", folder / "marks", Copies(), at_once=at_once
        )
        marked = [found.documents(part, n) for part, n in sizes.items()]
        assert np.concatenate(marked).tolist() == expected.tolist()
        assert found.counts == {"near": expected.sum()}
        assert found.parts == {i for i, own in enumerate(marked) if own.any()}
        assert not (folder / "work").exists()

        # a second search adds to the first, and counts only what is new
        first = Copies({"exact": 0}, found.parts, found.marks)
        again = find_copies(in_process, search, sizes, "near", folder / "more", first, at_once=5)
        assert again.counts == {"exact": 0, "near": 0}
        assert again.parts == found.parts


# documents of one to four segments, each a key and a score
cut_documents = st.lists(
    st.tuples(st.sampled_from(EDGES), st.sampled_from([-1.5, 0.0, 0.25])), min_size=1, max_size=4
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(cut_documents, max_size=9), min_size=1, max_size=6), st.integers(2, 70))
def test_repeats_among_segments_are_those_of_a_plain_search(parts, at_once):
    """Of documents cut into several segments that are no copies: here each third one is one."""
    searched, keys_searched, scores_searched = [], [], []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number, part in enumerate(parts):
            row = np.repeat(np.arange(len(part)), [len(document) for document in part])
            segment = np.array([i for document in part for i in range(len(document))], np.int32)
            flat = [each for document in part for each in document]
            keys = np.array([key for key, _ in flat], np.uint64)
            scores = np.array([score for _, score in flat], np.float32)
            zeros = np.zeros(len(row), np.int64)
            segments = Segments(row, segment, zeros, zeros, zeros.astype(np.int32), zeros, zeros)
            table.write(folder / "scores", number, ["x"], segments, scores)
            several = np.array([len(part[i]) > 1 for i in row], np.bool_)
            write_arrays(keys_path(folder / "keys", number), {"keys": keys[several]}, {})
            copied = np.arange(len(part)) % 3 == 2
            marks = {"copy": np.packbits(copied)}
            write_arrays(keys_path(folder / "copied", number), marks, {})
            searched.append(several & ~copied[row])
            keys_searched += keys[searched[-1]].tolist()
            scores_searched += scores[searched[-1]].tolist()
        expected = np.zeros(sum(map(len, searched)), np.bool_)
        expected[np.concatenate(searched)] = beyond(3, keys_searched, scores_searched)
        with_copies = frozenset(i for i, part in enumerate(parts) if len(part) > 2)
        copies = Copies({}, with_copies, folder / "copied")
        search = Search(
            folder / "scores", folder / "keys", ("keys",), folder / "work", ("x",), copies
        )
        sizes = {number: len(own) for number, own in enumerate(searched)}
        found = find_copies(
            in_process, search, sizes, "repeats", folder / "marks", Copies(), at_once=at_once
        )
        marked = [found.documents(part, n) for part, n in sizes.items()]
        assert np.concatenate(marked).tolist() == expected.tolist()
        assert found.counts == {"repeats": expected.sum()}


def test_a_key_of_most_documents_fills_no_range(tmp_path, monkeypatch):
    at_once, sorted_at_once = 100, []

    def counted(keys, scores, kept):
        sorted_at_once.append(len(keys))
        return copies_among(keys, scores, kept)

    monkeypatch.setattr(copies, "copies_among", counted)
    other = np.random.default_rng(0).integers(2**63, size=600).tolist()
    parts = [[(7 if i % 10 else other[50 * p + i], 1, 0.0) for i in range(50)] for p in range(12)]
    search = search_in(tmp_path, parts, names=("a",))
    sizes = dict.fromkeys(range(12), 50)
    found = find_copies(
        in_process, search, sizes, "exact", tmp_path / "marks", Copies(), at_once=at_once
    )
    assert found.counts == {"exact": 539}
    assert max(sorted_at_once) == at_once


def test_keys_of_another_number_of_documents_are_a_changed_corpus(tmp_path):
    search = search_in(tmp_path, [[(1, 3, 0.0), (2, 3, 0.0)]])
    write_arrays(keys_path(search.keys, 0), {n: np.zeros(1, np.uint64) for n in ("a", "b")}, {})
    with pytest.raises(ChangedInputError, match="x"):
        find_copies(in_process, search, {0: 2}, "exact", tmp_path / "marks", Copies())
