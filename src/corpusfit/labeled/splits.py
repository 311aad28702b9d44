"""Find the files of a labeled task by split, and their format."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import InputError, bad_setting, near_name, raise_machine_fault
from corpusfit.labeled.formats import Labeled
from corpusfit.labeled.formats.brat import read_brat
from corpusfit.labeled.formats.classes import read_classes
from corpusfit.labeled.formats.conll import read_conll, read_conllu, read_tagged_text
from corpusfit.labeled.formats.words import SUFFIXES, Fields, read_tokens
from corpusfit.text.contract import format_of, load, suffixes
from corpusfit.text.cures import holds_json_lines
from corpusfit.text.files import is_data, unpacked_name
from corpusfit.text.formats import hub

SPLITS = ("train", "dev", "test")
# The formats of a task.
FORMS = ("rows", "conll", "conllu", "brat", "classes", "tokens", "texts")
_NAMES = {
    "train": "train",
    **dict.fromkeys(("dev", "devel", "valid", "validation", "val"), "dev"),
    "test": "test",
}
_CONLL = (".conll", ".bio", ".iob", ".iob2")
_OTHERS = (*_CONLL, ".conllu", ".json")
_PART = re.compile(r"(.+?)-\d+-of-\d+")
_WORDS = re.compile(r"[a-z]+")
_LOOKED_AT = 20  # files in folders of a split that may be columns
_LEVELS = 2  # folders below a task's that may have its splits, as an archive unpacks to
_PAIR = {".txt", ".ann"}
_SHEET = ".xlsx"
_OF_SHEETS = "Save its sheet as tab-separated text whose name ends in .conll."
READERS: dict[str, Callable[[Sequence[str], str, Fields], Labeled]] = {
    "conll": lambda places, split, _: read_conll(places, split),
    "conllu": lambda places, split, fields: read_conllu(places, split, fields.label),
    "brat": lambda places, split, _: read_brat(places, split),
    "classes": lambda places, split, _: read_classes(places, split),
    "tokens": read_tokens,
}
"""The readers of formats that are not rows, by format."""


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
                form = self.form(files, path)
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
        name = folder.absolute().resolve().name
        folder, entries = split_entries(folder, self.forms, self.needed)
        if not entries and any(p.suffix == ".ann" for p in _visible(folder)):
            parts = [p for p in folder.rglob("*") if p.is_dir() and split_of(p)]
            if parts:  # all of them at once would be training examples
                few = ", ".join(str(p.relative_to(folder)) for p in sorted(parts)[:6])
                raise InputError(
                    f"{self.setting} {folder} must hold folders named {self.wanted}; it has them "
                    f"in several folders: {few}. Name one of these folders, or move the folders of "
                    "a split into one."
                )
            entries["train"] = [folder]  # a brat collection without splits
        if self.needed not in entries:
            names_of_entries = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
            raise InputError(
                f"{self.setting} {folder} must hold files or folders named {self.wanted}; it "
                f"holds {names_of_entries}. Supported: {_suffixes(*_OTHERS)}, and .txt with .ann."
            )
        for entry in sorted(folder.iterdir()):
            is_held = entry.is_dir() or (entry.suffix != ".txt" and form_of_name(entry.name))
            if is_held and is_data(entry.name) and _split_within(entry) not in {"", *entries}:
                raise InputError(
                    f"{self.setting} {folder} must name all splits alike; it has "
                    f"{entries[self.needed][0].name} and {entry.name}. Rename {entry.name} to "
                    f"{_split_within(entry)}{entry.suffix * entry.is_file()}, or move it elsewhere."
                )
        files = {split: self.files(split, entries[split]) for split in SPLITS if split in entries}
        forms = {split: self.form(each, entries[split][0]) for split, each in files.items()}
        if len({*forms.values()}) > 1:
            few = "; ".join(f"{split}: {form}" for split, form in forms.items())
            raise InputError(
                f"{self.setting} {folder} must hold all splits in one format; it has {few}. "
                "Convert or remove some."
            )
        form = forms[self.needed]
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
            sheet = next((p for p in _visible(entries[0]) if p.suffix == _SHEET), None)
            raise InputError(
                f"{self.setting} must hold files of a supported format; {entries[0]} has none. "
                f"Supported: {_suffixes(*_OTHERS)}, and .txt with .ann."
                + (f" Of {sheet.name}: {_OF_SHEETS}" if sheet else "")
            )
        others = [p for p in supported if p.suffix != ".txt"]
        if others and not any(p.suffix == ".ann" for p in others):
            return others  # plain text next to them may be a README
        return supported

    def form(self, files: list[Path], top: Path) -> str:
        """The format of the files of a split, in the folder or file `top`.

        A `.txt` is brat if the split has an `.ann`.
        """
        brat = {path.parent for path in files if path.suffix == ".ann"}
        forms = set[str]()
        for path in files:
            form = form_of_name(path.name, self.forms)
            if not form:
                cure = "Rename it by its format."
                if path.suffix == _SHEET:
                    cure = _OF_SHEETS
                raise InputError(
                    f"{self.setting} must be a file whose name ends in {_suffixes(*_OTHERS)}, or "
                    f".txt with .ann; got {path.name}. {cure}"
                )
            # files of another form beside a collection, in folders of their own, are reported
            is_brat = brat and (path.suffix in _PAIR or path.parent not in brat)
            forms.add("brat" if is_brat else form)
        if len(forms) > 1:
            raise InputError(
                f"{self.setting} {files[0].parent} must hold all files in one format; it has "
                f"{', '.join(sorted(forms))}. Convert or remove some."
            )
        (form,) = forms
        # texts in folders of a split, each a class; CoNLL columns may lie so too
        inner = [path for path in files if top.is_dir() and path.parent != top]
        plain = form == "conll" and all(path.suffix == ".txt" for path in files)
        flat = all(path.parent.parent == top for path in inner)
        if plain and not inner and holds_json_lines(str(files[0])):
            moved = shlex.join(["mv", str(files[0]), str(files[0].with_suffix(".jsonl"))])
            raise InputError(
                f"{self.setting} must have rows in files that end in .jsonl; {files[0].name} has "
                f"rows of JSON. Rename each split: {moved}"
            )
        only_words = "conll" in self.forms and "classes" not in self.forms
        if plain and inner and flat and not only_words:
            looked_at = inner[:: -(-len(inner) // _LOOKED_AT)]
            tagged = any(read_tagged_text([str(path)], "") for path in looked_at)
            form = "conll" if tagged else "classes"
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


def _split_within(entry: Path) -> str:
    """The one split that a word of a name names, as in `train-set_1.1`; empty if none."""
    words = _WORDS.findall(_stem(entry).lower())
    splits = {_NAMES[word] for word in words if word in _NAMES}
    return splits.pop() if len(splits) == 1 else ""


def split_entries(
    folder: Path, forms: Collection[str] = FORMS, needed: str = "train", levels: int = _LEVELS
) -> tuple[Path, dict[str, list[Path]]]:
    """The files and folders of each split, and the folder that has them.

    Names that hold that of a split, as `train-set_1.1`, count where none is the `needed` split's
    own. Of a folder without splits and data, that below it counts which alone has splits.
    """
    known = [
        entry
        for entry in sorted(folder.iterdir())
        if entry.is_dir() or form_of_name(entry.name, forms) or entry.suffix == _SHEET
    ]
    for name_split in (split_of, _split_within):
        entries: dict[str, list[Path]] = {}
        for entry in known:
            if split := name_split(entry):
                entries.setdefault(split, []).append(entry)
        if needed in entries:
            return folder, entries
    folders = [entry for entry in known if entry.is_dir() and is_data(entry.name)]
    if levels and all(entry.is_dir() or entry.suffix == ".txt" for entry in known):
        below = [split_entries(entry, forms, needed, levels - 1) for entry in folders]
        having = [(inner, entries) for inner, entries in below if entries]
        if len(having) == 1:
            return having[0]
    return folder, {}


def form_of_name(name: str, forms: Collection[str] = FORMS) -> str:
    """The format of a file by its suffix; empty if unsupported. `.txt` is CoNLL here."""
    plain, _ = unpacked_name(name.lower())
    found = format_of(name)
    readable = found is not None and not load(found[0]).single
    if forms == ("texts",):
        return "texts" if readable else ""
    if plain.endswith((*_CONLL, ".txt")) or ("rows" not in forms and plain.endswith(".tsv")):
        return "conll"
    for form, suffix in (("conllu", ".conllu"), ("brat", ".ann")):
        if name.lower().endswith(suffix):
            return form
    if plain.endswith(".json") or ("rows" not in forms and plain.endswith(SUFFIXES)):
        return "tokens"
    return "rows" if readable else ""


def in_words(form: str) -> str:
    """A format of a task with its suffixes, for messages."""
    descriptions = {
        "conll": f"CoNLL columns ({', '.join(_CONLL)})",
        "conllu": "CoNLL-U (.conllu)",
        "brat": "brat (.txt with .ann)",
        "classes": "a folder of .txt files for each class",
        "tokens": f"rows of words and tags ({', '.join(SUFFIXES)} or {hub.PREFIX}NAME)",
        "texts": f"rows or plain text ({_suffixes('.txt')} or {hub.PREFIX}NAME)",
    }
    return descriptions.get(form) or f"rows ({_suffixes()} or {hub.PREFIX}NAME)"


def _suffixes(*others: str) -> str:
    """The suffixes of files of rows, and others, for messages."""
    return ", ".join([*(s for s in suffixes() if form_of_name(s, FORMS) == "rows"), *others])
