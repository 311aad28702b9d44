"""Reads the target and samples the background: the two samples that methods are fitted on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import write_arrays
from corpusfit.core.keywords import Inputs
from corpusfit.core.plan import CutPlan, Plan, ReadPlan
from corpusfit.core.types import (
    Documents,
    Shard,
    Texts,
    Units,
    take_texts,
    text_array,
)
from corpusfit.embed.store import VectorStore
from corpusfit.kernels.chance import part_keys
from corpusfit.selection.fit import Sample
from corpusfit.selection.resolved import Resolved
from corpusfit.text import cures
from corpusfit.text.context import Machine, Run, machine_of
from corpusfit.text.formats.txt import Txt
from corpusfit.text.in_memory import inputs
from corpusfit.text.input import Input
from corpusfit.text.pairs import MOST_IDENTIFIED
from corpusfit.text.reading import Reasons, Tally, cut_units, read_shard, read_units

FEW = 20
_SHORTEST = 0.05
"""Share of the target's units that may be shorter than a scrap."""
_PARAGRAPHS = 100
"""Most paragraphs per file, on average, of files that may be a document each."""
_DIVIDED = {
    "blocks": "divided by blank lines (`read.txt=lines`: one per line)",
    "lines": "one per line (`read.txt=blocks`: divided by blank lines)",
    "file": "one per file",
}


def target_texts(run: Run, resolved: Resolved, sample: Sample) -> int:
    """Read, normalize and cut the target; write its units' texts; returns their number."""
    # Repeated texts count once: a copy in a held-out part would flatter every method.
    plan = resolved.plan
    target = resolved.target
    names = tuple(s.name for s in target.sources)
    found: dict[str, None] = {}
    rejected = Reasons()
    losses = cures.Losses()
    for shard in corpus.shards(target.sources, target.read):
        read_documents, tally = read_shard(shard, target.read, names)
        found |= dict.fromkeys(read_documents.texts.to_pylist())
        lost = tally.rejects.counts()
        rejected.add(lost)
        losses.add(names[shard.source], tally.documents, lost)
    if rejected.counts:
        cure = losses.cure(target.sources, target.read)
        unused = f"{rejected.counts.total():,} rows of the target were not used: {rejected}."
        run.warn(f"{unused} {cure}".rstrip())

    # undo a task's own tokenisation, unless nothing is left
    if plan.fit.normalize:
        plain = dict.fromkeys(map(corpus.normalize, found))
        plain.pop("", None)
        found = plain or found
    different = list(found)

    # cut the texts into units, and sample a large target
    numbered = Documents(np.arange(len(different)), text_array(different))
    cut, texts = cut_units(numbered, plan.cut)
    documents = cut.row
    if 0 < plan.fit.max_target < len(texts):
        sampled = np.random.default_rng(plan.seed).permutation(len(texts))
        places = np.sort(sampled[: plan.fit.max_target])
        texts = take_texts(texts, places)
        documents = documents[places]

    # say what makes scores unreliable
    in_corpus = {s.fingerprint for s in resolved.corpus.sources}
    inside = [s.name for s in target.sources if s.fingerprint in in_corpus]
    if inside:
        run.warn(
            f"{inside[0]} of the target is in the corpus too, where its own texts score highest. "
            "Leave it out of `corpus`."
        )
    forms = [corpus.load_format(name) for name in sorted({s.format for s in target.sources})]
    modes = [form.mode(target.read) for form in forms if isinstance(form, Txt)]
    if len(different) < FEW:
        cure = "Add texts to the target."
        if {"blocks", "file"} & {*modes}:
            cure = "Add texts, or pass `read.txt=lines` if each line of its files is one."
        run.warn(
            f"The target has only {len(different)} different text{'s' * (len(different) > 1)}. "
            f"With fewer than {FEW}, scores and comparisons of methods are unreliable. {cure}"
        )
    elif modes:
        divided = " or ".join(_DIVIDED[mode] for mode in modes)
        if may_be_whole(target, len(different)):
            divided = f"{divided[:-1]}, `read.txt=file`: one per file)"
        run.progress.note(f"The target has {len(different):,} different texts, {divided}.")
    sample.write_texts(texts.to_pylist(), documents)
    return len(texts)


def may_be_whole(given: Input, texts: int) -> bool:
    """Whether plain text is divided within many files that are small enough for a document."""
    files = sum(source.format == Txt.name for source in given.sources)
    small = files < texts < _PARAGRAPHS * files
    return given.read.txt in ("auto", "blocks") and small and FEW <= files == len(given.sources)


def background_texts(run: Run, plan: Plan, texts: Input, sample: Sample) -> Reasons:
    """Draw `fit.background` units in one pass over all text; returns why rows were rejected."""
    k = plan.fit.background
    bound = first_bound(texts.size, k, plan.cut)
    sampled, rejected = _sample_units(run, plan, texts, k, bound)
    # the bound is an estimate: sample again without one if it gave too few units
    if bound < ALL and sum(len(d.texts) for d in sampled) < k:
        sampled, rejected = _sample_units(run, plan, texts, k, ALL)
    if not sampled:
        raise texts.nothing_read(rejected)
    units = list(itertools.chain(*(d.texts for d in sampled)))
    places = [(d.shard, row) for d in sampled if d.rows is not None for row in d.rows.tolist()]
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    documents = np.array([numbers[place] for place in places], np.int64)
    different = len({text for text, _ in units})
    if 2 * different < len(units):
        run.warn(
            f"Only {different:,} of {len(units):,} texts in a sample of the corpus are different. "
            "Methods are fitted on all of them; remove the copies from the corpus."
        )
    write_units(sample, units, texts.read, documents)
    return rejected


_SCRAP = 5
"""Word pieces without which a text, such as `Page 2` or `[deleted]`, says nothing of likeness."""


def least_pieces(target: Sample) -> int:
    """Word pieces of a document without which it comes after all others; fewer for short targets.

    What is computed of one or two words is mostly chance, by which it is above whole documents.
    Reference: Xie et al. (2023), appendix on the quality filter, which asks for 40 words.
    """
    texts = text_array(target.read_texts())
    units, _ = cut_units(Documents(np.arange(len(texts)), texts), CutPlan("document"))
    # where the target has such texts too, they are wanted
    return min(_SCRAP, int(np.quantile(units.pieces, _SHORTEST)))


def some_texts(run: Run, plan: Plan, texts: Input) -> list[str]:
    """A few hundred units, sampled in one pass over all text; perhaps fewer."""
    k = MOST_IDENTIFIED
    sampled, _ = _sample_units(run, plan, texts, k, first_bound(texts.size, k, plan.cut))
    return [text for part in sampled for text, _ in part.texts]


def random_texts(
    given: Inputs, plan: Plan, *, role: str, machine: Machine | None = None
) -> list[str]:
    """A random sample of the units of some inputs, as a method is fitted on; in reading order.

    Args:
        given: inputs as for `corpus` of `select`.
        plan: how they are read and cut (`read`, `cut`), how many units are sampled
            (`fit.background`) and which (`seed`).
        role: the argument that names them, such as `corpus`; messages name it.
        machine: where to run.

    Raises:
        EmptyInputError: they have no usable row.
    """
    machine = machine_of(machine, {})
    names = inputs(given, role, machine, plan.read.text_field)
    with machine.running() as run:
        texts = Input(run.find(names, plan.read, role), plan.read, role)
        sample = Sample(run.work, role)
        rejected = background_texts(run, plan, texts, sample)
        if rejected.counts:
            run.warn(f"{rejected.counts.total():,} rows of `{role}` were not used: {rejected}.")
        return sample.read_texts()


Unit = tuple[str, tuple[float, ...]]
"""The text of a unit, and the numbers of its row in `read.numbers`."""


def units_at(
    texts: Texts, numbers: NDArray[np.float64] | None, places: NDArray[np.int64]
) -> list[Unit]:
    """The units at some positions, int64 [k]."""
    as_strings = strings(texts, places)
    if numbers is None:
        return [(text, ()) for text in as_strings]
    return list(zip(as_strings, map(tuple, numbers[places].tolist()), strict=True))


def write_units(
    sample: Sample,
    units: Sequence[Unit],
    read: ReadPlan,
    documents: NDArray[np.int64] | None = None,
) -> None:
    """Write units to a sample, with the document of each, int64 [n], if that is known."""
    by_unit = (numbers for _, numbers in units)
    by_field = dict(zip(read.number_fields(), map(list, zip(*by_unit, strict=True)), strict=False))
    texts = [text for text, _ in units]
    sample.write_texts(texts, documents=documents, numbers=by_field)


def read_background(
    run: Run, resolved: Resolved, sample: Sample, places: list[tuple[int, NDArray[np.int64]]]
) -> None:
    """Read the texts of units that were sampled by shard, and write them."""
    texts = resolved.corpus
    wanted = dict(places)
    with run.stage("sample texts", texts.size):
        job = partial(_read_units_at, texts.read, resolved.plan.cut, texts.names)
        pieces = ((s, wanted[s.index]) for s in run.shards(texts) if s.index in wanted)
        units_of = dict(run.map(job, pieces))
    write_units(sample, [u for shard, _ in places for u in units_of[shard]], texts.read)


def _sample_units(
    run: Run, plan: Plan, texts: Input, k: int, bound: int
) -> tuple[list[SampledUnits[Unit]], Reasons]:
    """The units with keys below a bound, and why rows were rejected."""
    sampled: list[SampledUnits[Unit]] = []
    rejected = Reasons()
    count = 0
    job = partial(sample_texts, texts.read, plan.cut, texts.names, k, plan.seed)
    with run.stage("sample", texts.size):
        for part, tally in run.map(job, ((shard, bound) for shard in run.shards(texts))):
            rejected.add(tally.rejects.counts())
            sampled.append(part)
            count += len(part.texts)
            if count > 2 * k:
                sampled = merge(sampled, k)
                count = sum(len(d.texts) for d in sampled)
                bound = int(max(d.keys.max() for d in sampled))
    return merge(sampled, k), rejected


ALL = 2**64
"""A bound above every key."""

_PLENTY = 3
T = TypeVar("T")


@dataclass(frozen=True)
class SampledUnits(Generic[T]):
    """The sampled items of one shard: keys uint64 [n] and n texts, or records with texts."""

    shard: int
    keys: NDArray[np.uint64]
    texts: list[T]
    rows: NDArray[np.int64] | None = None  # [n], the document's row of each, if it is kept


def sample_texts(
    read: ReadPlan,
    cut: CutPlan,
    names: tuple[str, ...],
    k: int,
    seed: int,
    piece: tuple[Shard, int],
) -> tuple[SampledUnits[Unit], Tally]:
    """Draw the k units of a shard with the smallest keys below a bound; also returns the tally."""
    shard, bound = piece
    keys, units, texts, tally = below(shard, bound, read, cut, names, seed)
    places = lowest(keys, k)
    sampled = units_at(texts, units.numbers, places)
    return SampledUnits(shard.index, keys[places], sampled, units.row[places]), tally


def below(
    shard: Shard, bound: int, read: ReadPlan, cut: CutPlan, names: tuple[str, ...], seed: int
) -> tuple[NDArray[np.uint64], Units, Texts, Tally]:
    """The n units of a shard with keys below a bound, in reading order, and their keys."""
    # Parsing every row would be slow, and a row's number of units is unknown before. So a row is
    # divided into as many parts as its bytes suggest, parts are sampled, and only rows with a
    # sampled part are parsed. Every unit is equally likely, but neighbors can be sampled together.
    # Reference: bottom-k sampling, see `kernels/chance.py`; cluster sampling.
    parts = _DrawnParts(seed, shard.index, bound, _typical_bytes(cut))
    documents, tally = read_shard(shard, read, names, parts.pick)
    units, texts = cut_units(documents, cut)
    keys, places = parts.units(documents.row, np.unique(units.row, return_counts=True)[1])
    order = np.argsort(places, kind="stable")
    places = places[order]
    return keys[order], units.take(places), take_texts(texts, places), tally


def lowest(keys: NDArray[np.uint64], k: int, bound: int = ALL) -> NDArray[np.int64]:
    """Positions of the k smallest keys up to a bound, int64, increasing."""
    candidates = np.flatnonzero(keys <= np.uint64(min(bound, ALL - 1)))
    return np.sort(candidates[np.argsort(keys[candidates], kind="stable")[:k]])


def _typical_bytes(cut: CutPlan) -> int:
    """Typical bytes of a unit; affects only how many neighbors are sampled together."""
    if cut.unit == "document":
        return 2**62
    return {"sentence": 128, "paragraph": 512}.get(cut.unit, 4 * cut.most)


def first_bound(size: int, k: int, cut: CutPlan) -> int:
    """A key bound that very likely gives k units of a corpus of `size` bytes, and few more."""
    return min(ALL, ALL * _PLENTY * k // (size // _typical_bytes(cut) + 1))


def strings(texts: Texts, places: NDArray[np.int64]) -> list[str]:
    """The texts at some positions, int64 [k], as Python strings."""
    as_list: list[str] = take_texts(texts, places).to_pylist()
    return as_list


class _DrawnParts:
    """The sampled parts of one shard's rows: those with a key below the bound."""

    def __init__(self, seed: int, shard: int, bound: int, typical: int) -> None:
        self._seed = seed
        self._shard = shard
        self._bound = bound
        self._typical = typical
        self._row = self._parts = self._number = np.empty(0, np.int64)
        self._keys = np.empty(0, np.uint64)

    def pick(self, rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row has a sampled part: bool [n]."""
        parts = sizes // self._typical + 1
        owner, number, keys = part_keys(self._seed, self._shard, rows, parts)
        sampled = (
            keys < np.uint64(self._bound) if self._bound < ALL else np.ones(len(keys), np.bool_)
        )
        owner = owner[sampled]
        self._row = rows[owner]
        self._parts = parts[owner]
        self._number = number[sampled]
        self._keys = keys[sampled]
        picked = np.zeros(len(rows), np.bool_)
        picked[owner] = True
        return picked

    def units(
        self, rows: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Keys and places of the sampled units: unit j of n falls into part floor(j parts / n)."""
        at = np.searchsorted(rows, self._row)
        usable = (at < len(rows)) & np.isin(self._row, rows)  # without rejected rows
        at = at[usable]
        parts = self._parts[usable]
        number = self._number[usable]
        keys = self._keys[usable]
        n = counts[at]
        first = (np.cumsum(counts) - counts)[at]
        begin = -(-number * n // parts)
        end = -(-(number + 1) * n // parts)
        units_per_part = end - begin
        within = np.arange(units_per_part.sum()) - np.repeat(
            np.cumsum(units_per_part) - units_per_part, units_per_part
        )
        return np.repeat(keys, units_per_part), np.repeat(first + begin, units_per_part) + within


def merge(sampled: list[SampledUnits[T]], k: int) -> list[SampledUnits[T]]:
    """Reduce sampled items to the k smallest keys over all shards; drop shards without any."""
    sampled = sorted((d for d in sampled if len(d.keys)), key=lambda d: d.shard)
    keys = np.concatenate([d.keys for d in sampled]) if sampled else np.empty(0, np.uint64)
    if len(keys) <= k:
        return sampled
    bound = np.partition(keys, k - 1)[k - 1]
    smallest = []
    for d in sampled:
        mask = d.keys <= bound
        texts = [t for t, small in zip(d.texts, mask.tolist(), strict=True) if small]
        if texts:
            rows = None if d.rows is None else d.rows[mask]
            smallest.append(SampledUnits(d.shard, d.keys[mask], texts, rows))
    return smallest


def _read_units_at(
    read: ReadPlan, cut: CutPlan, names: tuple[str, ...], piece: tuple[Shard, NDArray[np.int64]]
) -> tuple[int, list[Unit]]:
    """Read a shard's units at some places; returns the shard's number too."""
    shard, places = piece
    units, texts, _ = read_units(shard, read, cut, names)
    return shard.index, units_at(texts, units.numbers, places)


def sample_vectors(store: Path, out: Path, places: list[tuple[int, NDArray[np.int64]]]) -> int:
    """Gather the vectors at (shard, places) from the store into a file; returns their number."""
    vectors = VectorStore(store).gather(places)
    write_arrays(out, {"vectors": vectors}, {})
    return len(vectors)
