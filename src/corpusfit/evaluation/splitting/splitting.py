"""The command `split`: splits a corpus into train, dev and test with no text in two of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, bad_setting, changed_input
from corpusfit.core.lock import locked
from corpusfit.core.manifest import Finished, source_as_dict, source_identity, versions
from corpusfit.core.room import warn_without_room
from corpusfit.core.types import Source
from corpusfit.evaluation.contamination.finder import HeldoutIndex
from corpusfit.evaluation.contamination.match import find_leaks
from corpusfit.evaluation.holdout import KEPT, REASONS, Drawn, Groups, draw, one_to_one
from corpusfit.evaluation.splitting.folder import SplitFolder
from corpusfit.evaluation.splitting.overlap import overlaps_in, split_input
from corpusfit.evaluation.splitting.plan import SplitPlan
from corpusfit.evaluation.splitting.text_keys import Rows, key_rows
from corpusfit.evaluation.splitting.text_keys_job import TextsOfRows
from corpusfit.evaluation.splitting.writers import Written, form_of, write_split
from corpusfit.text import cures
from corpusfit.text.context import Machine, RunContext
from corpusfit.text.reproduce import absolute
from corpusfit.text.same_text import FORM

_DEV, _TEST, _NEAR_DEV, _NEAR_TEST = 10, 11, 12, 13
_NAMES = {KEPT: "train", _DEV: "dev", _TEST: "test"}
_REASONS = {
    **REASONS,
    _NEAR_DEV: "contains a near-duplicate of a dev text",
    _NEAR_TEST: "contains a near-duplicate of a test text",
}
_SPARE = 100
"""Least number of spare groups to draw from: dev must not hold near-duplicates of test."""


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
        folder.begin(_identity(plan, sources), overwrite=overwrite)
        done = folder.finished()
        if done is not None:
            return Split(out, done)
        warn_without_room(folder, sum(source.size for source in sources), context.progress)
        task = _Task(plan, sources, context)
        rows, side = task.sides()
        written = write_split(
            folder, sources, plan.read, rows, side, task.names(), _REASONS, context
        )
        for source in sources:
            if corpus.content(source) != source.fingerprint:
                raise changed_input(source.name)
        manifest = _manifest(plan, inputs, sources, written, task.names())
        places = {name: [split_input(out, found)] for name, found in manifest["splits"].items()}
        found = overlaps_in(out.absolute().name, places, plan.read, context, near=plan.split.near)
        manifest["overlaps"] = [dataclasses.asdict(one) for one in found]
        folder.finish(manifest)
    return Split(out, manifest)


@dataclass(frozen=True)
class _Task:
    plan: SplitPlan
    sources: list[Source]
    context: RunContext

    def names(self) -> dict[int, str]:
        """The names of the splits to write, by code."""
        wanted = {"train": 1.0, "dev": self.plan.split.dev, "test": self.plan.split.test}
        return {code: name for code, name in _NAMES.items() if wanted[name]}

    def sides(self) -> tuple[Rows, NDArray[np.int8]]:
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
        side = np.full(len(rows), KEPT, np.int8)
        if corpus.is_parallel(self.sources):
            side = one_to_one(rows.keys)
        groups = Groups.of_keys(rows.keys[:, 0], side == KEPT, self.plan.seed)
        dev, test = self.plan.split.wanted(int((side == KEPT).sum()))
        drawn, holders = self._drawn(rows, groups, dev, test)
        for code, chosen in ((_DEV, drawn.dev), (_TEST, drawn.test)):
            side[np.isin(groups.of, list(chosen))] = code
        for code, chosen in ((_NEAR_TEST, drawn.test), (_NEAR_DEV, drawn.dev)):
            holding = sorted({row for group in chosen for row in holders.get(group, ())})
            at = np.array(holding, np.int64)
            side[at[side[at] == KEPT]] = code
        return rows, side

    def _drawn(
        self, rows: Rows, groups: Groups, dev: int, test: int
    ) -> tuple[Drawn, dict[int, set[int]]]:
        """Draw dev and test; by group, the rows of others that contain a near-duplicate of it.

        Near-duplicates are searched for the groups wanted and some spare ones; for more spare ones
        if these are too few.
        """
        spare = max(_SPARE, (dev + test) // 4)
        most = len(groups.sizes)
        while True:
            ends = np.cumsum(groups.sizes)
            candidates = min(most, int(np.searchsorted(ends, dev + test + spare)) + 1)
            candidates = candidates if self.plan.split.near else most
            holders, near = (
                self._near(rows, groups, candidates) if self.plan.split.near else ({}, {})
            )
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
        texts = self._texts(rows, first)
        for side, of_side in enumerate(zip(*texts, strict=True)):
            watched = HeldoutIndex.of_texts(of_side)
            groups_of: dict[int, list[int]] = defaultdict(list)
            for number, row in zip(watched.numbers(of_side).tolist(), first, strict=True):
                groups_of[number].append(int(groups.of[row]))
            read = self.plan.read.sides()[side]
            leaks = find_leaks(watched, self.sources, read, self.context)
            holding = rows.at(leaks.places()).tolist()
            for row, number in zip(holding, leaks.watched.tolist(), strict=True):
                holder = int(groups.of[row])
                for group in groups_of[number]:
                    if holder not in (-1, group):
                        holders[group].add(row)
                        near[group].add(holder)
                        near[holder].add(group)
        return holders, near

    def _texts(self, rows: Rows, wanted: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """The texts of some rows (int64 [k], increasing) with all their sides."""
        shards = rows.shard[wanted]
        by_shard = {int(s): rows.row[wanted[shards == s]] for s in np.unique(shards)}
        pieces = (
            (shard, by_shard[shard.index])
            for shard in self.context.shards_of(self.sources, self.plan.read)
            if shard.index in by_shard
        )
        with self.context.progress.showing("read drawn texts", sum(s.size for s in self.sources)):
            found = dict(self.context.map(TextsOfRows(self.plan.read), pieces))
        return [texts for shard in sorted(found) for texts in found[shard]]


def _identity(plan: SplitPlan, sources: Sequence[Source]) -> dict[str, Any]:
    read = plan.read.identity()
    return {
        "command": "split",
        **dataclasses.asdict(plan.split),
        "seed": plan.seed,
        "same_text": FORM,
        "read": read,
        "data": source_identity(sources),
        "versions": {"corpusfit": versions()["corpusfit"]},
    }


def _manifest(
    plan: SplitPlan,
    inputs: Sequence[str],
    sources: Sequence[Source],
    written: Written,
    names: dict[int, str],
) -> dict[str, Any]:
    form = form_of(sources, plan.read)
    splits = {
        name: {
            "rows": written.splits[name],
            "files": [f"{name}.{suffix}" for suffix in form.suffixes],
            "pair": form.pair,
            "columns": form.columns,
        }
        for name in names.values()
    }
    return {
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
    }
