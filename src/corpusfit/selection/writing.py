"""Selects from stored scores and writes the selected text."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import is_local, names_in, remove, write_arrays, write_bytes, writing
from corpusfit.core.engine import Job
from corpusfit.core.errors import changed_input
from corpusfit.core.plan import OF_A_TEXT, PAIR, ChoosePlan, ReadPlan
from corpusfit.core.types import Document, Shard, Source, file_of, in_file
from corpusfit.scoring import table
from corpusfit.scoring.table import grouped, source_groups
from corpusfit.selection.balance import Balance, Groups, balance
from corpusfit.selection.choosing import Decision, choose
from corpusfit.selection.copies import Copies
from corpusfit.selection.examples import draw_examples, example_path, write_examples
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder, read_tallies, runs_of_parts
from corpusfit.selection.gathering import (
    gather,
    marked_path,
    over_runs,
    read_gathered,
)
from corpusfit.selection.merging import (
    merge_pieces,
    plan_parts,
    selected_path,
    sizes_of_pieces,
    stored_parts,
    write_piece,
)
from corpusfit.selection.resolved import Resolved
from corpusfit.selection.result import read_selected
from corpusfit.selection.samples import least_pieces
from corpusfit.selection.spread import spread_of, write_spread
from corpusfit.text import rows
from corpusfit.text.context import Run
from corpusfit.text.cutting import MIB
from corpusfit.text.reading import Tally


@dataclass
class Chosen:
    """The selection: counts, the lowest selected score, and composition by source and cluster.

    `of_tokens` are the word pieces of all candidates, `rows` the texts that neighboring segments
    are joined to. If the best are taken, documents of fewer than `least` word pieces, `short` of
    them, come after all others. Of `tied` segments with the lowest selected score, `drawn` are
    selected, by chance.
    With quotas, `quota` has each cluster's wanted share of the selection, `by_cluster` the counts
    of its segments (by their main cluster) and of those selected; `groups` has the names if the
    groups are no clusters. `copies` has the numbers of
    documents left out as copies, by kind, and of `repeats` among the segments of the others; with
    these, `segments` is the number of all segments left out. None if all were kept.
    """

    segments: int = 0
    rows: int = 0
    tokens: int = 0
    of_tokens: int = 0
    least: int = 0
    short: int = 0
    tied: int = 0
    drawn: int = 0
    threshold: float | None = None
    by_source: dict[str, dict[str, int]] = field(default_factory=dict)
    quota: list[float] | None = None
    by_cluster: list[dict[str, int]] = field(default_factory=list)
    groups: list[str] | None = None
    copies: dict[str, int] | None = None
    parts: list[int] = field(default_factory=list)

    def add(self, more: Chosen) -> None:
        """Add the counts of further parts."""
        self.segments += more.segments
        self.rows += more.rows
        self.tokens += more.tokens
        self.of_tokens += more.of_tokens
        self.short += more.short
        self.tied += more.tied
        self.drawn += more.drawn
        if self.copies is not None and more.copies is not None:
            self.copies["segments"] += more.copies["segments"]
        self.parts += more.parts
        lowest = [t for t in (self.threshold, more.threshold) if t is not None]
        self.threshold = min(lowest, default=None)
        for source, counts in more.by_source.items():
            _add(self.by_source.setdefault(source, {}), counts)
        if more.by_cluster:
            for own, counts in zip(self.by_cluster, more.by_cluster, strict=True):
                _add(own, counts)


def _add(sums: dict[str, int], counts: dict[str, int]) -> None:
    for name, count in counts.items():
        sums[name] = sums.get(name, 0) + count


def choose_segments(
    run: Run, resolved: Resolved, folder: SelectionFolder, copies: Copies
) -> Chosen:
    """Select, and write the columns `weight`, `selected` and `copy` beside the scores."""
    plan = resolved.plan.choose
    method = resolved.method
    by = balance(run, resolved, folder, copies)
    chosen = Chosen(quota=None if by is None else np.round(by.quota, 6).tolist())
    # one of aligned pairs is a sentence, however short
    pairs = corpus.is_parallel(resolved.corpus.sources)
    if plan.policy == "top" and not method.ignores_target and not pairs:
        chosen.least = least_pieces(Sample(folder.fit, "target"))
    if by is not None:
        chosen.by_cluster = [_nothing() for _ in by.quota]
    if isinstance(by, Groups):
        chosen.groups = list(by.names)
    if plan.dedup != "none":
        chosen.copies = {**copies.counts, "segments": 0}
    runs = runs_of_parts(folder, run.shard_count)
    with run.stage("choose", len(runs)):
        begin = partial(gather, folder.scores, folder.gathered, copies, by, chosen.least)
        for _ in run.engine.map(begin, runs):
            pass
        weighted_by = by if plan.policy != "top" else None
        decision = choose(
            over_runs(run, folder.gathered, runs, weighted_by),
            plan,
            seed=resolved.plan.seed,
            log_weights=method.log_weights,
            quota=by.quota if by is not None else None,
        )
        job = WriteChoice(
            folder.scores,
            folder.gathered,
            folder.scored,
            resolved.corpus.names,
            weighted_by,
            0 if by is None else len(by.quota),
            joins(plan),
        )
        pieces = [(i, parts, decision.of_run(i)) for i, parts in enumerate(runs)]
        written: dict[int, Chosen] = {}
        for number, of_run in run.engine.map(job, pieces):
            written[number] = of_run
            run.progress.advance(1)
    for number in range(len(runs)):
        chosen.add(written[number])
    _warn_of_quotas(run, plan, chosen)
    return chosen


def _warn_of_quotas(run: Run, plan: ChoosePlan, chosen: Chosen) -> None:
    """Say which groups have less text than the share that was asked of them by name."""
    for name, share in plan.quota_shares().items():
        found = chosen.by_cluster[(chosen.groups or []).index(name)]
        of = "selected" if plan.counts_segments else "tokens"
        has = "segments" if plan.counts_segments else "of_tokens"
        total = chosen.segments if plan.counts_segments else chosen.tokens
        if found[of] == found[has] and found[of] < share * total:
            run.warn(
                f"All of {name} is selected, which is {100 * found[of] / total:.1f} % of the "
                f"selection, not the {100 * share:g} % that were asked: it has no more text."
            )
    if plan.policy == "top" and plan.quota_shares():
        counts = list(zip(chosen.quota or [], chosen.by_cluster, strict=True))
        left = {bool(share) for share, c in counts if c["selected"] < c["segments"]}
        if left == {False}:
            run.warn("All text of the groups with a share is selected; of 0 % there is none.")


@dataclass(frozen=True)
class WriteChoice(Job[tuple[int, tuple[int, ...], Decision], tuple[int, Chosen]]):
    """Write what is decided of a run of parts, and count it."""

    scores: Path
    gathered: Path
    marks: Path
    names: tuple[str, ...]
    weighted_by: Balance | None  # of continuous weights
    clusters: int  # of a balance; 0 without one
    joined: bool  # whether neighboring segments are joined

    def start(self) -> Callable[[tuple[int, tuple[int, ...], Decision]], tuple[int, Chosen]]:
        """Group the sources once."""
        return partial(self._write, source_groups(self.names))

    def _write(
        self, group_of: Callable[[str], str], piece: tuple[int, tuple[int, ...], Decision]
    ) -> tuple[int, Chosen]:
        number, parts, decision = piece
        chosen = Chosen()
        copied = 0
        chosen.by_cluster = [_nothing() for _ in range(self.clusters)]
        gathered = list(read_gathered(self.gathered, parts))
        marked = [np.empty(0, np.bool_)]
        without_copies = (part.without_copies(self.weighted_by) for part in gathered)
        for choice, part in zip(decision.choices(0, without_copies), gathered, strict=True):
            # the decision is of the segments without copies; copies get weight 0
            copy = part.copy
            weight = np.zeros(len(copy), np.float32)
            selected = np.zeros(len(copy), np.bool_)
            weight[~copy] = choice.weight
            selected[~copy] = choice.selected
            path = table.part_path(self.scores, part.index)
            stored = table.rewrite(path, weight=weight, selected=selected, copy=copy)

            # the sources, or groups of them, that the segments are of
            if len(copy):
                groups, group_numbers = grouped(*table.sources_of(stored), group_of)
            else:  # a source without segments counts too
                (tally,) = read_tallies(self.marks, [part.index])
                of_one = tally.sources(self.names) if tally.files == 1 else ()
                groups = [group_of(name) for name in of_one]
                group_numbers = np.zeros(0, np.int64)
            by_group = [chosen.by_source.setdefault(group, _nothing()) for group in groups]
            marked.append(selected)
            candidates = part.tokens * ~copy  # a copy is none
            _count(by_group, group_numbers, candidates, selected)
            if part.groups is not None:
                _count(chosen.by_cluster, part.groups, candidates, selected)
            chosen.of_tokens += int(candidates.sum())
            chosen.short += int((part.short & ~copy).sum())
            chosen.tied += choice.tied
            chosen.drawn += choice.drawn
            copied += int(copy.sum())
            if selected.any():
                chosen.parts.append(part.index)
                chosen.segments += int(selected.sum())
                segment = stored.column("segment").to_numpy()
                chosen.rows += len(_firsts(np.flatnonzero(selected), segment, self.joined))
                chosen.tokens += int(part.tokens[selected].sum())
                lowest = float(part.scores[selected].min())
                if chosen.threshold is None or lowest < chosen.threshold:
                    chosen.threshold = lowest
        arrays = {"selected": np.concatenate(marked)}
        write_arrays(marked_path(self.gathered, parts), arrays, {})
        chosen.copies = {"segments": copied}
        return number, chosen


def joins(plan: ChoosePlan) -> bool:
    """Whether neighboring segments of a document are one text of `selected/`."""
    # `continuous` selects every segment, and what it says is each one's weight
    return plan.policy != "continuous"


def _firsts(taken: NDArray[np.int64], segment: NDArray[Any], joined: bool) -> NDArray[np.int64]:
    """Where each text begins among k segments by their places, [k], of m with their numbers."""
    if not joined:
        return np.arange(len(taken))
    apart = np.diff(taken, prepend=-2) != 1
    return np.flatnonzero(apart | (np.diff(segment[taken], prepend=-2) != 1))


def _nothing() -> dict[str, int]:
    return {"segments": 0, "of_tokens": 0, "selected": 0, "tokens": 0}


def _count(
    counters: Sequence[dict[str, int]],
    counter_of: NDArray[np.int64],
    tokens: NDArray[np.int64],
    selected: NDArray[np.bool_],
) -> None:
    """Add m segments, each to its counter, `counter_of` [m]."""
    k = len(counters)
    segments = np.bincount(counter_of, minlength=k)
    words = np.bincount(counter_of, tokens, minlength=k)
    chosen = np.bincount(counter_of[selected], minlength=k)
    pieces = np.bincount(counter_of[selected], tokens[selected], minlength=k)
    for number, counter in enumerate(counters):
        counter["segments"] += int(segments[number])
        counter["of_tokens"] += int(words[number])
        counter["selected"] += int(chosen[number])
        counter["tokens"] += int(pieces[number])


_NOTABLE = 0.01
"""Share of the selection that was sampled among equal scores from which a warning says so."""


def warn_of_amount(run: Run, choose: ChoosePlan, chosen: Chosen, segments: int) -> None:
    """Warn if the amount exceeds all segments, is too small for any, or ends among equal scores."""
    segments -= (chosen.copies or {"segments": 0})["segments"]
    more_than_all = (choose.segments or 0) > segments or (choose.tokens or 0) > chosen.tokens
    if chosen.segments == segments and more_than_all:
        run.warn(f"The amount is larger than the corpus: all {segments:,} segments are selected.")
    elif choose.tokens and 0 < chosen.tokens < 0.9 * choose.tokens:
        run.warn(
            f"The next best segment does not fit: {chosen.tokens:,} of {choose.tokens:,} word "
            "pieces are selected. To include it, raise `choose.tokens`, or set `choose.fraction`, "
            "which may exceed its amount."
        )
    if chosen.drawn >= max(1, _NOTABLE * chosen.segments):
        run.warn(
            f"{chosen.tied:,} segments tie at the lowest selected score, of which "
            f"{chosen.drawn:,} are selected at random. Scores have about seven digits."
        )
    if not chosen.segments:
        more = "lower `choose.threshold`"
        if choose.threshold is None:
            amounts = (n for n in ("segments", "tokens") if getattr(choose, n) is not None)
            more = f"higher `choose.{next(amounts, 'fraction')}`"
        run.warn(
            f"Nothing was selected: the best segment does not fit the amount. Run `corpusfit "
            f"choose` with a {more}."
        )


def write_selected(run: Run, resolved: Resolved, folder: SelectionFolder, chosen: Chosen) -> None:
    """Write the selected text and the examples; removes those of an earlier selection."""
    choose = resolved.plan.choose
    mark = folder.work / "chosen.json"
    part_bytes = choose.part_mb * MIB
    choice = {**asdict(choose), "clusters": resolved.clusters, "part": part_bytes}
    wanted = json.dumps(choice, sort_keys=True).encode()
    if not mark.exists() or mark.read_bytes() != wanted:
        remove(folder.parts, folder.pieces)
        remove(folder.selected, folder.example_texts, folder.examples)
        write_bytes(mark, wanted)
    if is_local(folder.selected):
        folder.selected.mkdir(exist_ok=True)
    segments = sum(counts["segments"] for counts in chosen.by_source.values())
    runs = runs_of_parts(folder)
    examples, sample = draw_examples(run, resolved.plan.seed, folder.gathered, runs, segments)
    write_spread(folder.spread, spread_of(sample))
    remove(folder.gathered)

    # the selected text and the examples of each shard, unless they are written, or merged
    parts = stored_parts(folder.parts, chosen.parts)
    merged = names_in(folder.selected)
    read = names_in(folder.example_texts)
    missing = set(chosen.parts)
    for number, shards in enumerate(parts or []):
        if selected_path(folder.selected, number).name in merged:
            missing -= set(shards)
    sizes = sizes_of_pieces(folder.pieces)
    missing -= sizes.keys()
    missing |= {
        i for i in examples.places if example_path(folder.example_texts, i).name not in read
    }
    if missing:
        texts = resolved.corpus
        keeping = replace(texts, read=texts.read.keeping(choose.kept_fields()))
        job = WriteSelected(
            keeping.read,
            texts.names,
            folder.scores,
            folder.pieces,
            folder.example_texts,
            examples.places,
            joins(choose),
        )
        sizes.update(run.over_shards("write", keeping, job, lambda shard: shard not in missing))

    # Which shards a part has follows from their sizes alone. It is stored before the first part is
    # written, as the pieces of a part are removed with it.
    if parts is None:
        parts = plan_parts(((shard, sizes[shard]) for shard in chosen.parts), part_bytes)
        write_bytes(folder.parts, orjson.dumps(parts))
    pieces = [
        (number, [(shard, sizes[shard]) for shard in shards])
        for number, shards in enumerate(parts)
        if selected_path(folder.selected, number).name not in merged
    ]
    if pieces:
        for _ in run.over("merge", partial(merge_pieces, folder.pieces, folder.selected), pieces):
            pass
    remove(folder.pieces)
    if not folder.examples.exists():
        write_examples(folder, examples)


_COLUMNS = ("row", "segment", "start", "end", "score", "weight", "selected", "tokens")


@dataclass(frozen=True)
class WriteSelected:
    """Read a shard again and write its selected segments; returns its number and their bytes."""

    read: ReadPlan
    names: tuple[str, ...]
    scores: Path
    pieces: Path
    example_texts: Path
    # places of the example segments in the stored scores, by shard
    places: dict[int, tuple[int, ...]]
    joined: bool  # whether neighboring segments are joined

    def __call__(self, shard: Shard) -> tuple[int, int]:
        path = table.part_path(self.scores, shard.index)
        columns = dict(zip(_COLUMNS, table.read_columns(path, *_COLUMNS), strict=True))
        names = Tally.of(shard).sources(self.names)
        columns["row"] = table.rows_in_shard(path, names, np.asarray(columns["row"], np.int64))
        places = np.array(self.places.get(shard.index, ()), np.int64)
        taken = np.flatnonzero(columns["selected"])
        files = set(file_of(columns["row"][np.concatenate([places, taken])]).tolist())
        read = rows(shard, self.read, files)
        documents = {d.row: d for d in read if isinstance(d, Document)}
        if len(places):
            at_places = {name: column[places] for name, column in columns.items()}
            lines = self._lines(shard, documents, at_places, ("selected",))
            write_bytes(example_path(self.example_texts, shard.index), b"\n".join(lines))
        selected = b""
        if len(taken):
            texts = _joined(columns, taken, _firsts(taken, columns["segment"], self.joined))
            lines = self._lines(shard, documents, texts, ("weight", "segments"), whole=True)
            selected = b"\n".join(lines) + b"\n"
            write_piece(self.pieces, shard.index, selected)
        return shard.index, len(selected)

    def _lines(
        self,
        shard: Shard,
        documents: dict[int, Document],
        columns: dict[str, NDArray[Any]],
        more: tuple[str, ...],
        *,
        whole: bool = False,
    ) -> list[bytes]:
        """JSON lines of some texts, by their columns, with text and provenance."""
        # With `whole`, with all fields of the row that its document carries; of pairs always.
        lines = []
        pairs = corpus.load_format(shard.format).parallel
        kept = self.read.kept_fields()
        taken = columns.values()
        # reading an array number by number is slow, but a float32 becomes other digits in a list
        by_text = zip(*(c.tolist() if c.dtype.kind == "i" else c for c in taken), strict=True)
        for numbers in by_text:
            values = dict(zip(columns, numbers, strict=True))
            document = documents.get(values["row"])
            source = self.names[shard.source + file_of(values["row"])]
            if document is None or values["end"] > len(document.text):
                raise changed_input(source, "`overwrite`")
            values["row"] = in_file(values["row"])
            carried = dict(document.fields or {})
            for name in kept:  # a row of plain text has none
                carried.setdefault(name)
            line = {
                "text": document.text[values["start"] : values["end"]],
                **({PAIR[1]: carried.pop(PAIR[1])} if pairs else {}),
                "source": source,
                **{name: values[name] for name in ("row", "segment", "score", *more)},
                "id": document.id,
            }
            for name, value in carried.items() if whole else ():
                line[f"row_{name}" if name in OF_A_TEXT else name] = value
            lines.append(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY))
        return lines


def _joined(
    columns: dict[str, NDArray[Any]], taken: NDArray[np.int64], first: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """The columns of the texts of segments by their places, [k], each from `first` to the next.

    Their scores and weights are means over the segments' word pieces.
    """
    counts = np.diff(np.append(first, len(taken)))
    texts = {name: column[taken[first]] for name, column in columns.items()}
    texts |= {"end": columns["end"][taken[first + counts - 1]], "segments": counts}
    if len(first) < len(taken):
        pieces = np.maximum(columns["tokens"][taken], 1).astype(np.float64)
        for name in ("score", "weight"):
            sums = np.add.reduceat(columns[name][taken] * pieces, first)
            texts[name] = (sums / np.add.reduceat(pieces, first)).astype(np.float32)
    return texts


_LINE_ENDS = re.compile(r"[\r\n]+")


def _write_texts(selected: Path, pieces: Path, names: tuple[str, str], number: int) -> None:
    """Write the two texts of a part of `selected/` as line-aligned pieces."""
    first, second = (_piece_path(pieces, name, number) for name in names)
    with writing(first, synced=False) as text, writing(second, synced=False) as translation:
        for row in read_selected(selected_path(selected, number)):
            # a line end within a text, which only the old line ends of a TSV can leave,
            # becomes a blank
            text.write(_LINE_ENDS.sub(" ", row["text"]).encode() + b"\n")
            translation.write(_LINE_ENDS.sub(" ", row["translation"]).encode() + b"\n")


def _piece_path(pieces: Path, name: str, number: int) -> Path:
    return pieces / f"{number:05d}.{name}"


def write_aligned(run: Run, sources: Sequence[Source], folder: SelectionFolder) -> list[str]:
    """Write the selected pairs as two line-aligned files, in the corpus's order."""
    # Reference: Aharoni and Goldberg (2020), section 4: pairs are selected by one of their texts.
    folder.remove_written()
    if not corpus.is_parallel(sources):
        return []
    first, second = (f"selected.{side}" for side in corpus.sides(sources))
    folder.will_write([first, second])
    parts = range(len(list(folder.selected.glob("part-*"))))
    job = partial(_write_texts, folder.selected, folder.pieces, (first, second))
    with run.stage("align", len(parts)):
        for _ in run.map(job, parts):
            pass
        for name in (first, second):
            with writing(folder.path / name) as whole:
                for number in parts:
                    with _piece_path(folder.pieces, name, number).open("rb") as piece:
                        shutil.copyfileobj(piece, whole)
    remove(folder.pieces)
    return [first, second]
