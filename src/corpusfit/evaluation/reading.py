"""Find the files of a labeled task, and read its splits and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import InputError, bad_setting, near_name, raise_machine_fault
from corpusfit.evaluation.answered import AnsweredTaskType
from corpusfit.evaluation.contract import Splits, TaskType, in_order
from corpusfit.evaluation.formats import Labeled
from corpusfit.evaluation.formats.brat import read_brat
from corpusfit.evaluation.formats.conll import read_conll, read_conllu
from corpusfit.evaluation.formats.rows import (
    SUFFIXES,
    class_names,
    given_names,
    read_rows,
    read_texts,
    read_tokens,
)
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.metrics import BINARY
from corpusfit.evaluation.plan import TaskPlan, metric_of
from corpusfit.evaluation.task import Examples, Task, nested_places
from corpusfit.evaluation.tasks import detect, load, names
from corpusfit.kernels.chance import place_keys
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
# The readers of formats whose labels need no kind of task to be understood, by format.
READERS: dict[str, Callable[[Sequence[str], str, TaskPlan], Labeled]] = {
    "conll": lambda places, split, _: read_conll(places, split),
    "conllu": lambda places, split, plan: read_conllu(places, split, plan.label_field),
    "brat": lambda places, split, _: read_brat(places, split),
    "tokens": read_tokens,
    "texts": read_texts,
}
_APART = 1  # a random stream other than that of `nested_places`


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task."""

    name: str  # name of the folder, file or dataset
    form: str  # one of `FORMS`
    places: dict[str, list[str]]  # files of each split, or a dataset's split as `hub:NAME@SPLIT`


def find_splits(source: str, kind: str, setting: str = "`task`") -> TaskFiles:
    """Find the files of a task's splits."""
    forms = FORMS if kind == "auto" else load(kind).forms
    search = _Search(forms, setting, "test" if forms == ("texts",) else "train")
    if source.startswith(hub.PREFIX):
        task = search.dataset(source)
    elif "://" in source:
        raise bad_setting(setting, "a local folder or file, or hub:NAME", source)
    else:
        task = search.local(user_path(source))
    if task.form not in forms:
        fitting = " or ".join(name for name in names() if task.form in load(name).forms)
        cure = f"A task of this kind is {' or '.join(_in_words(form) for form in forms)}."
        raise bad_setting("`task.kind`", f"{fitting} for {source}", kind, cure)
    return task


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


def _in_words(form: str) -> str:
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


def read_task(location: str, plan: TaskPlan, *, seed: int) -> Task:
    """Read a task; its notes list what was skipped, split or converted."""
    # `task_digest` covers the notes, so a change of their wording changes the identity of a run.
    # A task without training needs only test; its other splits may be empty.
    plan.check()
    named = None if plan.kind == "auto" else load(plan.kind)
    own = named.read(location, plan) if isinstance(named, AnsweredTaskType) else None
    labels: tuple[str, ...] = ()
    said: Sequence[str] = ()
    if own is None:
        files = find_splits(location, plan.kind)
        task_type, splits, names = _read(files, plan)
        name = files.name
    else:
        name, examples, labels, said = own
        task_type = load(plan.kind)
        names = given_names(plan)
        splits = {
            split: Labeled([[text] for text, _ in each], [[label] for _, label in each])
            for split, each in examples.items()
        }
    metric_of(plan, task_type.kind)
    left_out = [*said, *(note for labeled in splits.values() for note in labeled.notes)]
    splits, converted = task_type.prepare(splits, names)
    notes = [*left_out, *converted]
    if isinstance(task_type, LearnedTaskType):
        # missing splits are drawn after labels are in one form, so that notes count what is used
        splits, drawn_notes = _with_all(splits, plan, seed)
        notes += drawn_notes
        if why := task_type.unlearnable(splits["train"]):
            # the rows that were skipped may be the reason
            raise InputError(" ".join([why, *left_out]))
        labels, learnable = task_type.labels(splits)
        labels = task_type.ordered(labels, plan)
        if plan.metric in BINARY:
            notes.append(f"{', '.join(BINARY)} are of the label {labels[1]!r}.")
        notes += _unlearned(splits, set(labels[learnable:]))
    else:
        splits = {split: splits.get(split, Labeled([], [])) for split in SPLITS}
        learnable = 0
    number = {label: i for i, label in enumerate(labels)}
    stored = {
        split: Examples(each.pieces, [task_type.numbers(names, number) for names in each.labels])
        for split, each in splits.items()
    }
    for split, size in (("dev", plan.dev_size), ("test", plan.test_size)):
        n = len(stored[split])
        if 0 < size < n:
            stored[split] = stored[split].take(nested_places(n, size, seed))
            notes.append(f"{size:,} of {n:,} {split} examples are looked at (seed {seed}).")
    return Task(
        name,
        task_type.kind,
        labels,
        learnable,
        train=stored["train"],
        dev=stored["dev"],
        test=stored["test"],
        notes=tuple(notes),
    )


def _read(files: TaskFiles, plan: TaskPlan) -> tuple[TaskType, Splits, Sequence[str]]:
    """The type of a task, the examples of its splits, and the names of its label numbers."""
    if files.form in READERS:
        read = READERS[files.form]
        splits = {split: read(places, split, plan) for split, places in files.places.items()}
        kind = detect(files.form, []) if plan.kind == "auto" else plan.kind
        return load(kind), splits, given_names(plan)
    rows = {split: read_rows(places, plan, split) for split, places in files.places.items()}
    if plan.kind == "auto" and rows["train"].holds_words():
        return _read(replace(files, form="tokens"), plan)
    kind = detect(files.form, rows["train"].values()) if plan.kind == "auto" else plan.kind
    task_type = load(kind)
    examples = {
        split: of_split.labeled(task_type.parse, task_type.wants)
        for split, of_split in rows.items()
    }
    if plan.kind == "auto" and rows["train"].holds_whole_decimals():
        note = (
            "The labels of train are whole numbers, written with a decimal point; the task is read "
            f"as {kind}. `task.kind=classification` or `task.kind=regression` decides otherwise."
        )
        examples["train"] = replace(examples["train"], notes=(*examples["train"].notes, note))
    return task_type, examples, class_names(next(iter(files.places.values()))[0], plan)


def _with_all(splits: Splits, plan: TaskPlan, seed: int) -> tuple[Splits, list[str]]:
    """All splits, missing ones taken from train, and notes on those."""
    train = splits["train"]
    n = len(train)
    missing = [split for split in ("test", "dev") if split not in splits]
    order = np.argsort(place_keys(seed, _APART, n), kind="stable")
    complete = dict(splits)
    notes = []
    used = 0
    for split in missing:
        share = plan.dev_share if split == "dev" else plan.test_share
        size = max(1, round(share * n))
        complete[split] = _take(train, np.sort(order[used : used + size]).tolist())
        used += size
        notes.append(
            f"No {split} split: {size:,} of {n:,} training examples were set aside (seed {seed})."
        )
    if used >= n:
        raise InputError(
            f"`task` must have more training examples than {' and '.join(missing)} take; it has "
            f"{n:,}, they take {used:,}. Add examples, or lower `task.dev_share` and "
            "`task.test_share`."
        )
    if missing:
        complete["train"] = _take(train, np.sort(order[used:]).tolist())
    return complete, notes


def _take(labeled: Labeled, places: list[int]) -> Labeled:
    return Labeled([labeled.pieces[i] for i in places], [labeled.labels[i] for i in places])


def _unlearned(splits: Splits, others: set[str]) -> Iterator[str]:
    """Notes on labels of dev and test that train lacks."""
    for split in ("dev", "test"):
        labeled = splits[split]
        unknown = others & labeled.different()
        if unknown:
            n = sum(not others.isdisjoint(labels) for labels in labeled.labels)
            few = ", ".join(map(repr, in_order(unknown)[:8]))
            if all(labels and others.issuperset(labels) for labels in labeled.labels):
                raise InputError(
                    f"`task` must have labels in {split} that are in train too; {split} has only "
                    f"{few}. Write them alike in all splits."
                )
            few += ", …" if len(unknown) > 8 else ""
            subject = "a label" if len(unknown) == 1 else f"{len(unknown):,} labels"
            yield (
                f"{split} has {subject} that train lacks and no model can "
                f"learn: {few} ({n:,} of {len(labeled):,} examples)."
            )
