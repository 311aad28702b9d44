"""Jobs that run a cascade: score a stage's segments of a shard, join the stages' scores."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import listed, read_arrays, write_arrays, write_bytes
from corpusfit.core.engine import Job, counting
from corpusfit.core.errors import changed_input
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Paired, Segments, Shard, Texts, read_as, taken
from corpusfit.embed import load, wants_gpu
from corpusfit.scoring import table
from corpusfit.selection.cascade_jobs import StageScorer
from corpusfit.selection.score_job import mark_path
from corpusfit.text.reading import Tally, read_shard, read_units
from corpusfit.text.segments import join_units, joined_scores
from corpusfit.text.units import cut_units

_PART = re.compile(r"part-(\d+)\.safetensors")


class StageParts:
    """The scores of one stage: by shard, the places of segments and their scores.

    Args:
        folder: folder of the parts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _part(self, shard: int) -> Path:
        return self.folder / f"part-{shard:05d}.safetensors"

    def finished(self) -> list[int]:
        """The finished shards, increasing."""
        names = listed(self.folder)
        return sorted(int(found[1]) for name in names if (found := _PART.fullmatch(name)))

    def write(
        self,
        shard: int,
        places: NDArray[np.int64],
        scores: NDArray[np.float32],
        tally: Tally,
        seconds: float,
    ) -> None:
        """Write the scores [m] of the segments at places [m], and the tally."""
        plain = {n: v for n, v in tally.as_dict().items() if n != "rejects"}
        arrays: dict[str, NDArray[Any]] = {
            "places": places,
            "scores": scores,
            "rejects": np.frombuffer(orjson.dumps(tally.rejects), np.uint8),
        }
        write_arrays(self._part(shard), arrays, {"tally": plain, "seconds": seconds})

    def read(self, shard: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Places and scores."""
        arrays, _ = read_arrays(self._part(shard), ["places", "scores"])
        return arrays["places"], arrays["scores"]

    def read_all(self) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Shard, places and scores of every part, by shard."""
        for shard in self.finished():
            yield shard, *self.read(shard)

    def tally(self, shard: int) -> Tally:
        """The tally of a part."""
        arrays, header = read_arrays(self._part(shard), ["rejects"])
        return Tally(**header["tally"], rejects=orjson.loads(arrays["rejects"].tobytes()))

    def spent(self) -> tuple[int, float]:
        """Number of scored units and seconds of the workers, over all parts."""
        units, seconds = 0, 0.0
        for shard in self.finished():
            _, header = read_arrays(self._part(shard), [])
            units, seconds = units + header["tally"]["units"], seconds + header["seconds"]
        return units, seconds


@dataclass(frozen=True)
class ScoreStage(Job[tuple[Shard, NDArray[np.int64] | None], int]):
    """Score the segments of a shard at some places, or all; returns the number of units.

    Vectors are not stored, because another cascade would pass on other segments.

    Attributes:
        stage: the scorer and what it reads.
        scores: folder where the first stage writes a shard's segments, and later ones find them.
        parts: folder of this stage's scores.
    """

    stage: StageScorer
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    cache: Path
    scores: Path
    parts: Path

    @property
    def encodes(self) -> bool:
        """Whether the stage scores with a network or reads a network's vectors."""
        embed = self.stage.embed
        return self.stage.network or (embed is not None and wants_gpu(embed))

    def start(self) -> Callable[[tuple[Shard, NDArray[np.int64] | None]], int]:
        """Restore the scorer, load the encoder."""
        scorer, embed = self.stage.open(), self.stage.embed
        encoder = load(embed, self.cache) if embed is not None else None
        parts = StageParts(self.parts)

        def work(piece: tuple[Shard, NDArray[np.int64] | None]) -> int:
            started = time.perf_counter()
            shard, places = piece
            segments, texts, tally = self._read(shard, places)
            batch: Any = texts
            if encoder is not None:
                vectors = encoder.encode(texts, counting(len(texts)))
                batch = read_as(Paired(texts, vectors), self.stage.reads)
            found = joined_scores(scorer.score(batch), segments.units, summed=self.stage.summed)
            if places is None:
                table.write(self.scores, shard.index, tally.sources(self.names), segments, found)
                places = np.arange(len(segments))
            parts.write(shard.index, places, found, tally, time.perf_counter() - started)
            return len(texts)

        return work

    def _read(
        self, shard: Shard, places: NDArray[np.int64] | None
    ) -> tuple[Segments, Texts, Tally]:
        """The segments at some places, or all; the texts of their units; their tally."""
        if places is None:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            segments = join_units(units, self.cut.gamma)
            tally.segments = len(segments)
            return segments, texts, tally
        part = table.part_path(self.scores, shard.index)
        rows = table.read_rows(part, Tally.of(shard).sources(self.names))[places]
        numbers = table.read_columns(part, "segment")[0][places]
        found, tally = read_shard(shard, self.read, self.names, lambda seen, _: np.isin(seen, rows))
        units, texts = cut_units(found, self.cut)
        segments = join_units(units, self.cut.gamma)
        at = np.searchsorted(segments.row, rows) + numbers.astype(np.int64)
        if (at >= len(segments)).any() or (segments.row[at] != rows).any():
            raise changed_input(self.names[shard.source], "`overwrite`")
        counts = segments.units[at]
        before = np.cumsum(counts, dtype=np.int64) - counts
        within = np.arange(int(counts.sum())) - np.repeat(before, counts)
        own = np.repeat(segments.first_unit[at], counts) + within
        tally.units, tally.segments = len(own), len(at)
        picked = Segments(*(getattr(segments, f.name)[at] for f in fields(Segments)))
        return picked, taken(texts, own), tally


@dataclass(frozen=True)
class Placing:
    """The map of a stage's scores into the joint column: at + by * score."""

    at: float = 0.0
    by: float = 1.0

    def __call__(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The mapped scores [n], in the same order."""
        return (self.at + self.by * scores.astype(np.float64)).astype(np.float32)

    @classmethod
    def below(cls, floor: float, lowest: float, highest: float) -> Placing:
        """The map that puts scores from lowest to highest below a floor.

        Their range is as wide as the floor is far from 0, so that float32 can still distinguish
        millions of scores.
        """
        room = max(1.0, abs(floor))
        by = room / (highest - lowest) if highest > lowest else 1.0
        return cls(floor - room / 4 - by * highest, by)


@dataclass(frozen=True)
class JoinStages(Job[int, int]):
    """Write to a shard's part of `scores/` each segment's score in the last stage it reached.

    Attributes:
        scores: folder of the parts that the first stage wrote.
        marks: folder of the completion marks.
        stages: folders of the stages' parts.
        placings: map of each stage's scores.
    """

    scores: Path
    marks: Path
    stages: tuple[Path, ...]
    placings: tuple[Placing, ...]

    def start(self) -> Callable[[int], int]:
        """List the finished parts."""
        parts = [StageParts(folder) for folder in self.stages]
        finished = [set(p.finished()) for p in parts]

        def work(shard: int) -> int:
            tally = parts[0].tally(shard)
            score = np.empty(tally.segments, np.float32)
            stage = np.empty(tally.segments, np.int8)
            for n, (part, shards, placing) in enumerate(
                zip(parts, finished, self.placings, strict=True), start=1
            ):
                if shard in shards:
                    places, found = part.read(shard)
                    score[places], stage[places] = placing(found), n
            table.rewrite(table.part_path(self.scores, shard), score=score, stage=stage)
            write_bytes(mark_path(self.marks, shard), json.dumps(tally.as_dict()).encode())
            return tally.units

        return work
