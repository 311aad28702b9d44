"""Find the splits of a task: which files hold train, dev and test, and in what form.

What: a folder with files or folders of these names, one file, or a Hugging Face dataset.
Why: that is how tasks are published; nothing has to be renamed or described.
Trade-off: what the names do not say is not guessed at: two files for one split are an error, and
so are splits in two forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpusfit.corpus import hub
from corpusfit.corpus.formats import format_of
from corpusfit.corpus.unpack import COMPRESSIONS
from corpusfit.errors import InputError, bad_setting

SPLITS = ("train", "dev", "test")
FORMS = {"rows": "classification", "conll": "tagging", "brat": "tagging"}
"""The forms of a task, and what kind of task each holds."""

_NAMES = {
    "train": "train",
    **dict.fromkeys(("dev", "devel", "valid", "validation", "val"), "dev"),
    "test": "test",
}
_CONLL = (".conll", ".bio", ".iob", ".iob2")
_PART = re.compile(r"(.+?)-\d+-of-\d+")
_PAIR = {".txt", ".ann"}


@dataclass(frozen=True)
class Found:
    """A task before it is read.

    Attributes:
        name: of the folder, the file or the dataset.
        form: a key of `FORMS`.
        places: of each split there is, its files, or a dataset's split as `hub:NAME@SPLIT`.
    """

    name: str
    form: str
    places: dict[str, list[str]]


def find_splits(place: str, kind: str, setting: str = "--task") -> Found:
    """Where the splits of a task are.

    Args:
        place: a folder, a file, or `hub:NAME[:CONFIG]`.
        kind: `auto`, `classification` or `tagging`; with `tagging` a `.tsv` holds CoNLL columns.
        setting: what the place was given as, for errors.

    Raises:
        InputError: it does not exist, has no train split, two for one split, or splits in two
            forms.
        UsageError: the kind is not what the form holds, or the place is not on this machine.
        MissingDependencyError: a dataset was named and `datasets` is not installed.
    """
    search = _Search(kind, setting)
    if place.startswith(hub.PREFIX):
        found = search.dataset(place)
    elif "://" in place:
        raise bad_setting(setting, "a folder or a file on this machine, or hub:NAME", place)
    else:
        found = search.local(Path(place).expanduser())
    if kind not in ("auto", FORMS[found.form]):
        cure = (
            "Words and tags are read from CoNLL columns (.conll) and from brat (.txt with .ann)."
            if kind == "tagging"
            else "Texts with a class are read from rows: .jsonl, .csv, .tsv, .parquet or hub:NAME."
        )
        raise bad_setting("task.kind", f"{FORMS[found.form]} for {place}", kind, cure)
    return found


@dataclass(frozen=True)
class _Search:
    """How splits are looked for: the kind of task, and what the place was given as."""

    kind: str
    setting: str

    def dataset(self, place: str) -> Found:
        """The splits of a dataset; one that is named with a split is all in train."""
        name = place.removeprefix(hub.PREFIX)
        if "@" in name.rpartition("/")[2]:
            return Found(name, "rows", {"train": [place]})
        known = hub.splits(place, self.setting)
        places: dict[str, list[str]] = {}
        for split in known:
            if split in _NAMES:
                places.setdefault(_NAMES[split], []).append(f"{place}@{split}")
        if any(len(found) > 1 for found in places.values()) or "train" not in places:
            raise InputError(
                f"{self.setting} must be a dataset with the splits train, dev and test, or with a "
                f"split named, as {place}@SPLIT; it has {', '.join(known) or 'none'}."
            )
        return Found(name, "rows", places)

    def local(self, path: Path) -> Found:
        try:
            if path.is_file():
                return self.single(path)
            if path.is_dir():
                return self.folder(path)
        except OSError as e:
            raise InputError(f"{self.setting} {path} cannot be read: {e.strerror or e}.") from e
        given = str(path)
        cure = f"; for a Hugging Face dataset say {hub.PREFIX}{given}" if hub.is_id(given) else ""
        raise InputError(
            f"{self.setting} must be a folder with splits, a file, or a Hugging Face dataset "
            f"(hub:NAME); {given} does not exist{cure}."
        )

    def single(self, path: Path) -> Found:
        """A file: all of it is train, and the other splits are made from it."""
        files = [path]
        if path.suffix in _PAIR:
            files = [p for p in (path.with_suffix(s) for s in sorted(_PAIR)) if p.is_file()]
        name = _stem(path.absolute())
        return Found(name, self.form(path, files), {"train": list(map(str, files))})

    def folder(self, folder: Path) -> Found:
        entries: dict[str, list[Path]] = {}
        for entry in sorted(folder.iterdir()):
            split = split_of(entry)
            if split and (entry.is_dir() or form_of_name(entry.name, self.kind)):
                entries.setdefault(split, []).append(entry)
        if not entries and any(p.suffix == ".ann" for p in _visible(folder)):
            entries["train"] = [folder]
        if "train" not in entries:
            here = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
            raise InputError(
                f"{self.setting} {folder} must hold a file or a folder named train, beside dev and "
                f"test; it holds {here}. Readable are {', '.join(_suffixes())}, and .txt with .ann."
            )
        files = {split: self.files(split, entries[split]) for split in SPLITS if split in entries}
        forms = {split: {self.form(f, found) for f in found} for split, found in files.items()}
        if len(set.union(*forms.values())) > 1:
            few = "; ".join(f"{split}: {', '.join(sorted(form))}" for split, form in forms.items())
            raise InputError(
                f"{self.setting} {folder} must hold all splits in one form; it has {few}."
            )
        form = next(iter(forms["train"]))
        name = folder.absolute().resolve().name
        return Found(name, form, {s: list(map(str, found)) for s, found in files.items()})

    def files(self, split: str, entries: list[Path]) -> list[Path]:
        """The files of a split: one, parts of one, a brat pair, or what is in a folder."""
        parts = all(_PART.fullmatch(entry.name.partition(".")[0]) for entry in entries)
        pair = {entry.suffix for entry in entries} == _PAIR and len({e.stem for e in entries}) == 1
        if len(entries) > 1 and not (parts or pair):
            raise InputError(
                f"{self.setting} must have one file or folder for {split}; {entries[0].parent} has "
                f"{', '.join(entry.name for entry in entries)}. Move the others away."
            )
        if not entries[0].is_dir():
            return entries
        found = [p for p in _visible(entries[0]) if form_of_name(p.name, self.kind)]
        if not found:
            raise InputError(
                f"{self.setting} must hold files that can be read; {entries[0]} has none. "
                f"Readable are {', '.join(_suffixes())}, and .txt with .ann."
            )
        others = [p for p in found if p.suffix != ".txt"]
        if others and not any(p.suffix == ".ann" for p in others):
            return others  # plain text beside them is a README, say
        return found

    def form(self, path: Path, beside: list[Path]) -> str:
        """The form of a file among those of its split: with an `.ann` there, `.txt` is brat's."""
        form = form_of_name(path.name, self.kind)
        if path.suffix in _PAIR and any(other.suffix == ".ann" for other in beside):
            return "brat"
        if not form:
            raise InputError(
                f"{self.setting} must be a file whose name ends in {', '.join(_suffixes())}, or "
                f".txt with .ann; got {path.name}. Rename it by what it holds."
            )
        return form


def _visible(folder: Path) -> Iterator[Path]:
    """The files below a folder, sorted, without hidden ones."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in inside):
            yield path


def _stem(path: Path) -> str:
    """The name without suffixes and without the number of a part."""
    name = path.name if path.is_dir() else path.name.partition(".")[0]
    part = _PART.fullmatch(name)
    return part[1] if part else name


def split_of(entry: Path) -> str:
    """The split that a file's or a folder's name stands for; empty if none."""
    return _NAMES.get(_stem(entry).lower(), "")


def form_of_name(name: str, kind: str) -> str:
    """The form that a suffix stands for; empty if none. Plain text with labels is CoNLL.

    Args:
        name: of a file.
        kind: as `find_splits` takes it.
    """
    stem, _, last = name.lower().rpartition(".")
    plain = stem if last in COMPRESSIONS else name.lower()
    if plain.endswith((*_CONLL, ".txt")) or (kind == "tagging" and plain.endswith(".tsv")):
        return "conll"
    if name.endswith(".ann"):
        return "brat"
    return "rows" if format_of(name) else ""


def _suffixes() -> list[str]:
    return [".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", *_CONLL]
