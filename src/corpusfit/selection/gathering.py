"""What a selection is decided by, gathered from the score files of many shards to a few files.

To choose takes several passes over all scores, and a part of `scores/` is a small file. So the
first pass writes what the others need of a run of parts to one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.scoring import table
from corpusfit.selection.balance import Balance
from corpusfit.selection.choosing import Found, OverRuns, ScoredPart, Step
from corpusfit.selection.copies import Copies
from corpusfit.text.context import Run


@dataclass(frozen=True, slots=True)
class GatheredPart:
    """Scores (float32 [n]) and word pieces (int64 [n]) of one part, copies included.

    Documents that have too few word pieces are `short`, bool [n]. With quotas also the main group
    of each segment, int64 [n].
    """

    index: int
    scores: NDArray[np.float32]
    tokens: NDArray[np.int64]
    copy: NDArray[np.bool_]
    short: NDArray[np.bool_]
    groups: NDArray[np.int64] | None

    def without_copies(self, weighted_by: Balance | None = None) -> ScoredPart:
        """The part without its copies; with a balance also the segments' shares."""
        kept = ~self.copy
        return ScoredPart(
            self.index,
            self.scores[kept],
            self.tokens[kept],
            None if self.groups is None else self.groups[kept],
            None if weighted_by is None else weighted_by.shares(self.index)[kept],
            self.short[kept],
        )


def gather(
    scores: Path,
    out: Path,
    copies: Copies,
    by: Balance | None,
    least: int,  # word pieces of a document without which it is short
    parts: tuple[int, ...],
) -> None:
    """Write what the steps need of a run of parts to one file."""
    columns: dict[str, list[NDArray[Any]]] = {
        "score": [np.empty(0, np.float32)],
        "tokens": [np.empty(0, np.int64)],
        "copy": [np.empty(0, np.bool_)],
        "short": [np.empty(0, np.bool_)],
    }
    if by is not None:
        columns["group"] = [np.empty(0, np.int64)]
    for index in parts:
        score, tokens, segment = table.read_columns(
            table.part_path(scores, index), "score", "tokens", "segment"
        )
        columns["score"].append(np.asarray(score, np.float32))
        columns["tokens"].append(np.asarray(tokens, np.int64))
        columns["copy"].append(copies.of(index, segment))
        # the end of a longer document is no scrap
        whole = (segment == 0) & (np.append(segment[1:], 0) == 0)
        columns["short"].append((columns["tokens"][-1] < least) & whole)
        if by is not None:
            columns["group"].append(by.groups(index))
    arrays = {name: np.concatenate(of_parts) for name, of_parts in columns.items()}
    arrays["size"] = np.array([len(of_parts) for of_parts in columns["score"][1:]], np.int64)
    write_arrays(_path(out, parts), arrays, {})


def _path(folder: Path, parts: Sequence[int]) -> Path:
    return folder / f"from-{parts[0] if parts else 0:05d}.safetensors"


def marked_path(folder: Path, parts: Sequence[int]) -> Path:
    """File with which segments of a run of parts are selected."""
    return folder / f"marked-{parts[0] if parts else 0:05d}.safetensors"


def read_gathered(folder: Path, parts: Sequence[int]) -> Iterator[GatheredPart]:
    """The parts of a run, as `gather` wrote them."""
    arrays, _ = read_arrays(_path(folder, parts))
    ends = np.cumsum(arrays["size"]).tolist()
    for index, begin, end in zip(parts, [0, *ends], ends, strict=False):
        yield GatheredPart(
            index,
            arrays["score"][begin:end],
            arrays["tokens"][begin:end],
            arrays["copy"][begin:end],
            arrays["short"][begin:end],
            arrays["group"][begin:end] if "group" in arrays else None,
        )


def read_chosen(
    folder: Path, parts: Sequence[int]
) -> Iterator[tuple[GatheredPart, NDArray[np.bool_]]]:
    """The parts of a run, each with which of its segments are selected, bool [n]."""
    selected = read_arrays(marked_path(folder, parts))[0]["selected"]
    begin = 0
    for part in read_gathered(folder, parts):
        end = begin + len(part.scores)
        yield part, selected[begin:end]
        begin = end


def _do_step(
    step: Step[Any],
    gathered: Path,
    weighted_by: Balance | None,
    numbered: tuple[int, tuple[int, ...]],
) -> tuple[int, Any]:
    """Do a step with a run of parts."""
    number, parts = numbered
    read = read_gathered(gathered, parts)
    return number, step(number, (p.without_copies(weighted_by) for p in read))


def over_runs(
    run: Run, gathered: Path, runs: Sequence[tuple[int, ...]], weighted_by: Balance | None = None
) -> OverRuns:
    """Does steps with the gathered scores, on the workers."""

    def over(step: Step[Found]) -> list[Found]:
        columns = dict(
            run.engine.map(partial(_do_step, step, gathered, weighted_by), enumerate(runs))
        )
        return [columns[number] for number in range(len(runs))]

    return over
