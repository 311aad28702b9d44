"""The command `split`: divide a corpus into train, dev and test with no text in two of them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import writing
from corpusfit.core.errors import EmptyInputError, bad_setting, changed_input
from corpusfit.core.manifest import (
    Finished,
    locked,
    source_as_dict,
    source_identity,
    versions,
    warn_if_disk_is_small,
)
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Shard, Source
from corpusfit.decontamination.finder import HeldoutIndex
from corpusfit.decontamination.leaks import find_leaks
from corpusfit.evaluation.keyed_rows import (
    Rows,
    SplitFolder,
    key_rows,
    texts_of,
    with_every_text,
)
from corpusfit.evaluation.plan import SplitPlan
from corpusfit.kernels.chance import value_keys
from corpusfit.labeled.heldout import with_first_text
from corpusfit.text import cures
from corpusfit.text.context import Machine, Run, absolute
from corpusfit.text.fields import Row
from corpusfit.text.reading import Reasons
from corpusfit.text.same_text import FORM

_LINE_ENDS = re.compile(r"[\r\n]+")
_ROWS = 1 << 40  # above the number of rows of any source
_STREAM = 20  # number of a random stream that nothing else uses
_SPARE = 100  # least number of spare groups, as dev must not hold near-duplicates of test
# what becomes of a row; 1 to 3 are why `one_to_one` drops it
KEPT = 0
_DEV = 10
_TEST = 11
_NEAR_DEV = 12
_NEAR_TEST = 13
_NAMES = {KEPT: "train", _DEV: "dev", _TEST: "test"}
_REASONS = {
    1: "the same texts came before",
    2: "its first text came before, with another one",
    3: "another of its texts came before",
    _NEAR_DEV: "contains a near-duplicate of a dev text",
    _NEAR_TEST: "contains a near-duplicate of a test text",
}
_RowsOfShard = tuple[Shard, NDArray[np.int64]]
_TextsOfShard = tuple[int, list[list[str]]]


@dataclass(frozen=True)
class Form:
    """How rows are written."""

    suffixes: tuple[str, ...]  # suffixes of a split's files: two for line-aligned files, else one
    header: bytes = b""  # the first line of each file; empty for none
    raw: frozenset[str] = frozenset()  # names of the formats whose rows are written unchanged
    pair: bool = False  # whether the files hold aligned pairs

    def lines(
        self, form: str, row: Row, texts: list[str], raw: bytes, read: ReadPlan
    ) -> tuple[bytes, ...]:
        """The lines of a row, one per file, from its format, its usable texts and its bytes."""
        if form in self.raw:
            return (raw,)
        if self.pair:
            return tuple(_LINE_ENDS.sub(" ", text).encode() for text in texts)
        names = (read.text_field, *read.kept_fields())
        record: dict[str, Any] = dict(zip(names, texts, strict=True))
        if isinstance(row, Document) and row.id is not None:
            record[read.id_field] = row.id
        return (orjson.dumps(record),)


def form_of(sources: Sequence[Source], read: ReadPlan) -> Form:
    """Decide the form in which to write the rows of these sources."""
    # Rows of one format with the same header are written unchanged, if one file can hold them.
    # Otherwise pairs become two aligned files, and other rows JSON lines: rows of JSON lines
    # unchanged, all others as their text and id.
    formats = {source.format: corpus.load_format(source.format) for source in sources}
    heads = {(formats[s.format].header(s, read), s.translation) for s in sources}
    if len(formats) == len(heads) == 1:
        ((name, form),), ((header, _),) = formats.items(), heads
        if form.written:
            return Form((form.written,), header, frozenset({name}), form.parallel)
    if corpus.is_parallel(sources):
        return Form(corpus.sides(sources), pair=True)
    raw = frozenset(name for name, form in formats.items() if form.written == "jsonl")
    return Form(("jsonl",), raw=raw)


@dataclass
class Written:
    """Counts: rows read = rows of all splits + rejected rows + dropped rows."""

    rows: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    rejected: Reasons = field(default_factory=Reasons)
    dropped: Counter[str] = field(default_factory=Counter)

    def as_dict(self, names: Iterable[str]) -> dict[str, Any]:
        """The counts, with those of the splits of these names."""
        return {
            "rows": self.rows,
            **{name: self.splits[name] for name in names},
            "rejected": self.rejected.counts.total(),
            "dropped": self.dropped.total(),
            "reasons": {**self.rejected.as_dict(), **dict(self.dropped.most_common())},
        }


class Split(Finished):
    """A finished split; its manifest has `counts`, and `splits` with their files."""


def split(
    plan: SplitPlan, inputs: Sequence[str], out: Path, *, machine: Machine, overwrite: bool = False
) -> Split:
    """Split a corpus into train, dev and test.

    Copies of a text stay in one split. Of rows with several texts (aligned pairs, or those of
    several fields) that share one of them, all but the first are dropped. The text is read three
    times; with `near` twice more for each text of a row.

    Reference: Aharoni and Goldberg (2020), section 3.1 and Tables 3 and 8; Broder (1997) for
    near-duplicates; Koehn and Knowles (2017), whose medical dev set is mostly in their train set.
    """
    plan = plan.check()
    folder = SplitFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running() as context:
        sources = context.at(folder.work).find(inputs, with_first_text(plan.read), "data")
        read = with_every_text(sources, plan.read)
        stack.enter_context(locked(folder.work, "split", make=True))
        identity = {
            "command": "split",
            **dataclasses.asdict(plan.split),
            "seed": plan.seed,
            "same_text": FORM,
            "read": plan.read.identity(),
            "data": source_identity(sources),
            "versions": {"corpusfit": versions()["corpusfit"]},
        }
        folder.begin(identity, overwrite=overwrite)
        done = folder.finished()
        if done is not None:
            return Split(out, done)
        warn_if_disk_is_small(folder, sum(source.size for source in sources), context.progress)
        wanted = {"train": 1.0, "dev": plan.split.dev, "test": plan.split.test}
        names = {code: name for code, name in _NAMES.items() if wanted[name]}
        rows, codes = _assign_rows(plan, sources, read, context)
        form = form_of(sources, read)
        written = _write_split(folder, sources, read, rows, codes, names, form, context)
        # the corpus was read three times, and must be the same each time
        if changed := corpus.changed(sources, everywhere=True):
            raise changed_input(changed.name)
        splits = {
            name: {
                "rows": written.splits[name],
                "files": [f"{name}.{suffix}" for suffix in form.suffixes],
            }
            for name in names.values()
        }
        manifest = {
            "command": "split",
            "corpusfit": versions()["corpusfit"],
            "given": {"data": absolute(inputs)},
            "plan": {**dataclasses.asdict(plan.split), "seed": plan.seed},
            "read": dataclasses.asdict(plan.read),
            "data": [source_as_dict(source) for source in sources],
            "splits": splits,
            "counts": written.as_dict(names.values()),
        }
        folder.finish(manifest)
    return Split(out, manifest)


def one_to_one(keys: NDArray[np.uint64]) -> NDArray[np.int8]:
    """int8 [n]: `KEPT`, or why a row is dropped, so that no text of a kept row repeats.

    Reference: Aharoni and Goldberg (2020), section 3.1: "we did not allow more than one translation
    of a given source or target sentence".
    """
    codes = np.zeros(len(keys), np.int8)
    others_of: dict[int, list[int]] = {}
    seen = [set[int]() for _ in range(keys.shape[1] - 1)]
    for i, (text, *others) in enumerate(keys.tolist()):
        if text in others_of:
            codes[i] = 1 if others_of[text] == others else 2
        elif any(other in before for other, before in zip(others, seen, strict=True)):
            codes[i] = 3
        else:
            others_of[text] = others
            for other, before in zip(others, seen, strict=True):
                before.add(other)
    return codes


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows with the same text: g groups over n rows, in random order."""

    of: NDArray[np.int64]  # int64 [n], each row's group; -1 for a row in none
    sizes: NDArray[np.int64]  # int64 [g], rows of each group

    @classmethod
    def of_keys(cls, keys: NDArray[np.uint64], kept: NDArray[np.bool_], seed: int) -> Groups:
        """Group the kept rows, bool [n], by their keys, uint64 [n]."""
        different, member, sizes = np.unique(keys[kept], return_inverse=True, return_counts=True)
        # by seed and text alone, so a growing corpus keeps most of its held-out rows
        order = np.argsort(value_keys(seed, _STREAM, different), kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        group_of = np.full(len(keys), -1, np.int64)
        group_of[kept] = rank[member]
        return cls(group_of, sizes[order])


class SampledGroups(NamedTuple):
    """The groups sampled for test and dev."""

    test: frozenset[int]
    dev: frozenset[int]


def sample_groups(
    groups: Groups, dev: int, test: int, near: Mapping[int, AbstractSet[int]], candidates: int
) -> SampledGroups | None:
    """Sample groups for test, then for dev those without a near-duplicate in test."""
    sizes = groups.sizes[:candidates].tolist()
    test_groups = _fill(sizes, test, range(len(sizes)))
    if test_groups is None:
        return None
    similar = {other for group in test_groups for other in near.get(group, ())}
    free = (g for g in range(len(sizes)) if g not in test_groups and g not in similar)
    dev_groups = _fill(sizes, dev, free)
    return None if dev_groups is None else SampledGroups(test_groups, dev_groups)


def _fill(sizes: list[int], wanted: int, groups: Iterable[int]) -> frozenset[int] | None:
    """The first groups that together have exactly `wanted` rows; None if none do."""
    chosen: list[int] = []
    for group in groups:
        if not wanted:
            break
        if sizes[group] <= wanted:  # a larger one is skipped, so sizes are exact
            chosen.append(group)
            wanted -= sizes[group]
    return None if wanted else frozenset(chosen)


@dataclass(frozen=True)
class TextsOfRows:
    """Read all texts of the rows of a shard that are asked for (int64 [k], increasing)."""

    read: ReadPlan

    def __call__(self, piece: _RowsOfShard) -> _TextsOfShard:
        shard, numbers = piece
        wanted = set(numbers.tolist())
        rows = (row for row in corpus.rows(shard, self.read) if row.row in wanted)
        texts = (texts_of(row, self.read) for row in rows)
        return shard.index, [of_row for of_row in texts if not isinstance(of_row, Reject)]


def _assign_rows(
    plan: SplitPlan, sources: list[Source], read: ReadPlan, context: Run
) -> tuple[Rows, NDArray[np.int8]]:
    """All usable rows, and int8 [n]: the code of each row's split, or why it is dropped."""
    rows = key_rows(sources, read, context, "read")
    if not len(rows):
        reasons = rows.rejected
        field = "Name the text field with `read.text_field`"
        otherwise = cures.of_reasons(reasons.counts, field, "data")
        cure = cures.of_content(sources, plan.read, reasons.counts, otherwise)
        raise EmptyInputError(f"`data` has no usable row ({reasons}). {cure}")
    if cure := rows.losses.cure(sources, plan.read):
        unused = f"{rows.rejected.counts.total():,} rows were not used: {rows.rejected}."
        context.progress.warn(f"{unused} {cure}")
    codes = np.full(len(rows), KEPT, np.int8)
    if rows.keys.shape[1] > 1:
        codes = one_to_one(rows.keys)
    kept = codes == KEPT
    groups = Groups.of_keys(rows.keys[:, 0], kept, plan.seed)
    dev, test = plan.split.wanted(int(kept.sum()))
    spare = max(_SPARE, (dev + test) // 4)
    candidates = len(groups.sizes)
    # by group: the rows of other groups that contain its text
    holders: dict[int, set[int]] = {}
    near: dict[int, set[int]] = {}
    while True:
        # near-duplicates are searched for the groups to sample and some spare ones only: a search
        # over all groups would cost far more, so retry with more spares if too many are near
        if plan.split.near:
            ends = np.cumsum(groups.sizes)
            candidates = min(len(ends), int(np.searchsorted(ends, dev + test + spare)) + 1)
            holders, near = _near(sources, read, rows, groups, candidates, context)
        sampled = sample_groups(groups, dev, test, near, candidates)
        if sampled is not None:
            break
        if candidates == len(groups.sizes):
            raise bad_setting(
                "`split.dev` and `split.test`",
                "sizes that whole groups of duplicate texts can fill",
                f"{dev:,} and {test:,}",
                "Lower one of them.",
            )
        spare *= 4
    for code, chosen in ((_DEV, sampled.dev), (_TEST, sampled.test)):
        codes[np.isin(groups.of, list(chosen))] = code
    # a row that contains texts of both is counted as a near-duplicate of test, the worse leak
    for code, chosen in ((_NEAR_TEST, sampled.test), (_NEAR_DEV, sampled.dev)):
        holding = sorted({row for group in chosen for row in holders.get(group, ())})
        at = np.array(holding, np.int64)
        codes[at[codes[at] == KEPT]] = code
    return rows, codes


def _near(
    sources: list[Source],
    read: ReadPlan,
    rows: Rows,
    groups: Groups,
    candidates: int,
    context: Run,
) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """By group, the rows of others that contain its text, and the groups near it."""
    holders: dict[int, set[int]] = defaultdict(set)
    near: dict[int, set[int]] = defaultdict(set)
    first = np.flatnonzero((groups.of >= 0) & (groups.of < candidates))
    first = first[np.unique(groups.of[first], return_index=True)[1]]
    first.sort()  # the first row of each group, in reading order
    shards = rows.shard[first]
    by_shard = {int(s): rows.place[first[shards == s]] for s in np.unique(shards)}
    pieces = (
        (shard, by_shard[shard.index])
        for shard in context.shards_of(sources, read, corpus.packed)
        if shard.index in by_shard
    )
    with context.progress.showing("read sampled texts", sum(s.size for s in sources)):
        read_texts = dict(context.map(TextsOfRows(read), pieces))
    texts = [of_row for shard in sorted(read_texts) for of_row in read_texts[shard]]
    fields = (read.text_field, *read.kept_fields())
    for name, of_field in zip(fields, zip(*texts, strict=True), strict=False):
        heldout = HeldoutIndex.of_texts(of_field)
        groups_of: dict[int, list[int]] = defaultdict(list)
        for number, row in zip(heldout.numbers(of_field).tolist(), first, strict=True):
            groups_of[number].append(int(groups.of[row]))
        leaks = find_leaks(heldout, sources, dataclasses.replace(read, text_field=name), context)
        places = rows.source * _ROWS + rows.row
        found = leaks.source * _ROWS + leaks.rows
        usable = np.isin(found, places)  # a row with one unusable text is not split
        holding = np.searchsorted(places, found[usable]).tolist()
        for row, number in zip(holding, leaks.heldout[usable].tolist(), strict=True):
            holder = int(groups.of[row])
            for group in groups_of[number]:
                if holder not in (-1, group):
                    holders[group].add(row)
                    near[group].add(holder)
                    near[holder].add(group)
    return holders, near


def _write_split(
    folder: SplitFolder,
    sources: Sequence[Source],
    read: ReadPlan,
    rows: Rows,
    codes: NDArray[np.int8],
    names: Mapping[int, str],
    form: Form,
    context: Run,
) -> Written:
    """Read the sources again and write every row to its split, or to `rejects.jsonl`."""
    # One process writes, so that each file is in the order of the input.
    written = Written()
    at = 0
    folder.remove_written()
    folder.will_write([folder.part(n, s).name for n in names.values() for s in form.suffixes])
    with contextlib.ExitStack() as stack:
        stack.enter_context(context.progress.showing("write", sum(s.size for s in sources)))
        files: dict[str, list[BinaryIO]] = {}
        for name in names.values():
            parts = [folder.part(name, suffix) for suffix in form.suffixes]
            files[name] = [stack.enter_context(writing(part)) for part in parts]
            for file in files[name] if form.header else ():
                file.write(form.header + b"\n")
        rejects = stack.enter_context(writing(folder.rejects))
        for shard in context.track(context.shards_of(sources, read)):
            for row, raw in corpus.raw_rows(shard, read):
                written.rows += 1
                texts = texts_of(row, read)
                if isinstance(texts, Reject):
                    written.rejected.add({texts.reason: 1})
                    _reject(rejects, sources[shard.source], row, texts.reason)
                    continue
                # rows come in the order in which they were hashed
                if at >= len(rows) or (rows.source[at], rows.row[at]) != (shard.source, row.row):
                    raise changed_input(sources[shard.source].name)
                code = int(codes[at])
                at += 1
                if code in _REASONS:
                    written.dropped[_REASONS[code]] += 1
                    _reject(rejects, sources[shard.source], row, _REASONS[code])
                    continue
                written.splits[names[code]] += 1
                lines = form.lines(shard.format, row, texts, raw, read)
                for file, line in zip(files[names[code]], lines, strict=True):
                    file.write(line + b"\n")
    return written


def _reject(file: BinaryIO, source: Source, row: Document | Reject, reason: object) -> None:
    line = {"source": source.name, "row": row.row, "byte": row.byte, "reason": str(reason)}
    file.write(orjson.dumps(line) + b"\n")
