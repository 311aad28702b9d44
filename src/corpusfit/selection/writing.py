"""Selects from stored scores and writes the selected text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, listed, remove, write_bytes, writing
from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import file_of, in_file
from corpusfit.scoring import table
from corpusfit.scoring.contract import AnyMethod
from corpusfit.scoring.groups import grouped, source_groups
from corpusfit.selection.balance import Balance, balance
from corpusfit.selection.choosing import ScoredPart, choose
from corpusfit.selection.copies import Copies
from corpusfit.selection.examples import draw_examples, write_examples
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.samples import may_be_whole
from corpusfit.selection.scoring import tallies
from corpusfit.selection.write_job import WriteSelected, looked_at_path, selected_path
from corpusfit.text import cures
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons


@dataclass
class Chosen:
    """The selection: counts, the lowest selected score, and composition by source and cluster.

    `of_tokens` are the word pieces of everything it is chosen from.
    With quotas, `quota` has each cluster's wanted share of the selection, `by_cluster` the counts
    of its segments (by their main cluster) and of those selected. `copies` has the numbers of
    documents left out as copies, by kind, and of their segments; None if all were kept.
    """

    segments: int = 0
    tokens: int = 0
    of_tokens: int = 0
    threshold: float | None = None
    by_source: dict[str, dict[str, int]] = field(default_factory=dict)
    quota: list[float] | None = None
    by_cluster: list[dict[str, int]] = field(default_factory=list)
    copies: dict[str, int] | None = None
    parts: list[int] = field(default_factory=list)

    def add(
        self,
        part: ScoredPart,
        selected: Any,
        copy: Any,
        groups: Sequence[str],
        own: NDArray[np.int64] | None,
    ) -> None:
        """Count one part, whose m segments are of some groups; `own` [m] says which, if several."""
        if own is None:
            own = np.zeros(len(selected), np.int64)
        k = len(groups)
        for group, n, chosen, pieces in zip(
            groups,
            np.bincount(own, minlength=k).tolist(),
            np.bincount(own[selected], minlength=k).tolist(),
            np.bincount(own[selected], part.tokens[selected], minlength=k).tolist(),
            strict=True,
        ):
            counted = self.by_source.setdefault(group, Counter(segments=0, selected=0, tokens=0))
            counted["segments"] += n
            counted["selected"] += chosen
            counted["tokens"] += int(pieces)
        if part.groups is not None and self.quota is not None:
            self._add_clusters(part.groups, part.tokens, selected, len(self.quota))
        self.of_tokens += int(part.tokens[~copy].sum())
        if self.copies is not None:
            self.copies["segments"] += int(copy.sum())
        if selected.any():
            self.parts.append(part.index)
            self.segments += int(selected.sum())
            self.tokens += int(part.tokens[selected].sum())
            lowest = float(part.scores[selected].min())
            self.threshold = lowest if self.threshold is None else min(self.threshold, lowest)

    def _add_clusters(self, main: Any, tokens: Any, selected: Any, k: int) -> None:
        if not self.by_cluster:
            self.by_cluster = [Counter(segments=0, selected=0, tokens=0) for _ in range(k)]
        for own, n, chosen, pieces in zip(
            self.by_cluster,
            np.bincount(main, minlength=k).tolist(),
            np.bincount(main[selected], minlength=k).tolist(),
            np.bincount(main[selected], tokens[selected], minlength=k).tolist(),
            strict=True,
        ):
            own["segments"] += n
            own["selected"] += chosen
            own["tokens"] += int(pieces)


def _scored(
    folder: SelectionFolder,
    copies: Copies,
    by: Balance | None = None,
    *,
    weighted: bool = False,
) -> Iterator[ScoredPart]:
    """The scored parts without copies.

    With a balance also their clusters, with `weighted` also their shares.
    """
    for index, path in table.parts(folder.scores):
        scores, tokens = table.read_columns(path, "score", "tokens")
        kept = ~copies.of(index, path)
        yield ScoredPart(
            index,
            np.asarray(scores, np.float32)[kept],
            np.asarray(tokens, np.int64)[kept],
            by.groups(index)[kept] if by is not None else None,
            by.shares(index)[kept] if by is not None and weighted else None,
        )


def choose_segments(run: Run, folder: SelectionFolder, method: AnyMethod, copies: Copies) -> Chosen:
    """Select, and write the columns `weight`, `selected` and `copy` beside the scores."""
    names = run.names
    tally_of = dict(tallies(folder))
    group_of = source_groups(names)
    by = balance(run, folder, copies)
    chosen = Chosen(quota=None if by is None else np.round(by.quota, 6).tolist())
    if run.plan.choose.dedup != "none":
        chosen.copies = {**copies.counts, "segments": 0}
    paths = dict(table.parts(folder.scores))
    with run.stage("choose", len(paths)):
        choices = choose(
            lambda: _scored(folder, copies, by, weighted=run.plan.choose.policy != "top"),
            run.plan.choose,
            seed=run.plan.seed,
            log_weights=method.log_weights,
            quota=by.quota if by is not None else None,
        )
        for choice, part in zip(choices, _scored(folder, Copies(), by), strict=True):
            copy = copies.of(choice.index, paths[choice.index])
            weight, selected = np.zeros(len(copy), np.float32), np.zeros(len(copy), np.bool_)
            weight[~copy], selected[~copy] = choice.weight, choice.selected
            table.rewrite(paths[choice.index], weight=weight, selected=selected, copy=copy)
            groups, own = [group_of(tally_of[choice.index].sources(names)[0])], None
            if tally_of[choice.index].files > 1:
                groups, own = grouped(*table.read_sources(paths[choice.index]), group_of)
            chosen.add(part, selected, copy, groups, own)
            run.machine.progress.advance(1)
    return chosen


def reaching(folder: SelectionFolder, chosen: Chosen) -> int:
    """Number of segments with the lowest selected score or a higher one, copies included."""
    count = chosen.segments
    for _, path in table.parts(folder.scores) if chosen.threshold is not None else ():
        score, copy = table.read_columns(path, "score", "copy")
        count += int(np.sum(np.asarray(score, np.float32)[copy == 1] >= chosen.threshold))
    return count


def write_selected(
    run: Run, folder: SelectionFolder, chosen: Chosen, copies: Copies, method: MethodPlan
) -> None:
    """Write the selected text and the examples, after removing those of another selection."""
    mark = folder.work / "chosen.json"
    choice = {**run.plan.choose.identity(), "clusters": run.clusters}
    wanted = json.dumps(choice, sort_keys=True).encode()
    if not mark.exists() or mark.read_bytes() != wanted:
        remove(folder.selected, folder.looked_at, folder.examples)
        write_bytes(mark, wanted)
    if is_local(folder.selected):
        folder.selected.mkdir(exist_ok=True)
    drawn = draw_examples(run, lambda: _scored(folder, copies), chosen.threshold)
    paths = dict(table.parts(folder.scores))
    places = {
        index: tuple(np.flatnonzero(~copies.of(index, paths[index]))[of_part].tolist())
        for index, of_part in drawn.items()
    }
    missing = _unwritten(folder.selected, chosen.parts, selected_path)
    missing |= _unwritten(folder.looked_at, places, looked_at_path)
    if missing:
        job = WriteSelected(
            run.plan.read, run.names, folder.scores, folder.selected, folder.looked_at, places
        )
        for _ in run.over_shards("write", job, lambda shard: shard not in missing):
            pass
    if not folder.examples.exists():
        write_examples(run, folder, method, list(places))


def _unwritten(folder: Path, parts: Iterable[int], path: Callable[[Path, int], Path]) -> set[int]:
    """Parts without a file in a folder."""
    written = listed(folder)
    return {i for i in parts if path(folder, i).name not in written}


def count_rows(run: Run, folder: SelectionFolder) -> dict[str, Any]:
    """Write `rejects.jsonl` and sum the counts; rows = documents + rejects.

    Warns if most rows are rejected, or many of one file whose cure is known; notes how many small
    text files are divided.
    """
    total: Counter[str] = Counter(rows=0, documents=0, rejected=0, units=0, segments=0)
    reasons, names = Reasons(), run.names
    losses = cures.Losses()
    scored = dict(table.parts(folder.scores))
    with writing(folder.path / "rejects.jsonl") as out:
        for shard, tally in tallies(folder):
            reasons.add(tally.rejects)
            total.update(
                rows=tally.documents + len(tally.rejects),
                documents=tally.documents,
                rejected=len(tally.rejects),
                units=tally.units,
                segments=tally.segments,
                characters=tally.characters,
            )
            for row, byte, reason in tally.rejects:
                source = names[tally.source + file_of(row)]
                losses.add(source, 0, [reason])
                line = {"source": source, "row": in_file(row), "byte": byte}
                out.write(orjson.dumps({**line, "reason": reason}) + b"\n")
            if tally.files == 1:
                losses.add(names[tally.source], tally.documents)
            elif tally.rejects:  # of small files only the segments are known
                files, own = table.read_sources(scored[shard])
                for name, kept in Counter(files[i] for i in own).items():
                    losses.add(name, kept)
    cure = losses.cure(run.sources, run.plan.read)
    if cure or total["rejected"] > total["documents"]:
        of_all = f"{total['rejected']:,} of {total['rows']:,} rows are rejected: {reasons}"
        listed = f"They are listed in {folder.path / 'rejects.jsonl'}."
        run.warn(f"{of_all}. {cure or listed}")
    if may_be_whole(run.sources, run.plan.read, total["documents"]):
        run.progress.note(
            f"The corpus has {total['documents']:,} documents in {len(run.sources):,} .txt files, "
            "divided by blank lines (`read.txt=file`: one per file)."
        )
    return {**total, "reasons": dict(reasons.counts.most_common())}
