"""The command `split`: divide a corpus into train, dev and test with no text in two of them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

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
from corpusfit.core.types import Document, Reject, Source
from corpusfit.evaluation.decontamination.finder import HeldoutIndex
from corpusfit.evaluation.decontamination.report import find_leaks
from corpusfit.evaluation.overlap import (
    KEPT,
    REASONS,
    Drawn,
    Groups,
    Rows,
    SplitFolder,
    TextsOfRows,
    draw,
    key_rows,
    one_to_one,
    overlaps_in,
    split_input,
)
from corpusfit.evaluation.plan import SplitPlan
from corpusfit.text import cures
from corpusfit.text.context import Machine, RunContext, absolute
from corpusfit.text.reading import Reasons
from corpusfit.text.same_text import FORM

_LINE_ENDS = re.compile(r"[\r\n]+")
_DEV, _TEST, _NEAR_DEV, _NEAR_TEST = 10, 11, 12, 13
_NAMES = {KEPT: "train", _DEV: "dev", _TEST: "test"}
_REASONS = {
    **REASONS,
    _NEAR_DEV: "contains a near-duplicate of a dev text",
    _NEAR_TEST: "contains a near-duplicate of a test text",
}
_SPARE = 100  # Least number of spare groups to draw from: dev must not hold near-duplicates of test


@dataclass(frozen=True)
class Form:
    """How rows are written."""

    suffixes: tuple[str, ...]  # suffixes of a split's files: two for line-aligned files, else one
    header: bytes = b""  # the first line of each file; empty for none
    raw: frozenset[str] = frozenset()  # names of the formats whose rows are written unchanged
    pair: bool = False  # whether the files hold aligned pairs
    columns: str = ""  # the two columns of a TSV of pairs with a header, joined by a comma

    def lines(self, form: str, row: Document, raw: bytes, read: ReadPlan) -> tuple[bytes, ...]:
        """The lines of a row, one per file, from its format and its bytes."""
        if form in self.raw:
            return (raw,)
        if self.pair:
            sides = (row.text, str(row.translation))
            return tuple(_LINE_ENDS.sub(" ", side).encode() for side in sides)
        record: dict[str, Any] = {read.text_field: row.text}
        if row.id is not None:
            record[read.id_field] = row.id
        return (orjson.dumps(record),)


def form_of(sources: Sequence[Source], read: ReadPlan) -> Form:
    """The form to write rows of some sources in."""
    # Rows of one format with one header unchanged, if a file can hold them; other pairs as two
    # aligned files, anything else as JSON lines: unchanged where it is that, or of text and id.
    formats = {source.format: corpus.load_format(source.format) for source in sources}
    heads = {(formats[s.format].header(s, read), s.translation) for s in sources}
    if len(formats) == len(heads) == 1:
        ((name, form),), ((header, columns),) = formats.items(), heads
        if form.written:
            return Form((form.written,), header, frozenset({name}), form.parallel, columns)
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


class Split(Finished):
    """A finished split; its manifest has `counts`, `splits` with their files, and `overlaps`."""


def split(
    plan: SplitPlan, inputs: Sequence[str], out: Path, *, machine: Machine, overwrite: bool = False
) -> Split:
    """Split a corpus, or aligned pairs, into train, dev and test.

    Copies of a text stay in one split. Of pairs that translate a sentence twice, all but the first
    are dropped. The text is read three times; with `near` twice more for each side of pairs.

    Reference: Aharoni and Goldberg (2020), section 3.1 and Tables 3 and 8; Broder (1997) for
    near-duplicates; Koehn and Knowles (2017), whose medical dev set is mostly in their train set.
    """
    plan = plan.check()
    folder = SplitFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running() as context:
        sources = context.at(folder.work).find(inputs, plan.read, "data")
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
        drawing = _Drawing(plan, sources, context)
        rows, codes = drawing.codes()
        form = form_of(sources, plan.read)
        written = _write_split(folder, sources, plan.read, rows, codes, names, form, context)
        # the corpus was read three times, and must be the same each time
        for source in sources:
            if corpus.content(source) != source.fingerprint:
                raise changed_input(source.name)
        splits = {
            name: {
                "rows": written.splits[name],
                "files": [f"{name}.{suffix}" for suffix in form.suffixes],
                "pair": form.pair,
                "columns": form.columns,
            }
            for name in names.values()
        }
        places = {name: [split_input(out, entry)] for name, entry in splits.items()}
        near = plan.split.near
        table = overlaps_in(out.absolute().name, places, plan.read, context, near=near)
        manifest = {
            "command": "split",
            "corpusfit": versions()["corpusfit"],
            "given": {"data": absolute(inputs)},
            "plan": {**dataclasses.asdict(plan.split), "seed": plan.seed},
            "read": dataclasses.asdict(plan.read),
            "data": [source_as_dict(source) for source in sources],
            "splits": splits,
            "counts": {
                "rows": written.rows,
                **{name: written.splits[name] for name in names.values()},
                "rejected": written.rejected.counts.total(),
                "dropped": written.dropped.total(),
                "reasons": {
                    **dict(written.rejected.counts.most_common()),
                    **dict(written.dropped.most_common()),
                },
            },
            "overlaps": [dataclasses.asdict(overlap) for overlap in table],
        }
        folder.finish(manifest)
    return Split(out, manifest)


@dataclass(frozen=True)
class _Drawing:
    plan: SplitPlan
    sources: list[Source]
    context: RunContext

    def codes(self) -> tuple[Rows, NDArray[np.int8]]:
        """All usable rows, and int8 [n]: each row's split, or the reason why it is dropped."""
        rows = key_rows(self.sources, self.plan.read, self.context, "read")
        if not len(rows):
            reasons, field = rows.rejected, "Name the text field with `read.text_field`"
            otherwise = cures.of_reasons(reasons.counts, field, "data")
            cure = cures.of_content(self.sources, self.plan.read, reasons.counts, otherwise)
            raise EmptyInputError(f"`data` has no usable row ({reasons}). {cure}")
        if cure := rows.losses.cure(self.sources, self.plan.read):
            unused = f"{rows.rejected.counts.total():,} rows were not used: {rows.rejected}."
            self.context.progress.warn(f"{unused} {cure}")
        codes = np.full(len(rows), KEPT, np.int8)
        if corpus.is_parallel(self.sources):
            codes = one_to_one(rows.keys)
        kept = codes == KEPT
        groups = Groups.of_keys(rows.keys[:, 0], kept, self.plan.seed)
        drawn, holders = self._drawn(rows, groups, *self.plan.split.wanted(int(kept.sum())))
        for code, chosen in ((_DEV, drawn.dev), (_TEST, drawn.test)):
            codes[np.isin(groups.of, list(chosen))] = code
        # what contains a text of test is worse in train than what contains one of dev
        for code, chosen in ((_NEAR_TEST, drawn.test), (_NEAR_DEV, drawn.dev)):
            holding = sorted({row for group in chosen for row in holders.get(group, ())})
            at = np.array(holding, np.int64)
            codes[at[codes[at] == KEPT]] = code
        return rows, codes

    def _drawn(
        self, rows: Rows, groups: Groups, dev: int, test: int
    ) -> tuple[Drawn, dict[int, set[int]]]:
        """Draw dev and test; by group, the rows of others that contain a near-duplicate of it."""
        spare = max(_SPARE, (dev + test) // 4)
        most = candidates = len(groups.sizes)
        holders: dict[int, set[int]] = {}
        near: dict[int, set[int]] = {}
        while True:
            if self.plan.split.near:  # of the groups wanted and some spare ones
                ends = np.cumsum(groups.sizes)
                candidates = min(most, int(np.searchsorted(ends, dev + test + spare)) + 1)
                holders, near = self._near(rows, groups, candidates)
            drawn = draw(groups, dev, test, near, candidates)
            if drawn is not None:
                return drawn, holders
            if candidates == most:
                raise bad_setting(
                    "`split.dev` and `split.test`",
                    "sizes that whole groups of duplicate texts can fill",
                    f"{dev:,} and {test:,}",
                    "Lower one of them.",
                )
            spare *= 4

    def _near(
        self, rows: Rows, groups: Groups, candidates: int
    ) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """By group, the rows of others that contain its text, and the groups near it."""
        holders: dict[int, set[int]] = defaultdict(set)
        near: dict[int, set[int]] = defaultdict(set)
        first = np.flatnonzero((groups.of >= 0) & (groups.of < candidates))
        first = first[np.unique(groups.of[first], return_index=True)[1]]
        first.sort()  # one row of each group, in reading order
        shards = rows.shard[first]
        by_shard = {int(s): rows.row[first[shards == s]] for s in np.unique(shards)}
        read = self.plan.read
        pieces = (
            (shard, by_shard[shard.index])
            for shard in self.context.shards_of(self.sources, read)
            if shard.index in by_shard
        )
        with self.context.progress.showing("read drawn texts", sum(s.size for s in self.sources)):
            read_texts = dict(self.context.map(TextsOfRows(read), pieces))
        texts = [sides for shard in sorted(read_texts) for sides in read_texts[shard]]
        for side, of_side in enumerate(zip(*texts, strict=True)):
            watched = HeldoutIndex.of_texts(of_side)
            groups_of: dict[int, list[int]] = defaultdict(list)
            for number, row in zip(watched.numbers(of_side).tolist(), first, strict=True):
                groups_of[number].append(int(groups.of[row]))
            leaks = find_leaks(watched, self.sources, read.sides()[side], self.context)
            holding = rows.at(leaks.places()).tolist()
            for row, number in zip(holding, leaks.watched.tolist(), strict=True):
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
    context: RunContext,
) -> Written:
    """Read the sources again and write every row to its split, or to `rejects.jsonl`."""
    # One process writes, so that each file is in the order of the input.
    written, at = Written(), 0
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
        for shard in context.here(context.shards_of(sources, read)):
            for row, raw in corpus.raw_rows(shard, read):
                written.rows += 1
                if isinstance(row, Reject):
                    written.rejected.add([(row.row, row.byte, row.reason)])
                    _reject(rejects, sources[shard.source], row, row.reason)
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
                lines = form.lines(shard.format, row, raw, read)
                for file, line in zip(files[names[code]], lines, strict=True):
                    file.write(line + b"\n")
    return written


def _reject(file: BinaryIO, source: Source, row: Document | Reject, reason: str) -> None:
    line = {"source": source.name, "row": row.row, "byte": row.byte, "reason": reason}
    file.write(orjson.dumps(line) + b"\n")
