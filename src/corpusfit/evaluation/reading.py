"""Read the splits and labels of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from corpusfit.core.errors import EmptyInputError, InputError, bad_setting
from corpusfit.evaluation.answered import AnsweredTaskType
from corpusfit.evaluation.contract import Splits, TaskType, in_order
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.metrics import BINARY
from corpusfit.evaluation.plan import TaskPlan, metric_of
from corpusfit.evaluation.rows import (
    WITHHELD,
    class_names,
    given_names,
    read_rows,
    read_texts,
)
from corpusfit.evaluation.task import Examples, Task, nested_places
from corpusfit.evaluation.tasks import detect, load, names
from corpusfit.kernels.chance import place_keys
from corpusfit.labeled.formats import Labeled
from corpusfit.labeled.formats.words import Fields, TextRowsError
from corpusfit.labeled.splits import FORMS, READERS, SPLITS, TaskFiles, find_splits, in_words

_APART = 1  # a random stream other than that of `nested_places`


def find_files(location: str, kind: str) -> TaskFiles:
    """The files of a task's splits, of a form that its kind reads."""
    forms = FORMS if kind == "auto" else load(kind).forms
    files = find_splits(location, forms=forms)
    if files.form not in forms:
        fitting = " or ".join(name for name in names() if files.form in load(name).forms)
        cure = f"A task of this kind is {' or '.join(in_words(form) for form in forms)}."
        raise bad_setting("`task.kind`", f"{fitting} for {location}", kind, cure)
    return files


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
        files = find_files(location, plan.kind)
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
        if empty := [split for split, labeled in splits.items() if not len(labeled)]:
            cure = WITHHELD if "test" in empty else ""
            why = f"The {empty[0]} split of `task` must hold texts with labels; it has none."
            raise EmptyInputError(" ".join(filter(None, [why, *left_out, *converted, cure])))
        # missing splits are sampled after labels are in one form, so that notes count what is used
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
    if files.form in READERS or files.form == "texts":
        splits = {
            split: _without_kind(files.form, places, split, plan)
            for split, places in files.places.items()
        }
        kind = detect(files.form, []) if plan.kind == "auto" else plan.kind
        return load(kind), splits, given_names(plan)
    rows = {split: read_rows(places, plan, split) for split, places in files.places.items()}
    for name, why in rows["train"].absent.items():
        if all(name in of_split.absent for of_split in rows.values()):
            allowed = "a template whose fields some row has"
            raise bad_setting("`task.text_field`", allowed, plan.text_field, f"Row 0: {why}.")
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


def _without_kind(form: str, places: Sequence[str], split: str, plan: TaskPlan) -> Labeled:
    """The examples of a split in a form whose labels need no kind of task to be understood."""
    if form == "texts":
        return read_texts(places, split, plan)
    try:
        fields = Fields(plan.text_field, plan.label_field, tuple(given_names(plan)))
        return READERS[form](places, split, fields)
    except TextRowsError as e:
        kinds = " or ".join(kind for kind in names() if "rows" in load(kind).forms)
        allowed = f"{kinds} for the texts of {e.source}"
        raise bad_setting("`task.kind`", allowed, "tagging") from e


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
                withheld = f" {WITHHELD}" if split == "test" and unknown == {"-1"} else ""
                raise InputError(
                    f"`task` must have labels in {split} that are in train too; {split} has only "
                    f"{few}. Spell the labels alike in all splits.{withheld}"
                )
            few += ", …" if len(unknown) > 8 else ""
            subject = "a label" if len(unknown) == 1 else f"{len(unknown):,} labels"
            yield (
                f"{split} has {subject} that train lacks and no model can "
                f"learn: {few} ({n:,} of {len(labeled):,} examples)."
            )
