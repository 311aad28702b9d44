"""The overlap table: how many texts of dev and test are in train.

What: for train, dev and test as they lie in a folder, how many texts of one stand in another, and
twice in their own: to the letter, in the same letters and digits, and nearly.
Why: a development set that overlaps with train picks the model that remembers best.
Trade-off: of each text two hashes are held in memory, and for what is nearly the same also the
sketches of dev and test. A text of another that holds 0.8 of its 5-grams counts as nearly the same,
so a sentence within a longer one does (`evaluate/contamination.py`).
Reference: Aharoni and Goldberg (2020), section 3.1 and appendix A.2, Table 8 ("computed using the
English part of the corpus"): one row here is one figure of that table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.corpus.formats import format_of
from corpusfit.engine import Engine
from corpusfit.errors import InputError
from corpusfit.evaluate.contamination import HeldoutIndex
from corpusfit.evaluate.splits import SPLITS, split_of
from corpusfit.jobs.survey import look_with
from corpusfit.manifest import SplitFolder
from corpusfit.pipeline.contamination.match import find_leaks
from corpusfit.pipeline.run import Machine
from corpusfit.pipeline.text_keys import Rows, is_parallel, key_rows
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Source

_WITHIN = {"train": ("dev", "test"), "dev": ("test",), "test": ()}
"""Where the texts of which splits are looked for."""


@dataclass(frozen=True)
class SplitOverlap:
    """Texts of one split that are in another, or that are copies of others in their own.

    Attributes:
        data: name of the folder.
        side: of pairs `de` or `en`, say; empty for texts without a translation.
        split: whose texts are counted.
        within: where they are looked for; the split itself for copies beside the first.
        texts: of the split.
        identical: those that are there to the letter.
        shared: those that are there but for case, blanks and punctuation, `identical` among them.
        near: those that are there whole or nearly, `shared` among them; None if that was not asked.
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

    Args:
        folders: each with files that are named train, dev and test (any of them): two line-aligned
            ones a split (`train.de`, `train.en`), or one of rows or texts; or what `split` wrote.
        read: how rows become texts; what `split` wrote is read as it was split.
        near: count what is nearly the same too.
        machine: where it runs.

    Raises:
        InputError: a folder holds no split, or files that are not understood.
    """
    read.check()
    found = []
    with machine.start() as engine, machine.scratch() as spool:
        engine.require_shared(spool, "--cache")
        for folder in folders:
            places, as_read = _places(Path(folder).expanduser(), read)
            name = Path(folder).expanduser().absolute().name
            found += overlaps_in(name, places, as_read, spool, engine, machine, near=near)
    return found


def overlaps_in(
    name: str,
    places: Mapping[str, Sequence[str]],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
    *,
    near: bool,
) -> list[SplitOverlap]:
    """The overlap table of one set of splits.

    Args:
        name: of the data.
        places: by split, inputs as `--corpus` takes them.
        read: how rows become texts.
        spool: folder that the workers see.
        engine: started.
        machine: told of progress.
        near: as in `overlaps`.
    """
    looking = partial(look_with, engine)
    sources = {
        split: corpus.find(places[split], read, spool=spool, role="check", looking=looking)
        for split in SPLITS
        if split in places
    }
    _require_same_sides(name, sources)
    rows = {
        split: key_rows(found, read, engine, machine, f"read {split}")
        for split, found in sources.items()
    }
    every = [source for found in sources.values() for source in found]
    sides: tuple[str, ...] = corpus.sides(every) if is_parallel(every) else ("",)
    found: list[SplitOverlap] = []
    for at, side in enumerate(sides):
        for split, own in rows.items():
            found.append(_copies(SplitOverlap(name, side, split, split, 0, 0, 0, None), own, at))
        for within, splits in _WITHIN.items():
            asked = [s for s in splits if s in rows and within in rows]
            held = _held(asked, within, sources, read, spool, engine, machine, at) if near else {}
            found += [
                _shared(
                    SplitOverlap(name, side, split, within, 0, 0, 0, None),
                    rows[split],
                    rows[within],
                    at,
                    held.get(split),
                )
                for split in asked
            ]
    return found


def _require_same_sides(name: str, sources: Mapping[str, Sequence[Source]]) -> None:
    """Raise `InputError` where splits are of other languages, so that nothing could be compared."""
    sides = {s: ", ".join(corpus.sides(f)) if is_parallel(f) else "" for s, f in sources.items()}
    (first, own), *others = sides.items()
    for split, found in others:
        if found != own:
            raise InputError(
                f"The splits of {name} must have the same sides; {first} has {own or 'no pairs'}, "
                f"{split} has {found or 'no pairs'}. Give each split files of the same suffixes, "
                "in a folder of its own if there are more."
            )


def split_input(folder: Path, found: Mapping[str, Any]) -> str:
    """The files of a split as an input, from what the manifest of `split` says of them."""
    files = ",".join(str(folder / name) for name in found["files"])
    if not found["pair"]:
        return files
    return f"pair:{files}" + (f":{found['columns']}" if found["columns"] else "")


def _copies(empty: SplitOverlap, rows: Rows, side: int) -> SplitOverlap:
    """Copies within a split, beside the first of each text."""
    identical, shared = (
        len(rows) - len(np.unique(hashes[:, side])) for hashes in (rows.written, rows.keys)
    )
    return dataclasses.replace(empty, texts=len(rows), identical=identical, shared=shared)


def _shared(
    empty: SplitOverlap, rows: Rows, others: Rows, side: int, held: NDArray[np.bool_] | None
) -> SplitOverlap:
    """Texts of a split that are in another; `held`, bool [n], those that nearly are."""
    identical = np.isin(rows.written[:, side], others.written[:, side])
    shared = np.isin(rows.keys[:, side], others.keys[:, side])
    near = None if held is None else int((shared | held).sum())
    return dataclasses.replace(
        empty,
        texts=len(rows),
        identical=int(identical.sum()),
        shared=int(shared.sum()),
        near=near,
    )


def _held(
    splits: Sequence[str],
    within: str,
    sources: Mapping[str, list[Source]],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
    side: int,
) -> dict[str, NDArray[np.bool_]]:
    """By split, bool [n]: texts that a text of another split holds, found in one pass over that."""
    texts = {split: _texts(sources[split], read, side) for split in splits}
    if not any(texts.values()):
        return {split: np.zeros(0, np.bool_) for split in splits}
    watched = HeldoutIndex.of_texts(text for split in splits for text in texts[split])
    leaks = find_leaks(
        watched, sources[within], read, spool, engine, machine, translations=side == 1
    )
    numbers = {split: watched.numbers(texts[split]) for split in splits}
    return {split: np.isin(n, leaks.watched) & (n >= 0) for split, n in numbers.items()}


def _texts(sources: Sequence[Source], read: ReadPlan, side: int) -> list[str]:
    """One side of every usable row, in reading order."""
    return [
        str(row.translation) if side else row.text
        for shard in corpus.shards(sources, read)
        for row in corpus.rows(shard, read)
        if isinstance(row, Document)
    ]


def _places(folder: Path, read: ReadPlan) -> tuple[dict[str, list[str]], ReadPlan]:
    """The inputs of each split in a folder, and how they are read."""
    if not folder.is_dir():
        raise InputError(
            f"--check must be a folder with files named train, dev and test; got {str(folder)!r}, "
            "which is no folder."
        )
    manifest = SplitFolder(folder).finished()
    if manifest is not None and manifest.get("command") == "split":
        given = {name: [split_input(folder, found)] for name, found in manifest["splits"].items()}
        return given, dataclasses.replace(read, **manifest["read"])
    entries: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        split = split_of(entry)
        if split and not entry.name.startswith("."):
            entries.setdefault(split, []).append(entry)
    if not entries:
        here = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise InputError(
            f"--check {folder} must hold files named train, dev and test; it holds {here}."
        )
    return {split: _inputs(folder, split, found) for split, found in entries.items()}, read


def _inputs(folder: Path, split: str, entries: Sequence[Path]) -> list[str]:
    """The input that a split's files are."""
    if all(entry.is_dir() or format_of(entry.name) for entry in entries):
        return list(map(str, entries))
    if len(entries) == 2 and not any(entry.is_dir() for entry in entries):
        return [f"pair:{entries[0]},{entries[1]}"]
    raise InputError(
        f"--check {folder} must have for {split} two line-aligned files ({split}.de, {split}.en), "
        f"or files of rows; it has {', '.join(entry.name for entry in entries)}."
    )
