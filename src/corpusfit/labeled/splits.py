"""Find the files of a labeled task by split, and their format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import InputError, bad_setting, near_name, raise_machine_fault
from corpusfit.labeled.formats import Labeled
from corpusfit.labeled.formats.brat import read_brat
from corpusfit.labeled.formats.conll import read_conll, read_conllu
from corpusfit.labeled.formats.words import SUFFIXES, Fields, read_tokens
from corpusfit.text.contract import format_of, suffixes
from corpusfit.text.files import is_data, unpacked_name
from corpusfit.text.formats import hub

SPLITS = ("train", "dev", "test")
# The formats of a task.
FORMS = ("rows", "conll", "conllu", "brat", "tokens", "texts")
_NAMES = {
    "train": "train",
    **dict.fromkeys(("dev", "devel", "valid", "validation", "val"), "dev"),
    "test": "test",
}
_CONLL = (".conll", ".bio", ".iob", ".iob2")
_OTHERS = (*_CONLL, ".conllu", ".json")
_PART = re.compile(r"(.+?)-\d+-of-\d+")
_PAIR = {".txt", ".ann"}
_SHEET = ".xlsx"
READERS: dict[str, Callable[[Sequence[str], str, Fields], Labeled]] = {
    "conll": lambda places, split, _: read_conll(places, split),
    "conllu": lambda places, split, fields: read_conllu(places, split, fields.label),
    "brat": lambda places, split, _: read_brat(places, split),
    "tokens": read_tokens,
}
"""The readers of formats of words with labels, by format."""


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task."""

    name: str  # name of the folder, file or dataset
    form: str  # one of `FORMS`
    places: dict[str, list[str]]  # files of each split, or a dataset's split as `hub:NAME@SPLIT`


def find_splits(source: str, setting: str = "`task`", forms: tuple[str, ...] = FORMS) -> TaskFiles:
    """Find the files of a task's splits; what is found may be of another form than of `forms`."""
    search = _Search(forms, setting, "test" if forms == ("texts",) else "train")
    if source.startswith(hub.PREFIX):
        return search.dataset(source)
    if "://" in source:
        raise bad_setting(setting, "a local folder or file, or hub:NAME", source)
    return search.local(user_path(source))


@dataclass(frozen=True)
class _Search:
    """A search for splits."""

    forms: tuple[str, ...]  # the formats of the kind
    setting: str  # the setting's name, for errors
    needed: str  # the split that a task must have, and all of a place without splits

    @property
    def wanted(self) -> str:
        """The names of the splits, for messages."""
        return "train, dev and test" if self.needed == "train" else "test, or train and dev too"

    def dataset(self, source: str) -> TaskFiles:
        """The splits of a dataset; `hub:NAME@SPLIT` is all of the needed one."""
        name = source.removeprefix(hub.PREFIX)
        form = next(form for form in ("rows", "texts", "tokens") if form in self.forms)
        splits, named = hub.splits(source, self.setting)
        if named:
            return TaskFiles(name, form, {self.needed: [source]})
        places: dict[str, list[str]] = {}
        for split in splits:
            if split in _NAMES:
                places.setdefault(_NAMES[split], []).append(f"{source}@{split}")
        if any(len(parts) > 1 for parts in places.values()) or self.needed not in places:
            raise InputError(
                f"{self.setting} must be a dataset with the splits {self.wanted}; {source} "
                f"has {', '.join(splits) or 'none'}. Name one of them: {source}@SPLIT."
            )
        return TaskFiles(name, form, places)

    def local(self, path: Path) -> TaskFiles:
        """The splits of a folder; all of a single file is the needed split."""
        try:
            if path.is_dir():
                return self.folder(path)
            if path.is_file():
                files = [path]
                if path.suffix in _PAIR:
                    files = [p for p in map(path.with_suffix, sorted(_PAIR)) if p.is_file()]
                form = self.form(path, files)
                return TaskFiles(_stem(path.absolute()), form, {self.needed: list(map(str, files))})
        except OSError as e:
            raise_machine_fault(e)
            raise InputError(f"{self.setting} {path} cannot be read: {e.strerror or e}.") from e
        raise InputError(
            f"{self.setting} must be a folder with splits, a file, or a Hugging Face dataset "
            f"(hub:OWNER/NAME); {path} does not exist{near_name(path)}."
        )

    def folder(self, folder: Path) -> TaskFiles:
        """The splits of a folder by the names of its files and folders."""
        entries: dict[str, list[Path]] = {}
        for entry in sorted(folder.iterdir()):
            split = split_of(entry)
            known = form_of_name(entry.name, self.forms) or entry.suffix == _SHEET
            if split and (entry.is_dir() or known):
                entries.setdefault(split, []).append(entry)
        if not entries and any(p.suffix == ".ann" for p in _visible(folder)):
            entries["train"] = [folder]  # a brat collection without splits
        if self.needed not in entries:
            names_of_entries = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
            raise InputError(
                f"{self.setting} {folder} must hold files or folders named {self.wanted}; it "
                f"holds {names_of_entries}. Supported: {_suffixes(*_OTHERS)}, and .txt with .ann."
            )
        files = {split: self.files(split, entries[split]) for split in SPLITS if split in entries}
        forms = {
            split: {self.form(f, of_split) for f in of_split} for split, of_split in files.items()
        }
        if len(set.union(*forms.values())) > 1:
            few = "; ".join(f"{split}: {', '.join(sorted(form))}" for split, form in forms.items())
            raise InputError(
                f"{self.setting} {folder} must hold all splits in one format; it has {few}. "
                "Convert or remove some."
            )
        form = next(iter(forms[self.needed]))
        name = folder.absolute().resolve().name
        return TaskFiles(name, form, {s: list(map(str, of_split)) for s, of_split in files.items()})

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
        supported = [p for p in _visible(entries[0]) if form_of_name(p.name, self.forms)]
        if not supported:
            raise InputError(
                f"{self.setting} must hold files of a supported format; {entries[0]} has none. "
                f"Supported: {_suffixes(*_OTHERS)}, and .txt with .ann."
            )
        others = [p for p in supported if p.suffix != ".txt"]
        if others and not any(p.suffix == ".ann" for p in others):
            return others  # plain text next to them may be a README
        return supported

    def form(self, path: Path, siblings: list[Path]) -> str:
        """The format of a file; a `.txt` is brat if the split has an `.ann`."""
        form = form_of_name(path.name, self.forms)
        if path.suffix in _PAIR and any(other.suffix == ".ann" for other in siblings):
            return "brat"
        if not form:
            cure = "Rename it by its format."
            if path.suffix == _SHEET:
                cure = "Save its sheet as tab-separated text whose name ends in .conll."
            raise InputError(
                f"{self.setting} must be a file whose name ends in {_suffixes(*_OTHERS)}, or "
                f".txt with .ann; got {path.name}. {cure}"
            )
        return form


def _visible(folder: Path) -> Iterator[Path]:
    """All files below a folder, sorted, without those that are no data by their names."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and all(map(is_data, path.relative_to(folder).parts)):
            yield path


def _stem(path: Path) -> str:
    """The name without suffixes and part number."""
    name = path.name if path.is_dir() else path.name.partition(".")[0]
    part = _PART.fullmatch(name)
    return part[1] if part else name


def split_of(entry: Path) -> str:
    """The split that a file or folder is named after; empty if none."""
    # Universal Dependencies has names such as `ro_simonero-ud-train.conllu`.
    return _NAMES.get(_stem(entry).lower().rpartition("-ud-")[2], "")


def form_of_name(name: str, forms: Collection[str] = FORMS) -> str:
    """The format of a file by its suffix; empty if unsupported. `.txt` is CoNLL here."""
    plain, _ = unpacked_name(name.lower())
    if forms == ("texts",):
        return "texts" if format_of(name) else ""
    if plain.endswith((*_CONLL, ".txt")) or ("rows" not in forms and plain.endswith(".tsv")):
        return "conll"
    for form, suffix in (("conllu", ".conllu"), ("brat", ".ann")):
        if name.lower().endswith(suffix):
            return form
    if plain.endswith(".json") or ("rows" not in forms and plain.endswith(SUFFIXES)):
        return "tokens"
    return "rows" if format_of(name) else ""


def in_words(form: str) -> str:
    """A format of a task with its suffixes, for messages."""
    descriptions = {
        "conll": f"CoNLL columns ({', '.join(_CONLL)})",
        "conllu": "CoNLL-U (.conllu)",
        "brat": "brat (.txt with .ann)",
        "tokens": f"rows of words and tags ({', '.join(SUFFIXES)} or {hub.PREFIX}NAME)",
        "texts": f"rows or plain text ({_suffixes('.txt')} or {hub.PREFIX}NAME)",
    }
    return descriptions.get(form) or f"rows ({_suffixes()} or {hub.PREFIX}NAME)"


def _suffixes(*others: str) -> str:
    """The suffixes of files of rows, and others, for messages."""
    return ", ".join([*(s for s in suffixes() if form_of_name(s, FORMS) == "rows"), *others])
