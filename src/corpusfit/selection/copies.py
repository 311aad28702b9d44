"""Finds the documents of a scored corpus that are copies, by keys of their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import names_in, read_arrays, write_arrays
from corpusfit.core.engine import Job, PlainJob
from corpusfit.core.errors import changed_input
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Texts, buffers, text_array
from corpusfit.kernels import characters
from corpusfit.kernels.chance import place_keys
from corpusfit.kernels.grams import count_each, grams_of
from corpusfit.kernels.overlap import band_keys
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text import documents
from corpusfit.text.context import Run
from corpusfit.text.same_text import exact_key, folded, form_keys

_AT_ONCE = 1 << 21
"""Keys that are sorted at a time, about; each takes 40 bytes meanwhile."""
_KINDS = {"exact": "exact copies", "near": "near-duplicates"}


def find_copies(
    parts: Callable[[], Iterable[NDArray[np.uint64]]],
    scores: NDArray[np.float32],
    *,
    at_once: int = _AT_ONCE,
) -> NDArray[np.bool_]:
    """Which of n documents are copies of a better one with the same key; bool [n]."""
    # A higher score is better, then an earlier position. Sorting all keys at once would take too
    # much memory; as they are hashes, ranges of equal width hold about equally many.
    n = len(scores)
    is_copy = np.zeros(n, np.bool_)
    width = (1 << 64) * at_once // max(n, at_once)
    for low in range(0, 1 << 64, width) if n else ():
        high = np.uint64(min(low + width, 1 << 64) - 1)
        keys, places, first = [], [], 0
        for part in parts():
            inside = np.flatnonzero((part >= np.uint64(low)) & (part <= high))
            keys.append(part[inside])
            places.append(first + inside)
            first += len(part)
        key, document = np.concatenate(keys), np.concatenate(places)
        order = np.lexsort((-scores[document], key))
        same = key[order][1:] == key[order][:-1]
        is_copy[document[order[1:][same]]] = True
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


@dataclass(frozen=True)
class KeyDocuments(PlainJob[Shard, int]):
    """Write the keys of a shard's documents (of pairs, by both sides); returns their number."""

    read: ReadPlan
    out: Path
    pairs: bool  # whether the corpus has aligned pairs

    def _work(self, shard: Shard) -> int:
        first, other = self.read.sides()
        read_documents, _ = documents(shard, first)
        keys = keys_of(read_documents.row, read_documents.texts)
        if self.pairs:
            second, _ = documents(shard, other)
            keys = keys_of(second.row, second.texts, keys.tolist())
        write_keys(self.out, shard.index, keys)
        return len(keys)


@dataclass(frozen=True)
class KeyNear(PlainJob[Shard, int]):
    """Write the keys that near-duplicates share, `NEAR`, uint64 [n] each; returns n.

    The first is that of the same text, the others are of its 5-grams of words and symbols: two
    texts with the Jaccard similarity 0.8 share one with the probability 0.90, with 0.7 of 0.43,
    with 0.6 of 0.11, with 0.9 of 0.9998. A text with fewer than 4 different 5-grams has the first.

    Reference: see `kernels/overlap.py`; Lee et al. (2022), Deduplicating Training Data Makes
    Language Models Better.
    """

    read: ReadPlan
    out: Path

    def _work(self, shard: Shard) -> int:
        read_documents, _ = documents(shard, self.read)
        texts = [folded(text) for text in read_documents.texts.to_pylist()]
        data, offsets = buffers(text_array(texts))
        grams, _, bounds = count_each(
            *grams_of(data, offsets, characters.symbol_table(), _ORDER, True)
        )
        drawn = place_keys(0, 0, 2 * _BANDS * _ROWS).astype(np.uint32)
        factors, added = drawn[::2] | np.uint32(1), drawn[1::2]
        same = form_keys(texts)
        alike = band_keys(grams, bounds, factors, added, _ROWS)
        keys = np.where(np.diff(bounds) < _FEWEST, same, alike)
        arrays = dict(zip(NEAR, [same, *keys], strict=True))
        write_arrays(keys_path(self.out, shard.index), arrays, {})
        return len(same)


@dataclass(frozen=True)
class Copies:
    """The copies among the documents of a scored corpus."""

    # number of copies by kind, `exact` or `near`; empty if copies are kept
    counts: Mapping[str, int] = field(default_factory=dict)
    # bool [n], which of the documents of a part are copies, by part; parts without copies are left
    # out
    parts: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)

    def of(self, index: int, path: Path) -> NDArray[np.bool_]:
        """Which of the m segments of a part belong to a copy, bool [m]."""
        (segment,) = table.read_columns(path, "segment")
        if index not in self.parts:
            return np.zeros(len(segment), np.bool_)
        return np.asarray(self.parts[index][np.cumsum(segment == 0) - 1])


def copies_of(run: Run, folder: SelectionFolder) -> Copies:
    """Find the copies that the plan leaves out.

    Memory: 6 bytes per document, plus that of `find_copies`.
    """
    if run.plan.choose.dedup == "none":
        return Copies()
    read = run.plan.read
    best = []
    sizes = {}
    for index, path in table.parts(folder.scores):
        score, segment = table.read_columns(path, "score", "segment")
        first = np.flatnonzero(segment == 0)
        sizes[index] = len(first)
        if len(first):  # each document's highest score
            best.append(np.maximum.reduceat(np.asarray(score, np.float32), first))
    scores = np.concatenate([np.empty(0, np.float32), *best])

    def shared(
        stage: str, job: Job[Shard, int], keys: Path, names: tuple[str, ...]
    ) -> NDArray[np.bool_]:
        """Which documents share one of the named keys with a better document."""
        # Keys are stored (8 bytes per document, 168 more for near-duplicates), so documents are
        # hashed only once; a method that scores text has stored them already.
        done = names_in(keys)
        missing = {index for index in sizes if keys_path(keys, index).name not in done}
        with run.stage(stage, run.size if missing else 0):
            if missing:
                for _ in run.map(job, (shard for shard in run.shards() if shard.index in missing)):
                    pass

            def parts(name: str) -> Iterator[NDArray[np.uint64]]:
                for index, size in sizes.items():
                    part = read_arrays(keys_path(keys, index), [name])[0][name]
                    if len(part) != size:
                        raise changed_input(", ".join(run.names[:3]), "`overwrite`")
                    yield part

            copies = np.zeros(len(scores), np.bool_)
            for name in names:
                copies |= find_copies(partial(parts, name), scores)
        return copies

    job = KeyDocuments(read, folder.keys, corpus.is_parallel(run.sources))
    copies = shared("find copies", job, folder.keys, (EXACT,))
    counts = {"exact": int(copies.sum())}
    if run.plan.choose.dedup == "near":
        near = shared("find near-duplicates", KeyNear(read, folder.near), folder.near, NEAR)
        counts["near"] = int((near & ~copies).sum())
        copies |= near
    split = np.split(copies, np.cumsum(list(sizes.values()))[:-1])
    return Copies(counts, {i: part for i, part in zip(sizes, split, strict=True) if part.any()})
