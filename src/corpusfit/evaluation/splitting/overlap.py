"""Counts how many texts of train, dev and test are in another split: the overlap table."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.evaluation.contamination.finder import HeldoutIndex
from corpusfit.evaluation.contamination.match import find_leaks
from corpusfit.evaluation.splits import SPLITS, split_of
from corpusfit.evaluation.splitting.folder import SplitFolder
from corpusfit.evaluation.splitting.text_keys import Rows, key_rows
from corpusfit.text.context import Machine, RunContext
from corpusfit.text.registry import format_of

_WITHIN = {"train": ("dev", "test"), "dev": ("test",), "test": ()}
"""The splits whose texts are searched for, by the split that is searched."""


@dataclass(frozen=True)
class SplitOverlap:
    """Number of texts of one split that are in another split, or repeated in their own.

    Attributes:
        data: name of the folder.
        side: language of the side for pairs, as `de`; empty for texts without a translation.
        split: the split whose texts are counted.
        within: the split that is searched; `split` itself for copies after the first.
        texts: number of texts of `split`.
        identical: texts with an exact match, in any Unicode form.
        shared: texts that match after normalisation (`corpus.same_text`), `identical` included.
        near: texts with a near-duplicate, `shared` included; None if not counted.
    """

    data: str
    side: str
    split: str
    within: str
    texts: int
    identical: int
    shared: int
    near: int | None


def overlaps(
    folders: Sequence[str], *, read: ReadPlan, near: bool, machine: Machine
) -> list[SplitOverlap]:
    """The overlap table of some folders.

    A text that contains 0.8 of another's 5-grams counts as its near-duplicate, so a sentence within
    a longer one does. Memory: two hashes per text; with `near` also sketches of dev and test.

    Reference: Aharoni and Goldberg (2020), section 3.1 and appendix A.2, Table 8 ("computed using
    the English part of the corpus"): one row here is one figure of that table.
    """
    read.check()
    found = []
    with machine.running() as context:
        for folder in folders:
            places, as_read = _places(user_path(folder), read)
            name = user_path(folder).absolute().name
            found += overlaps_in(name, places, as_read, context, near=near)
    return found


def overlaps_in(
    name: str,
    places: Mapping[str, Sequence[str]],
    read: ReadPlan,
    context: RunContext,
    *,
    near: bool,
) -> list[SplitOverlap]:
    """The overlap table of one set of splits."""
    sources = {
        split: context.find(places[split], read, "check") for split in SPLITS if split in places
    }
    _require_same_sides(name, sources)
    rows = {
        split: key_rows(found, read, context, f"read {split}") for split, found in sources.items()
    }
    every = [source for found in sources.values() for source in found]
    sides: tuple[str, ...] = corpus.sides(every) if corpus.is_parallel(every) else ("",)
    found: list[SplitOverlap] = []
    for at, side in enumerate(sides):
        for split, own in rows.items():
            found.append(_copies(SplitOverlap(name, side, split, split, 0, 0, 0, None), own, at))
        for within, splits in _WITHIN.items():
            asked = [s for s in splits if s in rows and within in rows]
            texts = {split: _texts(sources[split], read, at) for split in asked if near}
            contained = {split: np.zeros(0, np.bool_) for split in texts}
            if any(texts.values()):  # `within` is read once for all of them
                watched = HeldoutIndex.of_texts(itertools.chain(*texts.values()))
                leaks = find_leaks(watched, sources[within], read.sides()[at], context)
                for split, own_texts in texts.items():
                    numbers = watched.numbers(own_texts)
                    contained[split] = np.isin(numbers, leaks.watched) & (numbers >= 0)
            found += [
                _shared(
                    SplitOverlap(name, side, split, within, 0, 0, 0, None),
                    rows[split],
                    rows[within],
                    at,
                    contained.get(split),
                )
                for split in asked
            ]
    return found


def _require_same_sides(name: str, sources: Mapping[str, Sequence[Source]]) -> None:
    """Raise `InputError` for splits with different sides, which cannot be compared."""
    sides = {
        split: ", ".join(corpus.sides(found)) if corpus.is_parallel(found) else ""
        for split, found in sources.items()
    }
    (first, own), *others = sides.items()
    for split, found in others:
        if found != own:
            raise InputError(
                f"The splits of {name} must have the same sides; {first} has {own or 'no pairs'}, "
                f"{split} has {found or 'no pairs'}. Give each split files with the same suffixes; "
                "put others into another folder."
            )


def split_input(folder: Path, found: Mapping[str, Any]) -> str:
    """The files of a split as an input, from their entry in the manifest of `split`."""
    files = ",".join(str(folder / name) for name in found["files"])
    if not found["pair"]:
        return files
    return f"pair:{files}" + (f":{found['columns']}" if found["columns"] else "")


def _copies(empty: SplitOverlap, rows: Rows, side: int) -> SplitOverlap:
    """Count the copies within a split, after the first of each text."""
    identical, shared = (
        len(rows) - len(np.unique(hashes[:, side])) for hashes in (rows.written, rows.keys)
    )
    return dataclasses.replace(empty, texts=len(rows), identical=identical, shared=shared)


def _shared(
    empty: SplitOverlap, rows: Rows, others: Rows, side: int, contained: NDArray[np.bool_] | None
) -> SplitOverlap:
    """Count the texts of a split that are in another; `contained`: bool [n], near-duplicates."""
    identical = np.isin(rows.written[:, side], others.written[:, side])
    shared = np.isin(rows.keys[:, side], others.keys[:, side])
    near = None if contained is None else int((shared | contained).sum())
    return dataclasses.replace(
        empty, texts=len(rows), identical=int(identical.sum()), shared=int(shared.sum()), near=near
    )


def _texts(sources: Sequence[Source], read: ReadPlan, side: int) -> list[str]:
    """One side of every usable row, in reading order."""
    return [
        str(row.translation) if side else row.text
        for shard in corpus.shards(sources, read)
        for row in corpus.rows(shard, read)
        if isinstance(row, Document)
    ]


def _places(folder: Path, read: ReadPlan) -> tuple[dict[str, list[str]], ReadPlan]:
    """The inputs of each split in a folder, and how to read them."""
    if not folder.is_dir():
        raise InputError(
            f"`check` must be a folder with files named train, dev and test; got {str(folder)!r}, "
            "which is not a folder."
        )
    manifest = SplitFolder(folder).finished()
    if manifest is not None and manifest.get("command") == "split":
        places = {name: [split_input(folder, found)] for name, found in manifest["splits"].items()}
        return places, dataclasses.replace(read, **manifest["read"])
    entries: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        split = split_of(entry)
        if split and not entry.name.startswith("."):
            entries.setdefault(split, []).append(entry)
    if not entries:
        names = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise InputError(
            f"`check={folder}` must contain files named train, dev and test; it contains {names}."
        )
    return {split: _inputs(folder, split, found) for split, found in entries.items()}, read


def _inputs(folder: Path, split: str, entries: Sequence[Path]) -> list[str]:
    """The files of a split as inputs."""
    if all(entry.is_dir() or format_of(entry.name) for entry in entries):
        return list(map(str, entries))
    if len(entries) == 2 and not any(entry.is_dir() for entry in entries):
        return [f"pair:{entries[0]},{entries[1]}"]
    raise InputError(
        f"`check={folder}` must contain for {split} two line-aligned files ({split}.de, "
        f"{split}.en) or files of rows; it contains {', '.join(entry.name for entry in entries)}."
    )
