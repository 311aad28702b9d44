"""Counts the rows of a scored corpus, and lists those that were rejected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from corpusfit.core.artifacts import writing
from corpusfit.core.types import file_of, in_file
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder, read_tallies, runs_of_parts
from corpusfit.selection.samples import may_be_whole
from corpusfit.text import cures
from corpusfit.text.context import Run
from corpusfit.text.input import Input
from corpusfit.text.reading import Reasons

_COUNTED = ("rows", "documents", "rejected", "units", "segments", "characters")


@dataclass
class Counts:
    """The counts of some shards, and their rejected rows."""

    total: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTED, 0)))
    reasons: Reasons = field(default_factory=Reasons)
    losses: cures.Losses = field(default_factory=cures.Losses)
    of_shards: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The documents and segments of each shard."""

    def add(self, more: Counts) -> None:
        """Add the counts of later shards."""
        self.total.update(more.total)
        self.reasons.update(more.reasons)
        self.losses.update(more.losses)
        self.of_shards.update(more.of_shards)


def _count_shards(
    scored: Path, scores: Path, names: tuple[str, ...], numbered: tuple[int, tuple[int, ...]]
) -> tuple[int, Counts, bytes]:
    """Count a run of shards; returns also the lines of `rejects.jsonl`."""
    number, shards = numbered
    counts = Counts()
    lines = []
    for shard, tally in zip(shards, read_tallies(scored, shards), strict=True):
        counts.of_shards[shard] = tally.documents, tally.segments
        counts.reasons.add(tally.rejects.counts())
        counts.total.update(
            rows=tally.documents + len(tally.rejects) + tally.left_out,
            left_out=tally.left_out,
            documents=tally.documents,
            rejected=len(tally.rejects),
            units=tally.units,
            segments=tally.segments,
            characters=tally.characters,
        )
        for row, byte, text in tally.rejects.as_list():
            source = names[tally.source + file_of(row)]
            line = {"source": source, "row": in_file(row), "byte": byte, "reason": text}
            lines.append(orjson.dumps(line) + b"\n")
        for file, lost in tally.rejects.by_file().items():
            counts.losses.add(names[tally.source + file], 0, lost)
        if tally.files == 1:
            counts.losses.add(names[tally.source], tally.documents)
        elif tally.rejects:  # the tally has no counts per small file, so count its segments
            files, file_numbers = table.read_sources(table.part_path(scores, shard))
            for name, documents in Counter(files[i] for i in file_numbers).items():
                counts.losses.add(name, documents)
    return number, counts, b"".join(lines)


def count_rows(run: Run, texts: Input, folder: SelectionFolder) -> dict[str, Any]:
    """Write `rejects.jsonl` and sum the counts; rows = documents + rejects + left out."""
    # Warns if most rows are rejected, or many of one file whose cure is known; notes how many small
    # text files are divided.
    job = partial(_count_shards, folder.scored, folder.scores, texts.names)
    runs = list(enumerate(runs_of_parts(folder, run.shard_count)))
    counted = {number: (counts, lines) for number, counts, lines in run.over("count", job, runs)}
    of_all = Counts()
    with writing(folder.path / "rejects.jsonl") as out:
        for number, _ in runs:
            counts, lines = counted.pop(number)
            of_all.add(counts)
            out.write(lines)
    run.counted.update(of_all.of_shards)
    total = of_all.total
    cure = of_all.losses.cure(texts.sources, texts.read)
    if cure or total["rejected"] > total["documents"]:
        rejected = f"{total['rejected']:,} of {total['rows']:,} rows are rejected"
        listed = f"They are listed in {folder.path / 'rejects.jsonl'}."
        run.warn(f"{rejected}: {of_all.reasons}. {cure or listed}")
    if may_be_whole(texts, total["documents"]):
        run.progress.note(
            f"The corpus has {total['documents']:,} documents in {len(texts.sources):,} .txt "
            "files, divided by blank lines (`read.txt=file`: one per file)."
        )
    if not texts.read.where:
        del total["left_out"]
    return {**total, "reasons": of_all.reasons.as_dict()}
