"""Find held-out texts in sources, on both sides of parallel corpora, and leave them out."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Job
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Shard, Source, Texts, buffers
from corpusfit.evaluation.decontamination.finder import (
    ContaminationFinder,
    ContaminationMatches,
    HeldoutIndex,
)
from corpusfit.text import rows
from corpusfit.text.context import RunContext
from corpusfit.text.contract import SIDES
from corpusfit.text.reading import Reasons, Tally, read_shard
from corpusfit.text.same_text import folded, text_keys
from corpusfit.training.inputs import TrainingInputs

_SHOWN = 8  # excerpts of a shard
_LENGTH = 300  # bytes of an excerpt


@dataclass(frozen=True, eq=False)
class Leaks:
    """m pairs of a text and a held-out text that it contains, by shard, row and held-out text."""

    # Each takes about 30 bytes of memory, and the name of its origin.

    texts: int  # number of texts that were read
    size: int  # their size in bytes
    source: NDArray[np.int64]  # int64 [m], number of the source of the text
    rows: NDArray[np.int64]  # int64 [m], row of the text in its source
    watched: NDArray[np.int64]  # int64 [m], number of the held-out text
    containment: NDArray[np.float32]  # float32 [m], share of the held-out text's 5-grams
    keys: NDArray[np.uint64]  # uint64 [m], key of the text
    origins: list[str]  # [m], origin of the text
    excerpts: dict[int, str]  # from the match on, of a few texts, by pair
    reasons: Reasons = field(default_factory=Reasons)  # of rejected rows

    def places(self) -> NDArray[np.int64]:
        """int64 [m, 2]: source and row of the text of each pair."""
        return np.stack([self.source, self.rows], 1)

    def holders(self) -> int:
        """How many texts contain a held-out text."""
        return len(np.unique(self.places(), axis=0))


@dataclass(frozen=True)
class FindWatched(Job[Shard, tuple[int, Tally, Leaks]]):
    """Find held-out texts in the texts of a shard."""

    read: ReadPlan
    names: tuple[str, ...]
    watched: Path  # file of the held-out texts, as `HeldoutIndex.write` wrote it
    origin: str = ""  # field with a row's origin (default: the name of its source)

    def start(self) -> Callable[[Shard], tuple[int, Tally, Leaks]]:
        """Read the held-out texts."""
        finder = ContaminationFinder(HeldoutIndex.read(self.watched))

        def work(shard: Shard) -> tuple[int, Tally, Leaks]:
            documents, tally = read_shard(shard, self.read, self.names)
            matches = finder.find(documents.texts)
            # a text that contains several held-out ones is hashed once
            texts, nth = np.unique(matches.text, return_inverse=True)
            keys = text_keys([documents.texts[i].as_py() for i in texts.tolist()])
            holders = documents.row[matches.text]
            origins: dict[int, str] = {}
            if self.origin and len(holders):  # read again, with the origin as the id
                read = dataclasses.replace(self.read, id_field=self.origin)
                named = (row for row in rows(shard, read) if isinstance(row, Document))
                origins = {row.row: str(row.id) for row in named if row.id not in (None, "")}
            leaks = Leaks(
                tally.documents,
                len(buffers(documents.texts)[0]),
                np.full(len(holders), tally.source, np.int64),
                holders,
                matches.watched,
                matches.containment,
                keys[nth],
                [origins.get(row, self.names[shard.source]) for row in holders.tolist()],
                _excerpts(documents.texts, matches),
            )
            return shard.index, tally, leaks

        return work


def _excerpts(texts: Texts, matches: ContaminationMatches) -> dict[int, str]:
    """Excerpts of some matches, from the highest containment to the lowest."""
    if not len(matches):
        return {}
    fullest = np.argsort(-matches.containment, kind="stable")
    shown = np.unique(np.linspace(0, len(matches) - 1, _SHOWN).astype(np.int64))
    excerpts = {}
    for match in fullest[shown].tolist():
        text, byte = texts[int(matches.text[match])].as_py(), int(matches.byte[match])
        # the byte is of the form that was searched: the fewest characters that reach it
        ends = range(len(text))
        begin = bisect_left(ends, byte, key=lambda end: len(folded(text[:end]).encode()))
        data = text[begin : begin + _LENGTH].encode()[:_LENGTH]
        excerpts[match] = data.decode(errors="ignore")
    return excerpts


def find_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: RunContext,
    *,
    origin: str = "",
) -> Leaks:
    """Look for held-out texts in every text of some sources.

    Reference: Broder (1997), On the resemblance and containment of documents.
    """
    path = context.work / "watched.safetensors"
    watched.write(path)
    job = FindWatched(read, tuple(s.name for s in sources), path, origin)
    try:
        with context.progress.showing("look for held-out texts", sum(s.size for s in sources)):
            parts = list(context.map(job, context.shards_of(sources, read)))
    finally:
        path.unlink(missing_ok=True)
    parts.sort(key=lambda part: part[0])
    reasons = Reasons()
    for _, tally, _ in parts:
        reasons.add(tally.rejects)
    return dataclasses.replace(_joined([leaks for *_, leaks in parts]), reasons=reasons)


def find_all_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: RunContext,
    *,
    origin: str = "",
    selected_pairs: bool = False,
) -> Leaks:
    """As `find_leaks`; of pairs, on the source side and then on the target side.

    The rows of a selection of pairs have fields for the sides: their text and `translation`.
    """
    reads = [read]
    if selected_pairs:
        reads = [dataclasses.replace(read, text_field=side) for side in SIDES]
    elif corpus.is_parallel(sources):
        reads = list(read.sides())
    sides = [find_leaks(watched, sources, side, context, origin=origin) for side in reads]
    # a row is one text to train on; its size covers both sides, its key is that of the side that
    # contains the held-out text
    return dataclasses.replace(_joined(sides), texts=sides[0].texts, reasons=sides[0].reasons)


def _joined(parts: Sequence[Leaks]) -> Leaks:
    excerpts: dict[int, str] = {}
    origins: list[str] = []
    for part in parts:
        excerpts |= {len(origins) + at: text for at, text in part.excerpts.items()}
        origins += part.origins
    return Leaks(
        sum(part.texts for part in parts),
        sum(part.size for part in parts),
        np.concatenate([np.empty(0, np.int64), *(part.source for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.watched for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.containment for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        origins,
        excerpts,
    )


def find_contaminated(
    splits: Mapping[str, Sequence[str]],
    texts: TrainingInputs,
    read: ReadPlan,
    kept: Path,
    context: RunContext,
    *,
    then_task: bool = False,
    pairs: bool = False,
) -> tuple[NDArray[np.uint64], dict[str, Any]]:
    """The keys of all contaminated texts: those that contain a held-out text."""
    # a document or a segment is left out whole
    if kept.exists():
        arrays, figures = read_arrays(kept)
        return arrays["keys"], figures
    index = HeldoutIndex.of_texts(text for split in splits.values() for text in split)
    figures = {"texts": int(index.texts.max(initial=-1)) + 1}
    keys = np.empty(0, np.uint64)
    roles = {"data": (texts.data or texts.task, texts.read), "replay": (texts.replay, read)}
    if then_task:
        roles["task"] = texts.then or texts.task, texts.task_read
    for role, (sources, how) in roles.items():
        if not sources:
            continue
        run = context.at(kept.parent)
        if pairs:
            selected = not corpus.is_parallel(sources)  # the rows of a selection
            leaks = find_all_leaks(index, sources, how, run, selected_pairs=selected)
        else:
            leaks = find_leaks(index, sources, how, run)
        held, holders = len(np.unique(leaks.watched)), leaks.holders()
        figures[role] = {"texts": leaks.texts, "holders": holders, "held": held}
        keys = np.union1d(keys, leaks.keys)
        if holders:
            context.progress.warn(
                f"{held:,} of {figures['texts']:,} different texts of `guard` are in `{role}`: "
                f"{holders:,} of {leaks.texts:,} texts contain one and are left out."
            )
        else:
            context.progress.note(
                f"None of {figures['texts']:,} different texts of `guard` is in `{role}` "
                f"({leaks.texts:,} texts)."
            )
    write_arrays(kept, {"keys": keys}, figures)
    return keys, figures
