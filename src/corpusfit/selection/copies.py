"""Finds the copies among the documents of a scored corpus, by keys of their texts.

Among the segments of longer documents it finds repeats: segments whose words occur in many, such as
boilerplate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Segments, Shard, Texts, Units, buffers, text_array
from corpusfit.kernels import characters
from corpusfit.kernels.chance import place_keys
from corpusfit.kernels.grams import count_each, grams_of
from corpusfit.kernels.overlap import band_keys
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder, read_tallies, runs_of_parts
from corpusfit.selection.resolved import Resolved
from corpusfit.text import documents
from corpusfit.text.context import Run
from corpusfit.text.input import Input
from corpusfit.text.reading import cut_units, join_units
from corpusfit.text.same_text import exact_keys, folded, form_keys, letters_keys

_AT_ONCE = 1 << 21
"""About how many keys are sorted at a time; each takes 60 bytes of memory."""
_KINDS = {
    "exact": ("exact copy", "exact copies"),
    "near": ("near-duplicate", "near-duplicates"),
}
_KEPT = 3
"""How many segments with the same words are kept."""


def copies_among(
    keys: NDArray[np.uint64], scores: NDArray[np.float32], kept: int = 1
) -> NDArray[np.bool_]:
    """Which of n entries have the key of `kept` better ones, or equal ones before; bool [n]."""
    order = np.argsort(keys)  # not stable: the few equal keys are ordered below
    equal = keys[order][1:] == keys[order][:-1]
    several = np.zeros(len(keys), np.bool_)
    several[1:] |= equal
    several[:-1] |= equal
    shared = np.sort(order[several])
    shared = shared[np.lexsort((-scores[shared], keys[shared]))]
    is_copy = np.zeros(len(keys), np.bool_)
    is_copy[shared[kept:][keys[shared][kept:] == keys[shared][:-kept]]] = True
    return is_copy


def copies_in_words(counts: Mapping[str, int] | None) -> str:
    """Describe the copies left out, from the manifest's counts by kind; empty for none."""
    counted = counts or {}
    kinds = [
        f"{n:,} {one if n == 1 else several}"
        for kind, (one, several) in _KINDS.items()
        if (n := counted.get(kind, 0))
    ]
    phrases = [f"{' and '.join(kinds)} of other rows"] if kinds else []
    if repeats := counted.get("repeats"):
        phrases.append(f"{repeats:,} repeat{'s' * (repeats > 1)} of segments")
    return f"{' and '.join(phrases)} left out" if phrases else ""


EXACT = "keys"
"""Name of the array of keys that exact copies share, or segments with the same words."""
_ORDER = 5
"""Words of an n-gram, as for contamination and `split --near`."""
_FEWEST = 4
"""Fewest distinct n-grams of a text that can be a near-duplicate of a different text."""
_BANDS = 20
_ROWS = 10
NEAR = tuple(f"near{i}" for i in range(_BANDS + 1))
"""Names of the arrays of keys that near-duplicates share."""


def keys_path(folder: Path, shard: int) -> Path:
    """File of the keys of a shard's documents."""
    return folder / f"part-{shard:05d}.safetensors"


def segment_keys(keys: Path) -> Path:
    """Folder of the keys of segments, until the repeats among them are found."""
    return keys / "segments"


def write_keys(folder: Path, shard: int, units: Units, texts: Texts, cut: CutPlan) -> None:
    """Write the keys of a shard's documents and segments, in reading order."""
    write_arrays(keys_path(folder, shard), {EXACT: keys_of(units.row, texts)}, {})
    if cut.unit != "document":
        keys = _keys_of_segments(join_units(units, cut.gamma), texts)
        write_arrays(keys_path(segment_keys(folder), shard), {EXACT: keys}, {})


def _in_several(segment: NDArray[Any]) -> NDArray[np.bool_]:
    """Which segments of a part belong to documents of several; from the column `segment`, [m]."""
    several = segment > 0
    several[:-1] |= segment[1:] > 0
    return several


def _keys_of_segments(segments: Segments, texts: Texts) -> NDArray[np.uint64]:
    """The keys of the segments of documents that are cut into several, uint64 [k]."""
    data, offsets = buffers(texts)
    several = _in_several(segments.segment)
    begins = offsets[segments.first_unit]
    ends = np.append(begins[1:], offsets[-1])
    return letters_keys(data, np.stack([begins[several], ends[several]], axis=1))


def keys_of(row: NDArray[np.int64], texts: Texts, seeds: Iterable[int] = ()) -> NDArray[np.uint64]:
    """The key of each of n documents, uint64 [n], which exact copies share."""
    data, offsets = buffers(texts)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    return exact_keys(data, np.append(offsets[first], offsets[-1]), seeds)


def _count(scored: Path, shards: tuple[int, ...]) -> list[tuple[int, tuple[int, int]]]:
    """Each shard's number, with how many documents and segments it has."""
    tallies = zip(shards, read_tallies(scored, shards), strict=True)
    return [(n, (tally.documents, tally.segments)) for n, tally in tallies]


def key_shard(
    read: ReadPlan,
    cut: CutPlan,
    out: Path,
    pairs: bool,  # whether the corpus has aligned pairs
    shard: Shard,
) -> None:
    """Write the keys of a shard; of pairs, by both texts, and of no segments."""
    first, other = read.sides()
    read_documents, _ = documents(shard, first)
    if not pairs:
        write_keys(out, shard.index, *cut_units(read_documents, cut), cut)
        return
    keys = keys_of(read_documents.row, read_documents.texts)
    second, _ = documents(shard, other)
    keys = keys_of(second.row, second.texts, keys.tolist())
    write_arrays(keys_path(out, shard.index), {EXACT: keys}, {})


def key_near(read: ReadPlan, out: Path, shard: Shard) -> None:
    """Write the keys that near-duplicates share, `NEAR`, uint64 [n] each.

    The first is that of the same text, the others are of its 5-grams of words and symbols: two
    texts with the Jaccard similarity 0.8 share one with the probability 0.90, with 0.7 of 0.43,
    with 0.6 of 0.11, with 0.9 of 0.9998. A text with fewer than 4 different 5-grams has only the
    first.

    Reference: see `kernels/overlap.py`; Lee et al. (2022), Deduplicating Training Data Makes
    Language Models Better.
    """
    read_documents, _ = documents(shard, read)
    texts = [folded(text) for text in read_documents.texts.to_pylist()]
    data, offsets = buffers(text_array(texts))
    grams, _, bounds = count_each(*grams_of(data, offsets, characters.symbol_table(), _ORDER, True))
    constants = place_keys(0, 0, 2 * _BANDS * _ROWS).astype(np.uint32)
    factors = constants[::2] | np.uint32(1)
    addends = constants[1::2]
    same = form_keys(texts)
    alike = band_keys(grams, bounds, factors, addends, _ROWS)
    keys = np.where(np.diff(bounds) < _FEWEST, same, alike)
    arrays = dict(zip(NEAR, [same, *keys], strict=True))
    write_arrays(keys_path(out, shard.index), arrays, {})


@dataclass(frozen=True)
class Search:
    """Where the scores and the keys of documents or segments are, and where to work."""

    scores: Path
    keys: Path
    names: tuple[str, ...]  # the arrays of keys
    work: Path
    sources: tuple[str, ...]  # names for an error
    # for a search of segments: the copies among the documents, whose segments are skipped
    copies: Copies | None = None

    @property
    def kept(self) -> int:
        """How many entries with the same key are kept."""
        return 1 if self.copies is None else _KEPT

    def entries(
        self, part: int, size: int
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], Mapping[str, NDArray[np.uint64]]]:
        """The scores of a part's documents or segments, which of them have keys, and these."""
        path = table.part_path(self.scores, part)
        score, segment = table.read_columns(path, "score", "segment")
        scores = np.asarray(score, np.float32)
        keys, _ = read_arrays(keys_path(self.keys, part), self.names)
        if self.copies is None:
            first = np.flatnonzero(segment == 0)
            if len(first):  # each document's highest score
                scores = np.maximum.reduceat(scores, first)
            searched = keyed = np.ones(len(first), np.bool_)
        else:
            keyed = _in_several(segment)
            searched = keyed & ~self.copies.of(part, segment)
        if not len(keys[self.names[0]]) == keyed.sum() or len(scores) != size:
            raise changed_input(", ".join(self.sources), "`overwrite`")
        return scores, searched, {name: of_name[searched[keyed]] for name, of_name in keys.items()}


@dataclass(frozen=True)
class Group:
    """Parts in order with the numbers of their entries, about as many as are sorted at a time."""

    number: int
    parts: tuple[int, ...]
    sizes: tuple[int, ...]


def _sort_keys(search: Search, ranges: int, group: Group) -> None:
    """Mark a group's entries that share a key with better ones, and sort the other keys.

    An entry is a document or a segment. `sorted-N` has the marks, and the key, score and number of
    every entry that is left, by key; `bounds` divides these into ranges of keys. A key that many
    entries share is left a few times in each group.
    """
    names = search.names
    best = [np.empty(0, np.float32)]
    searched = [np.empty(0, np.bool_)]
    keys = []
    for part, size in zip(group.parts, group.sizes, strict=True):
        scores_of_part, searched_of_part, keys_of_part = search.entries(part, size)
        best.append(scores_of_part)
        searched.append(searched_of_part)
        keys.append(keys_of_part)
    scores = np.concatenate(best)
    # the number of the array is part of a key, so that only keys of one array are equal
    key = np.concatenate([each[name] ^ salt for name, salt in _salts(names) for each in keys])
    entry = np.tile(np.flatnonzero(np.concatenate(searched)).astype(np.uint32), len(names))
    score = scores[entry]
    is_copy = copies_among(key, score, search.kept)
    copied = np.zeros(len(scores), np.bool_)
    copied[entry[is_copy]] = True
    left = np.flatnonzero(~is_copy)
    left = left[np.argsort(key[left], kind="stable")]  # equal keys in the corpus's order
    bounds = np.searchsorted(key[left], _starts(ranges))
    entries = {"key": key[left], "score": score[left], "entry": entry[left]}
    arrays = {**entries, "bounds": np.append(bounds, len(left)), "copied": copied}
    write_arrays(search.work / f"sorted-{group.number}.safetensors", arrays, {})


def _find_in_range(search: Search, groups: int, number: int) -> None:
    """Find the copies among the keys of one range, of all groups.

    `found-N` has the entries, uint32, and where those of each group end.
    """
    parts = []
    sizes = []
    for group in range(groups):
        path = search.work / f"sorted-{group}.safetensors"
        ((begin, end),) = read_slices(path, {"bounds": (number, number + 2)}).values()
        names = dict.fromkeys(("key", "score", "entry"), (int(begin), int(end)))
        parts.append(read_slices(path, names))
        sizes.append(int(end - begin))
    key, score, entry = (
        np.concatenate([part[name] for part in parts]) for name in ("key", "score", "entry")
    )
    is_copy = copies_among(key, score, search.kept)
    ends = np.append(0, np.cumsum(is_copy))[np.cumsum([0, *sizes])]
    arrays = {"entry": entry[is_copy], "ends": ends}
    write_arrays(search.work / f"found-{number}.safetensors", arrays, {})


def _mark_copies(
    search: Search, ranges: int, marks: Path, before: Copies, group: Group
) -> tuple[list[int], int]:
    """Write which entries of each part of a group are copies, also those of `before`.

    Returns the parts with copies, and the number of copies that are not of `before`.
    """
    path = search.work / f"sorted-{group.number}.safetensors"
    copied = read_arrays(path, ["copied"])[0]["copied"].copy()
    for number in range(ranges):
        path = search.work / f"found-{number}.safetensors"
        wanted = {"ends": (group.number, group.number + 2)}
        ((begin, end),) = read_slices(path, wanted).values()
        wanted = {"entry": (int(begin), int(end))}
        copied[read_slices(path, wanted)["entry"]] = True
    new = 0
    parts = []
    for part, of_part in zip(
        group.parts, np.split(copied, np.cumsum(group.sizes)[:-1]), strict=True
    ):
        known = before.documents(part, len(of_part))
        new += int((of_part & ~known).sum())
        if (of_part | known).any():
            write_arrays(keys_path(marks, part), {"copy": np.packbits(of_part | known)}, {})
            parts.append(part)
    return parts, new


@dataclass(frozen=True)
class Copies:
    """The copies among the documents of a scored corpus, and repeats among the segments."""

    # number of copies by kind, `exact`, `near` or `repeats`; empty if copies are kept
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: frozenset[int] = frozenset()  # those with copies
    marks: Path = Path()  # their files: which of the documents of a part are copies, by bits
    repeats: Copies | None = None  # likewise, but of segments in place of documents

    def documents(self, part: int, n: int) -> NDArray[np.bool_]:
        """Which of the n documents of a part are copies, bool [n]."""
        if part not in self.parts:
            return np.zeros(n, np.bool_)
        packed = read_arrays(keys_path(self.marks, part))[0]["copy"]
        return np.unpackbits(packed, count=n).astype(np.bool_)

    def any_of(self, part: int) -> bool:
        """Whether some segments of a part are left out."""
        return part in self.parts or (self.repeats is not None and self.repeats.any_of(part))

    def of(self, part: int, segment: NDArray[Any]) -> NDArray[np.bool_]:
        """Which segments of a part are left out, bool [m]; `segment` [m] is its column."""
        left_out = np.zeros(len(segment), np.bool_)
        if part in self.parts:
            document = np.cumsum(segment == 0) - 1
            left_out |= self.documents(part, int(document[-1]) + 1)[document]
        if self.repeats is not None:
            left_out |= self.repeats.documents(part, len(segment))
        return left_out


def stored_copies(folder: SelectionFolder, kind: str) -> Copies | None:
    """What an earlier command found of a kind; None if it did not search."""
    # copies do not depend on the amount, so they are found once
    found = folder.copies / f"{kind}.json"
    if not found.exists():
        return None
    known = read_object(found)
    return Copies(known["counts"], frozenset(known["parts"]), folder.copies / kind)


def repeats_kind(dedup: str) -> str:
    """The kind of the repeats among the segments that are no copies by `choose.dedup`."""
    return f"repeats-{dedup}"


def copies_of(run: Run, resolved: Resolved, folder: SelectionFolder) -> Copies:
    """Find the copies and repeats that the plan leaves out."""
    dedup = resolved.plan.choose.dedup
    if dedup == "none":
        return Copies()

    def sizes(which: int) -> dict[int, int]:
        """The documents (0) or segments (1) of each shard; only a search asks for them."""
        if not run.counted:  # the rows were counted by an earlier command
            runs = runs_of_parts(folder, run.shard_count)
            for of_run in sorted(run.engine.map(partial(_count, folder.scored), runs)):
                run.counted.update(of_run)
        return {shard: counts[which] for shard, counts in run.counted.items()}

    # Keys are stored (8 bytes per document and segment, 168 more for near-duplicates), so texts are
    # hashed only once; a method that scores text has stored them already.
    texts = resolved.corpus
    pairs = corpus.is_parallel(texts.sources)
    key = partial(key_shard, texts.read, resolved.plan.cut, folder.keys, pairs)
    search = Search(folder.scores, folder.keys, (EXACT,), folder.copies / "work", texts.names[:3])
    copies = _found(run, texts, folder, "exact", key, search, partial(sizes, 0), Copies())
    if dedup == "near":
        near = replace(search, keys=folder.near, names=NEAR)
        key_all = partial(key_near, texts.read, folder.near)
        copies = _found(run, texts, folder, "near", key_all, near, partial(sizes, 0), copies)
    kind = repeats_kind(dedup)
    repeats = stored_copies(folder, kind)
    if repeats is None:
        if pairs or sum(sizes(1).values()) == sum(sizes(0).values()):
            repeats = Copies()  # no document is cut
            _store(folder, kind, repeats)
        else:
            among = replace(search, keys=segment_keys(folder.keys), copies=copies)
            repeats = _found(run, texts, folder, kind, key, among, partial(sizes, 1), Copies())
            remove(among.keys)  # as many bytes as the scores have
    if kind not in repeats.counts:
        return copies
    counts = {**copies.counts, "repeats": repeats.counts[kind]}
    return replace(copies, counts=counts, repeats=repeats)


def _store(folder: SelectionFolder, kind: str, copies: Copies) -> None:
    """Keep what a search of a kind found, for later commands."""
    values = {"counts": copies.counts, "parts": sorted(copies.parts)}
    write_bytes(folder.copies / f"{kind}.json", json.dumps(values).encode())


def _found(
    run: Run,
    texts: Input,
    folder: SelectionFolder,
    kind: str,
    key: Callable[[Shard], None],  # writes the keys of a shard
    search: Search,
    sizes_of: Callable[[], Mapping[int, int]],  # entries of each shard
    before: Copies,
) -> Copies:
    """The copies of `before` and those of a kind, by an earlier command or a search."""
    if known := stored_copies(folder, kind):
        return known
    sizes = sizes_of()
    done = names_in(search.keys)
    missing = {index for index in sizes if keys_path(search.keys, index).name not in done}
    sought = _KINDS[kind][1] if kind in _KINDS else "repeats"
    with run.stage(f"find {sought}", texts.size if missing else 0):
        if missing:
            for _ in run.map(key, (shard for shard in run.shards(texts) if shard.index in missing)):
                pass
        copies = find_copies(run.map, search, sizes, kind, folder.copies / kind, before)
        _store(folder, kind, copies)
    return copies


def find_copies(
    run_map: Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]],  # runs a job on pieces
    search: Search,  # where scores and keys are
    sizes: Mapping[int, int],  # entries of each part, in reading order
    kind: str,  # what to count new copies as
    marks: Path,  # folder to write; whatever it holds is removed
    before: Copies,  # copies known already
    *,
    at_once: int = _AT_ONCE,  # keys that are sorted at a time
) -> Copies:
    """The copies of `before`, and the entries that share a key with better ones.

    The work is linear in the number of entries: workers sort the keys of groups of parts and
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
    """Consecutive parts with at most so many entries, or one part alone."""
    groups: list[list[int]] = [[]]
    entries = 0
    for part, size in sizes.items():
        if groups[-1] and entries + size > most:
            groups.append([])
            entries = 0
        groups[-1].append(part)
        entries += size
    return [
        Group(number, tuple(parts), tuple(sizes[part] for part in parts))
        for number, parts in enumerate(groups)
    ]


def _salts(names: Sequence[str]) -> Iterator[tuple[str, np.uint64]]:
    return zip(names, place_keys(0, 0, len(names)), strict=True)


def _starts(ranges: int) -> NDArray[np.uint64]:
    """The lowest key of each of r ranges of equal width; keys are hashes."""
    return np.array([(number << 64) // ranges for number in range(ranges)], np.uint64)
