"""Finds the documents of a scored corpus that are copies, by keys of their texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import (
    names_in,
    read_arrays,
    read_slices,
    remove,
    write_arrays,
    write_bytes,
)
from corpusfit.core.errors import changed_input
from corpusfit.core.manifest import read_object
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Texts, buffers, text_array
from corpusfit.kernels import characters
from corpusfit.kernels.chance import place_keys
from corpusfit.kernels.grams import count_each, grams_of
from corpusfit.kernels.overlap import band_keys
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder, read_tallies, runs_of_parts
from corpusfit.text import documents
from corpusfit.text.context import Run
from corpusfit.text.same_text import exact_key, folded, form_keys

_AT_ONCE = 1 << 21
"""Keys that are sorted at a time, about; each takes 60 bytes meanwhile."""
_KINDS = {"exact": "exact copies", "near": "near-duplicates"}


def copies_among(keys: NDArray[np.uint64], scores: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of n entries have the key of a better one, or of an equal one before; bool [n]."""
    order = np.argsort(keys)  # not stable: the few equal keys are ordered below
    equal = keys[order][1:] == keys[order][:-1]
    several = np.zeros(len(keys), np.bool_)
    several[1:] |= equal
    several[:-1] |= equal
    shared = np.sort(order[several])
    shared = shared[np.lexsort((-scores[shared], keys[shared]))]
    is_copy = np.zeros(len(keys), np.bool_)
    is_copy[shared[1:][keys[shared][1:] == keys[shared][:-1]]] = True
    return is_copy


def copies_in_words(counts: Mapping[str, int] | None) -> str:
    """Describe the copies left out, from the manifest's counts by kind; empty for none."""
    phrases = [
        f"{n:,} {_KINDS[kind]}" for kind, n in (counts or {}).items() if n and kind in _KINDS
    ]
    return f"{' and '.join(phrases)} of other rows left out" if phrases else ""


EXACT = "keys"
"""Name of the array of keys that exact copies share."""
_ORDER = 5
"""Words of an n-gram, as for contamination and `split --near`."""
_FEWEST = 4
"""Different n-grams without which a text is only like the same text."""
_BANDS, _ROWS = 20, 10
NEAR = tuple(f"near{i}" for i in range(_BANDS + 1))
"""Names of the arrays of keys that near-duplicates share."""


def keys_path(folder: Path, shard: int) -> Path:
    """File of the keys of a shard's documents."""
    return folder / f"part-{shard:05d}.safetensors"


def write_keys(folder: Path, shard: int, keys: NDArray[np.uint64]) -> None:
    """Write the keys of a shard's documents, in reading order."""
    write_arrays(keys_path(folder, shard), {EXACT: keys}, {})


def keys_of(row: NDArray[np.int64], texts: Texts, seeds: Iterable[int] = ()) -> NDArray[np.uint64]:
    """The key of each of n documents, uint64 [n]: the hash of its text, in any Unicode form."""
    # Two different texts share a key with probability 2^-64.
    data, offsets = buffers(texts)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    content, spans = data.data, pairwise([*offsets[first].tolist(), int(offsets[-1])])
    hashes = (
        exact_key(bytes(content[begin:end]), seed)
        for (begin, end), seed in zip(spans, seeds or repeat(0), strict=False)
    )
    return np.fromiter(hashes, np.uint64, len(first))


def _count_documents(scored: Path, shards: tuple[int, ...]) -> list[tuple[int, int]]:
    """The numbers of shards, each with that of its documents."""
    tallies = read_tallies(scored, shards)
    return [(n, tally.documents) for n, tally in zip(shards, tallies, strict=True)]


def key_documents(
    read: ReadPlan,
    out: Path,
    pairs: bool,  # whether the corpus has aligned pairs
    shard: Shard,
) -> int:
    """Write the keys of a shard's documents (of pairs, by both sides); returns their number."""
    first, other = read.sides()
    read_documents, _ = documents(shard, first)
    keys = keys_of(read_documents.row, read_documents.texts)
    if pairs:
        second, _ = documents(shard, other)
        keys = keys_of(second.row, second.texts, keys.tolist())
    write_keys(out, shard.index, keys)
    return len(keys)


def key_near(read: ReadPlan, out: Path, shard: Shard) -> int:
    """Write the keys that near-duplicates share, `NEAR`, uint64 [n] each; returns n.

    The first is that of the same text, the others are of its 5-grams of words and symbols: two
    texts with the Jaccard similarity 0.8 share one with the probability 0.90, with 0.7 of 0.43,
    with 0.6 of 0.11, with 0.9 of 0.9998. A text with fewer than 4 different 5-grams has the first.

    Reference: see `kernels/overlap.py`; Lee et al. (2022), Deduplicating Training Data Makes
    Language Models Better.
    """
    read_documents, _ = documents(shard, read)
    texts = [folded(text) for text in read_documents.texts.to_pylist()]
    data, offsets = buffers(text_array(texts))
    grams, _, bounds = count_each(*grams_of(data, offsets, characters.symbol_table(), _ORDER, True))
    drawn = place_keys(0, 0, 2 * _BANDS * _ROWS).astype(np.uint32)
    factors, added = drawn[::2] | np.uint32(1), drawn[1::2]
    same = form_keys(texts)
    alike = band_keys(grams, bounds, factors, added, _ROWS)
    keys = np.where(np.diff(bounds) < _FEWEST, same, alike)
    arrays = dict(zip(NEAR, [same, *keys], strict=True))
    write_arrays(keys_path(out, shard.index), arrays, {})
    return len(same)


@dataclass(frozen=True)
class Search:
    """Where the scores and the keys of documents are, and where to work."""

    scores: Path
    keys: Path
    names: tuple[str, ...]  # the arrays of keys
    work: Path
    sources: tuple[str, ...]  # names for an error


@dataclass(frozen=True)
class Group:
    """Parts in order with the numbers of their documents, about as many as are sorted at a time."""

    number: int
    parts: tuple[int, ...]
    sizes: tuple[int, ...]


def _sort_keys(search: Search, ranges: int, group: Group) -> None:
    """Mark a group's documents that share a key with a better one, and sort the other keys.

    `sorted-N` has the marks, and the key, score and document of every other entry by key; `bounds`
    divides these into ranges of keys. A key that many documents share is left once in each group.
    """
    names = search.names
    best, keys = [np.empty(0, np.float32)], []
    for part, size in zip(group.parts, group.sizes, strict=True):
        score, segment = table.read_columns(
            table.part_path(search.scores, part), "score", "segment"
        )
        first = np.flatnonzero(segment == 0)
        if len(first):  # each document's highest score
            best.append(np.maximum.reduceat(np.asarray(score, np.float32), first))
        arrays, _ = read_arrays(keys_path(search.keys, part), names)
        if not len(arrays[names[0]]) == len(first) == size:
            raise changed_input(", ".join(search.sources), "`overwrite`")
        keys.append(arrays)
    scores = np.concatenate(best)
    # the number of the array is part of a key, so that only keys of one array are equal
    key = np.concatenate([arrays[name] ^ salt for name, salt in _salts(names) for arrays in keys])
    document = np.tile(np.arange(len(scores), dtype=np.uint32), len(names))
    score = scores[document]
    is_copy = copies_among(key, score)
    copied = np.zeros(len(scores), np.bool_)
    copied[document[is_copy]] = True
    left = np.flatnonzero(~is_copy)
    left = left[np.argsort(key[left])]
    bounds = np.searchsorted(key[left], _starts(ranges))
    entries = {"key": key[left], "score": score[left], "document": document[left]}
    arrays = {**entries, "bounds": np.append(bounds, len(left)), "copied": copied}
    write_arrays(search.work / f"sorted-{group.number}.safetensors", arrays, {})


def _find_in_range(search: Search, groups: int, number: int) -> None:
    """Find the copies among the keys of one range, of all groups.

    `found-N` has the documents, uint32, and where those of each group end.
    """
    parts, sizes = [], []
    for group in range(groups):
        path = search.work / f"sorted-{group}.safetensors"
        ((begin, end),) = read_slices(path, {"bounds": (number, number + 2)}).values()
        names = dict.fromkeys(("key", "score", "document"), (int(begin), int(end)))
        parts.append(read_slices(path, names))
        sizes.append(int(end - begin))
    key, score, document = (
        np.concatenate([part[name] for part in parts]) for name in ("key", "score", "document")
    )
    is_copy = copies_among(key, score)
    ends = np.append(0, np.cumsum(is_copy))[np.cumsum([0, *sizes])]
    arrays = {"document": document[is_copy], "ends": ends}
    write_arrays(search.work / f"found-{number}.safetensors", arrays, {})


def _mark_copies(
    search: Search, ranges: int, marks: Path, before: Copies, group: Group
) -> tuple[list[int], int]:
    """Write which documents of each part of a group are copies, also those of `before`.

    Returns the parts with copies, and the number of copies that are not of `before`.
    """
    path = search.work / f"sorted-{group.number}.safetensors"
    copied = read_arrays(path, ["copied"])[0]["copied"].copy()
    for number in range(ranges):
        path = search.work / f"found-{number}.safetensors"
        wanted = {"ends": (group.number, group.number + 2)}
        ((begin, end),) = read_slices(path, wanted).values()
        wanted = {"document": (int(begin), int(end))}
        copied[read_slices(path, wanted)["document"]] = True
    new, parts = 0, []
    for part, of_part in zip(
        group.parts, np.split(copied, np.cumsum(group.sizes)[:-1]), strict=True
    ):
        known = before.documents(part, len(of_part))
        new += int((of_part & ~known).sum())
        if (of_part | known).any():
            write_arrays(keys_path(marks, part), {"copy": of_part | known}, {})
            parts.append(part)
    return parts, new


@dataclass(frozen=True)
class Copies:
    """The copies among the documents of a scored corpus."""

    # number of copies by kind, `exact` or `near`; empty if copies are kept
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: frozenset[int] = frozenset()  # those with copies
    marks: Path = Path()  # their files: bool [n], which of the documents of a part are copies

    def documents(self, part: int, n: int) -> NDArray[np.bool_]:
        """Which of the n documents of a part are copies, bool [n]."""
        if part not in self.parts:
            return np.zeros(n, np.bool_)
        found: NDArray[np.bool_] = read_arrays(keys_path(self.marks, part))[0]["copy"]
        return found

    def of(self, part: int, segment: NDArray[Any]) -> NDArray[np.bool_]:
        """Which segments of a part belong to a copy, bool [m]; `segment` [m] is its column."""
        if part not in self.parts:
            return np.zeros(len(segment), np.bool_)
        document = np.cumsum(segment == 0) - 1
        return np.asarray(self.documents(part, int(document[-1]) + 1)[document])


def copies_of(run: Run, folder: SelectionFolder) -> Copies:
    """Find the copies that the plan leaves out."""
    if run.plan.choose.dedup == "none":
        return Copies()
    read, sizes = run.plan.read, run.documents
    searches: list[tuple[str, Callable[[Shard], int], Path, tuple[str, ...]]] = [
        (
            "exact",
            partial(key_documents, read, folder.keys, corpus.is_parallel(run.sources)),
            folder.keys,
            (EXACT,),
        )
    ]
    if run.plan.choose.dedup == "near":
        searches.append(("near", partial(key_near, read, folder.near), folder.near, NEAR))
    copies = Copies()
    for kind, job, keys, names in searches:
        # copies do not depend on the amount, so they are found once
        found = folder.copies / f"{kind}.json"
        if found.exists():
            known = read_object(found)
            copies = Copies(known["counts"], frozenset(known["parts"]), folder.copies / kind)
            continue
        if not sizes:  # the rows were counted by an earlier command
            runs = runs_of_parts(folder, run.shard_count)
            for of_run in sorted(run.engine.map(partial(_count_documents, folder.scored), runs)):
                sizes.update(of_run)
        # Keys are stored (8 bytes per document, 168 more for near-duplicates), so documents are
        # hashed only once; a method that scores text has stored them already.
        done = names_in(keys)
        missing = {index for index in sizes if keys_path(keys, index).name not in done}
        with run.stage(f"find {_KINDS[kind]}", run.size if missing else 0):
            if missing:
                for _ in run.map(job, (shard for shard in run.shards() if shard.index in missing)):
                    pass
            search = Search(folder.scores, keys, names, folder.copies / "work", run.names[:3])
            copies = find_copies(run.map, search, sizes, kind, folder.copies / kind, copies)
            known = {"counts": copies.counts, "parts": sorted(copies.parts)}
            write_bytes(found, json.dumps(known).encode())
    return copies


def find_copies(
    run_map: Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]],  # runs a job on pieces
    search: Search,  # where scores and keys are
    sizes: Mapping[int, int],  # documents of each part, in reading order
    kind: str,  # what to count new copies as
    marks: Path,  # folder to write; whatever it holds is removed
    before: Copies,  # copies known already
    *,
    at_once: int = _AT_ONCE,  # keys that are sorted at a time
) -> Copies:
    """The copies of `before`, and the documents that share a key with a better document.

    The work is linear in the number of documents: workers sort the keys of groups of parts and
    divide them into ranges, each range is searched in all groups, and the marks go back to the
    groups. A worker has `at_once` keys in memory, about, and this process the numbers of parts.
    """
    remove(search.work, marks)
    groups = _groups(sizes, at_once // len(search.names))
    ranges = -(-sum(sizes.values()) * len(search.names) // at_once) or 1
    for _ in run_map(partial(_sort_keys, search, ranges), groups):
        pass
    for _ in run_map(partial(_find_in_range, search, len(groups)), range(ranges)):
        pass
    found: set[int] = set()
    new = 0
    for parts, more in run_map(partial(_mark_copies, search, ranges, marks, before), groups):
        found.update(parts)
        new += more
    remove(search.work)
    return Copies({**before.counts, kind: new}, frozenset(found), marks)


def _groups(sizes: Mapping[int, int], most: int) -> list[Group]:
    """Consecutive parts with at most so many documents, or one part alone."""
    groups: list[list[int]] = [[]]
    documents = 0
    for part, size in sizes.items():
        if groups[-1] and documents + size > most:
            groups.append([])
            documents = 0
        groups[-1].append(part)
        documents += size
    return [
        Group(number, tuple(parts), tuple(sizes[part] for part in parts))
        for number, parts in enumerate(groups)
    ]


def _salts(names: Sequence[str]) -> Iterator[tuple[str, np.uint64]]:
    return zip(names, place_keys(0, 0, len(names)), strict=True)


def _starts(ranges: int) -> NDArray[np.uint64]:
    """The lowest key of each of r ranges of equal width; keys are hashes."""
    return np.array([(number << 64) // ranges for number in range(ranges)], np.uint64)
