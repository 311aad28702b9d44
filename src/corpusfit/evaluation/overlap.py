"""The folder of a split, hashes of its rows, and how many texts are in two splits."""

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
from corpusfit.core.artifacts import remove, user_path
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import OutFolder, is_inside
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reject, Shard, Source, buffers, file_of, in_file, text_array
from corpusfit.evaluation.decontamination.finder import HeldoutIndex
from corpusfit.evaluation.decontamination.heldout import each_text, with_first_text
from corpusfit.evaluation.decontamination.report import find_leaks
from corpusfit.evaluation.reading import SPLITS, split_of
from corpusfit.text import cures, rows
from corpusfit.text.context import Machine, RunContext
from corpusfit.text.contract import format_of
from corpusfit.text.fields import NoTextError, Row, from_value, text_in
from corpusfit.text.files import is_data
from corpusfit.text.reading import Reasons, Tally, read_shard, require_none_rejected
from corpusfit.text.same_text import exact_keys, text_keys

# The splits whose texts are searched for, by the split that is searched.
_WITHIN = {"train": ("dev", "test"), "dev": ("test",), "test": ()}
_Keyed = tuple[int, Tally, NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]


def with_every_text(sources: Sequence[Source], read: ReadPlan) -> ReadPlan:
    """The plan by which a row's document carries the texts that are not its first."""
    first, *others = each_text(sources, read)
    return first.keeping(tuple(plan.text_field for plan in others))


def texts_of(row: Row, read: ReadPlan) -> list[str] | Reject:
    """All texts of a row that was read by `with_every_text`; each of them must be usable."""
    if isinstance(row, Reject):
        return row
    texts = [row.text]
    for name in read.kept_fields():
        value = (row.fields or {}).get(name)
        try:
            other = from_value(row.row, row.byte, text_in({name: value}, name))
        except NoTextError as e:
            other = Reject(row.row, row.byte, str(e))
        if isinstance(other, Reject):
            return dataclasses.replace(other, reason=f"{other.reason} ({name})")
        texts.append(other.text)
    return texts


@dataclass(frozen=True)
class KeyTexts:
    """Hash the texts of a shard (XXH3); returns its number, counts, rows and both hashes."""

    read: ReadPlan  # of `with_every_text`
    names: tuple[str, ...]

    def __call__(self, shard: Shard) -> _Keyed:
        texts: list[str] = []
        each = 1 + len(self.read.kept_fields())
        if each == 1:
            documents, tally = read_shard(shard, self.read, self.names)
            texts, numbers = documents.texts.to_pylist(), documents.row
        else:
            tally, of_rows = Tally.of(shard), list[int]()
            for row in rows(shard, self.read):
                of_row = texts_of(row, self.read)
                if isinstance(of_row, Reject):
                    tally.rejects.append((row.row, row.byte, of_row.reason))
                else:
                    of_rows.append(row.row)
                    texts += of_row
            tally.documents, numbers = len(of_rows), np.array(of_rows, np.int64)
            if self.read.strict:
                require_none_rejected(tally, self.names)
        exact = exact_keys(*buffers(text_array(texts)))
        keys = text_keys(texts).reshape(-1, each)
        return shard.index, tally, numbers, keys, exact.reshape(-1, each)


@dataclass(frozen=True, eq=False)
class Rows:
    """The n usable rows of some sources, in reading order."""

    shard: NDArray[np.int64]  # int64 [n], number of the row's shard
    source: NDArray[np.int64]  # int64 [n], number of the row's source
    row: NDArray[np.int64]  # int64 [n], number of the row in its source
    place: NDArray[np.int64]  # int64 [n], number of the row in its shard
    keys: NDArray[np.uint64]  # uint64 [n, texts], `text_keys`
    written: NDArray[np.uint64]  # uint64 [n, texts], `exact_keys`
    rejected: Reasons  # why other rows are unusable
    losses: cures.Losses  # them, and the usable rows of their sources

    def __len__(self) -> int:
        return len(self.row)


def key_rows(sources: Sequence[Source], read: ReadPlan, context: RunContext, stage: str) -> Rows:
    """Hash every text, in one pass; holds about 30 bytes per row, 50 for pairs."""
    job = KeyTexts(read, tuple(s.name for s in sources))
    with context.progress.showing(stage, sum(s.size for s in sources)):
        keyed = context.map(job, context.shards_of(sources, read, corpus.packed))
        parts = sorted(keyed, key=lambda part: part[0])
    none = np.empty(0, np.int64)
    nothing = np.empty((0, 1 + len(read.kept_fields())), np.uint64)
    place = np.concatenate([none, *(part[2] for part in parts)])
    first = np.concatenate([none, *(np.full(len(part[2]), part[1].source) for part in parts)])
    source = first + file_of(place)
    rejected, losses, lossy = Reasons(), cures.Losses(), set[int]()
    for _, tally, *_ in parts:
        rejected.add(tally.rejects)
        for row, _, reason in tally.rejects:
            number = tally.source + file_of(row)
            losses.add(sources[number].name, 0, [reason])
            lossy.add(number)
    usable = np.bincount(source, minlength=len(sources))
    for number in lossy:
        losses.add(sources[number].name, int(usable[number]))
    return Rows(
        np.concatenate([none, *(np.full(len(part[2]), part[0]) for part in parts)]),
        source,
        in_file(place),
        place,
        np.concatenate([nothing, *(part[3] for part in parts)]),
        np.concatenate([nothing, *(part[4] for part in parts)]),
        rejected,
        losses,
    )


class SplitFolder(OutFolder):
    """The folder of a split: train, dev, test and rejected rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rejects = path / "rejects.jsonl"

    def part(self, split: str, suffix: str) -> Path:
        """A file of a split."""
        return self.path / f"{split}.{suffix}"

    def _has_work(self) -> bool:
        return (self.work / "files.json").exists() or self.finished() is not None

    def _clear(self) -> None:
        super()._clear()
        self.remove_written()
        remove(self.rejects)


@dataclass(frozen=True)
class SplitOverlap:
    """Number of texts of one split that are in another split, or repeated in their own.

    Attributes:
        data: name of the folder.
        field: which text of the rows, by its field, or of pairs by its language, as `de`; empty
            for rows of one text.
        split: the split whose texts are counted.
        within: the split that is searched; `split` itself for copies after the first.
        texts: number of texts of `split`.
        identical: texts with an exact match, in any Unicode form.
        shared: texts that match after normalization (`corpus.same_text`), `identical` included.
        near: texts with a near-duplicate, `shared` included; None if not counted.
    """

    data: str
    field: str
    split: str
    within: str
    texts: int
    identical: int
    shared: int
    near: int | None


def overlaps(
    folders: Sequence[str], *, read: ReadPlan, near: bool, machine: Machine
) -> list[SplitOverlap]:
    """The overlap table of several folders.

    A text that contains 0.8 of another's 5-grams counts as its near-duplicate, so a sentence within
    a longer one does. Memory: two hashes per text; with `near` also sketches of dev and test.

    Reference: Aharoni and Goldberg (2020), section 3.1 and appendix A.2, Table 8 ("computed using
    the English part of the corpus"): one row here is one figure of that table.
    """
    read.check()
    table = []
    with machine.running() as context:
        for folder in folders:
            places, as_read = _places(user_path(folder), read)
            name = user_path(folder).absolute().name
            table += overlaps_in(name, places, as_read, context, near=near)
    return table


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
        split: context.find(places[split], with_first_text(read), "check")
        for split in SPLITS
        if split in places
    }
    names = {split: _names(files, read) for split, files in sources.items()}
    (first, fields), *others = names.items()
    for split, other in others:
        if other != fields:  # they cannot be compared
            raise InputError(
                f"The splits of {name} must have the same texts; {first} has "
                f"{', '.join(fields) or 'no pairs'}, {split} has {', '.join(other) or 'no pairs'}. "
                "Give each split files with the same suffixes; put others into another folder."
            )
    rows = {
        split: key_rows(files, with_every_text(files, read), context, f"read {split}")
        for split, files in sources.items()
    }
    table: list[SplitOverlap] = []
    for at, field in enumerate(fields):
        for split, counted in rows.items():  # copies after the first
            n = len(counted)
            exact, same = (
                n - len(np.unique(hashes[:, at])) for hashes in (counted.written, counted.keys)
            )
            table.append(SplitOverlap(name, field, split, split, n, exact, same, None))
        for within, splits in _WITHIN.items():
            compared = [split for split in splits if split in rows and within in rows]
            texts = {split: _texts(sources[split], read, at) for split in compared if near}
            contained = {split: np.zeros(0, np.bool_) for split in texts}
            if any(texts.values()):  # `within` is read once for all of them
                watched = HeldoutIndex.of_texts(itertools.chain(*texts.values()))
                searched = each_text(sources[within], read)[at]
                leaks = find_leaks(watched, sources[within], searched, context)
                for split, of_split in texts.items():
                    numbers = watched.numbers(of_split)
                    contained[split] = np.isin(numbers, leaks.watched) & (numbers >= 0)
            for split in compared:
                asking, found_in = rows[split], rows[within]
                identical = np.isin(asking.written[:, at], found_in.written[:, at])
                shared = np.isin(asking.keys[:, at], found_in.keys[:, at])
                table.append(
                    SplitOverlap(
                        name,
                        field,
                        split,
                        within,
                        len(asking),
                        int(identical.sum()),
                        int(shared.sum()),
                        int((shared | contained[split]).sum()) if near else None,
                    )
                )
    return table


def _names(sources: Sequence[Source], read: ReadPlan) -> tuple[str, ...]:
    """The names of the texts of a row: of pairs their languages; empty for rows of one text."""
    if corpus.is_parallel(sources):
        return corpus.sides(sources)
    fields = tuple(plan.text_field for plan in each_text(sources, read))
    return fields if len(fields) > 1 else ("",)


def split_input(folder: Path, entry: Mapping[str, Any]) -> str:
    """The files of a split as an input, from their entry in the manifest of `split`."""
    outside = [name for name in entry["files"] if not is_inside(name)]
    if outside:
        raise InputError(
            f"{folder / 'manifest.json'} must name files of its folder; got {outside[0]!r}. Run "
            "`corpusfit split` again with another `out`."
        )
    files = ",".join(str(folder / name) for name in entry["files"])
    if not entry["pair"]:
        return files
    return f"pair:{files}" + (f":{entry['columns']}" if entry["columns"] else "")


def _texts(sources: Sequence[Source], read: ReadPlan, at: int) -> list[str]:
    """One of the texts of every usable row, in reading order."""
    every = with_every_text(sources, read)
    return [
        texts[at]
        for shard in corpus.shards(sources, every)
        for row in corpus.rows(shard, every)
        if not isinstance(texts := texts_of(row, every), Reject)
    ]


def _places(folder: Path, read: ReadPlan) -> tuple[dict[str, list[str]], ReadPlan]:
    """The inputs of each split in a folder, and how to read them."""
    if not folder.is_dir():
        raise InputError(
            f"`check` must be a folder with files named train, dev and test; got {str(folder)!r}, "
            "which is not a folder."
        )
    # a folder of `split` states how to read its files
    manifest = SplitFolder(folder).finished()
    if manifest is not None and manifest.get("command") == "split":
        places = {name: [split_input(folder, e)] for name, e in manifest["splits"].items()}
        return places, dataclasses.replace(read, **manifest["read"])
    # any other folder: files are assigned to splits by name
    entries: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        split = split_of(entry)
        if split and is_data(entry.name):
            entries.setdefault(split, []).append(entry)
    if not entries:
        names = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise InputError(
            f"`check={folder}` must contain files named train, dev and test; it contains {names}."
        )
    inputs = {}
    for split, files in entries.items():
        if all(entry.is_dir() or format_of(entry.name) for entry in files):
            inputs[split] = list(map(str, files))
        elif len(files) == 2 and not any(entry.is_dir() for entry in files):
            inputs[split] = [f"pair:{files[0]},{files[1]}"]
        else:
            raise InputError(
                f"`check={folder}` must contain for {split} two line-aligned files ({split}.de, "
                f"{split}.en) or files of rows; it contains "
                f"{', '.join(entry.name for entry in files)}."
            )
    return inputs, read
