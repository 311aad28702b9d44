"""Find the splits of a task: which files hold train, dev and test, and in what format."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import InputError, bad_setting, raise_machine_fault
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.evaluation.formats.rct import ABSTRACT
from corpusfit.evaluation.formats.tokens import SUFFIXES
from corpusfit.evaluation.registry import load, names
from corpusfit.text.cutting import BOM
from corpusfit.text.formats import hub
from corpusfit.text.registry import format_of, suffixes
from corpusfit.text.sources import is_pair
from corpusfit.text.unpack import Stream, unpacked_name

SPLITS = ("train", "dev", "test")
FORMS = ("rows", "conll", "conllu", "xlsx", "brat", "tokens", "rct", "pairs", "texts")
"""The formats of a task."""

_NAMES = {
    "train": "train",
    **dict.fromkeys(("dev", "devel", "valid", "validation", "val"), "dev"),
    "test": "test",
}
_CONLL = (".conll", ".bio", ".iob", ".iob2")
_OTHERS = (*_CONLL, ".conllu", ".xlsx", ".json")
_PART = re.compile(r"(.+?)-\d+-of-\d+")
_PAIR = {".txt", ".ann"}


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task.

    Attributes:
        name: name of the folder, file or dataset.
        form: one of `FORMS`.
        places: files of each split, or a dataset's split as `hub:NAME@SPLIT`.
    """

    name: str
    form: str
    places: dict[str, list[str]]


def find_splits(place: str, kind: str, setting: str = "`task`") -> TaskFiles:
    """Find the files of a task's splits."""
    forms = FORMS if kind == "auto" else load(kind).forms
    pairs = find_pairs(place, setting, only=forms == ("pairs",)) if "pairs" in forms else None
    if pairs is not None:
        return pairs
    place = hub.with_prefix(place)
    search = _Search(forms, setting, "test" if forms == ("texts",) else "train")
    if place.startswith(hub.PREFIX):
        found = search.dataset(place)
    elif "://" in place:
        raise bad_setting(setting, "a local folder or file, or hub:NAME", place)
    else:
        found = search.local(user_path(place))
    if found.form not in forms:
        fitting = " or ".join(name for name in names() if found.form in load(name).forms)
        cure = f"A task of this kind is {' or '.join(_in_words(form) for form in forms)}."
        raise bad_setting("`task.kind`", f"{fitting} for {place}", kind, cure)
    return found


def find_pairs(place: str, setting: str, *, only: bool) -> TaskFiles | None:
    """The files of a translation task; None if a place is no such task.

    Two files of a split with endings that are no format are line-aligned: `test.de`, `test.en`.
    """
    path = user_path(place)
    if is_pair(place) or (only and path.is_file()):
        return TaskFiles(_stem(Path(place.partition(",")[0])), "pairs", {"test": [place]})
    if not path.is_dir():
        return None
    files: dict[str, list[Path]] = {}
    for entry in sorted(path.iterdir()):
        if split_of(entry) and entry.is_file():
            files.setdefault(split_of(entry), []).append(entry)
    aligned = [not any(form_of_name(f.name) for f in own) for own in files.values()]
    if not only and not (files and all(aligned) and {*map(len, files.values())} == {2}):
        return None
    here = ", ".join(f.name for own in files.values() for f in own) or "no file of a split"
    if "test" not in files or max(map(len, files.values())) > 2:
        raise InputError(
            f"{setting} {place} must hold test as two line-aligned files such as test.de and "
            f"test.en, or as one .tsv or file of rows, and may hold dev and train; it holds {here}."
        )
    places = {split: list(map(str, files[split])) for split in SPLITS if split in files}
    return TaskFiles(path.absolute().resolve().name, "pairs", places)


@dataclass(frozen=True)
class _Search:
    """A search for splits.

    Attributes:
        forms: the formats of the kind.
        setting: the setting's name, for errors.
        needed: the split that a task must have, and all of a place without splits.
    """

    forms: tuple[str, ...]
    setting: str
    needed: str

    @property
    def wanted(self) -> str:
        """The names of the splits, for messages."""
        return "train, dev and test" if self.needed == "train" else "test, or train and dev too"

    def dataset(self, place: str) -> TaskFiles:
        """The splits of a dataset; `hub:NAME@SPLIT` is all of the needed one."""
        name = place.removeprefix(hub.PREFIX)
        form = next(form for form in ("rows", "texts", "tokens") if form in self.forms)
        if "@" in name.rpartition("/")[2]:
            return TaskFiles(name, form, {self.needed: [place]})
        known = hub.splits(place, self.setting)
        places: dict[str, list[str]] = {}
        for split in known:
            if split in _NAMES:
                places.setdefault(_NAMES[split], []).append(f"{place}@{split}")
        if any(len(found) > 1 for found in places.values()) or self.needed not in places:
            raise InputError(
                f"{self.setting} must be a dataset with the splits {self.wanted}; {place} "
                f"has {', '.join(known) or 'none'}. Name one of them: {place}@SPLIT."
            )
        return TaskFiles(name, form, places)

    def local(self, path: Path) -> TaskFiles:
        try:
            if path.is_file():
                return self.single(path)
            if path.is_dir():
                return self.folder(path)
        except OSError as e:
            raise_machine_fault(e)
            raise InputError(f"{self.setting} {path} cannot be read: {e.strerror or e}.") from e
        raise InputError(
            f"{self.setting} must be a folder with splits, a file, or a Hugging Face dataset "
            f"(OWNER/NAME or hub:NAME); {path} does not exist."
        )

    def single(self, path: Path) -> TaskFiles:
        """A single file: all of it is the needed split."""
        files = [path]
        if path.suffix in _PAIR:
            files = [p for p in (path.with_suffix(s) for s in sorted(_PAIR)) if p.is_file()]
        name = _stem(path.absolute())
        return TaskFiles(name, self.form(path, files), {self.needed: list(map(str, files))})

    def folder(self, folder: Path) -> TaskFiles:
        entries: dict[str, list[Path]] = {}
        for entry in sorted(folder.iterdir()):
            split = split_of(entry)
            if split and (entry.is_dir() or form_of_name(entry.name, self.forms)):
                entries.setdefault(split, []).append(entry)
        if not entries and any(p.suffix == ".ann" for p in _visible(folder)):
            entries["train"] = [folder]
        if self.needed not in entries:
            here = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
            raise InputError(
                f"{self.setting} {folder} must hold files or folders named {self.wanted}; it "
                f"holds {here}. Supported: {_suffixes(*_OTHERS)}, and .txt with .ann."
            )
        files = {split: self.files(split, entries[split]) for split in SPLITS if split in entries}
        forms = {split: {self.form(f, found) for f in found} for split, found in files.items()}
        if len(set.union(*forms.values())) > 1:
            few = "; ".join(f"{split}: {', '.join(sorted(form))}" for split, form in forms.items())
            raise InputError(
                f"{self.setting} {folder} must hold all splits in one format; it has {few}. "
                "Convert or remove some."
            )
        form = next(iter(forms[self.needed]))
        name = folder.absolute().resolve().name
        return TaskFiles(name, form, {s: list(map(str, found)) for s, found in files.items()})

    def files(self, split: str, entries: list[Path]) -> list[Path]:
        """The files of a split: one file, its parts, a brat pair, or the files of a folder."""
        parts = all(_PART.fullmatch(entry.name.partition(".")[0]) for entry in entries)
        pair = {entry.suffix for entry in entries} == _PAIR and len({e.stem for e in entries}) == 1
        if len(entries) > 1 and not (parts or pair):
            raise InputError(
                f"{self.setting} must have one file or folder for {split}; {entries[0].parent} has "
                f"{', '.join(entry.name for entry in entries)}. Remove all but one."
            )
        if not entries[0].is_dir():
            return entries
        found = [p for p in _visible(entries[0]) if form_of_name(p.name, self.forms)]
        if not found:
            raise InputError(
                f"{self.setting} must hold files of a supported format; {entries[0]} has none. "
                f"Supported: {_suffixes(*_OTHERS)}, and .txt with .ann."
            )
        others = [p for p in found if p.suffix != ".txt"]
        if others and not any(p.suffix == ".ann" for p in others):
            return others  # plain text next to them may be a README
        return found

    def form(self, path: Path, siblings: list[Path]) -> str:
        """The format of a file; a `.txt` is brat if the split has an `.ann`."""
        form = form_of_name(path.name, self.forms)
        if path.suffix in _PAIR and any(other.suffix == ".ann" for other in siblings):
            return "brat"
        if form == "conll" and _begins(path, ABSTRACT):
            return "rct"
        if not form:
            raise InputError(
                f"{self.setting} must be a file whose name ends in {_suffixes(*_OTHERS)}, or "
                f".txt with .ann; got {path.name}. Rename it by its format."
            )
        return form


def _visible(folder: Path) -> Iterator[Path]:
    """All files below a folder, sorted, without hidden ones."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in inside):
            yield path


def _stem(path: Path) -> str:
    """The name without suffixes and part number."""
    name = path.name if path.is_dir() else path.name.partition(".")[0]
    part = _PART.fullmatch(name)
    return part[1] if part else name


def split_of(entry: Path) -> str:
    """The split that a file or folder is named after; empty if none.

    Universal Dependencies has names such as `ro_simonero-ud-train.conllu`.
    """
    return _NAMES.get(_stem(entry).lower().rpartition("-ud-")[2], "")


def form_of_name(name: str, forms: Collection[str] = FORMS) -> str:
    """The format of a file by its suffix; empty if unsupported. `.txt` is CoNLL here."""
    plain, _ = unpacked_name(name.lower())
    if forms == ("texts",):
        return "texts" if format_of(name) else ""
    if plain.endswith((*_CONLL, ".txt")) or ("rows" not in forms and plain.endswith(".tsv")):
        return "conll"
    for form, suffix in (("conllu", ".conllu"), ("xlsx", ".xlsx"), ("brat", ".ann")):
        if name.lower().endswith(suffix):
            return form
    if plain.endswith(".json") or ("rows" not in forms and plain.endswith(SUFFIXES)):
        return "tokens"
    return "rows" if format_of(name) else ""


def _begins(path: Path, mark: str) -> bool:
    """Whether the text of a file begins with a mark."""
    source = Source(path.name, str(path), "", unpacked_name(path.name)[1], 0, "")
    return next(iter(Stream(source, ReadPlan())), b"").removeprefix(BOM).startswith(mark.encode())


def _in_words(form: str) -> str:
    """A format of a task with its suffixes, for messages."""
    words = {
        "conll": f"CoNLL columns ({', '.join(_CONLL)})",
        "conllu": "CoNLL-U (.conllu)",
        "xlsx": "sheets of words and tags (.xlsx)",
        "brat": "brat (.txt with .ann)",
        "tokens": f"rows of words and tags ({', '.join(SUFFIXES)} or {hub.PREFIX}NAME)",
        "rct": "PubMed RCT (.txt)",
        "texts": f"rows or plain text ({_suffixes('.txt')} or {hub.PREFIX}NAME)",
        "pairs": "aligned pairs (test.de and test.en, .tsv, rows or pair:FILE,FILE)",
    }
    return words.get(form) or f"rows ({_suffixes()} or {hub.PREFIX}NAME)"


def _suffixes(*others: str) -> str:
    """The suffixes of files of rows, and others, for messages."""
    return ", ".join([*(s for s in suffixes() if form_of_name(s, FORMS) == "rows"), *others])
