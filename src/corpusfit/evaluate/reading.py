"""Read a labelled task: its splits, made where they are missing, and its labels."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

import numpy as np

from corpusfit.errors import InputError
from corpusfit.evaluate.formats.brat import read_brat
from corpusfit.evaluate.formats.conll import read_conll
from corpusfit.evaluate.formats.labelled import Labelled
from corpusfit.evaluate.formats.rows import read_rows
from corpusfit.evaluate.formats.tags import as_bio, scheme, strays
from corpusfit.evaluate.plan import TaskPlan
from corpusfit.evaluate.splits import FORMS, SPLITS, TaskFiles, find_splits
from corpusfit.evaluate.task import Examples, Task, nested_places
from corpusfit.kernels.chance import place_keys

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_APART = 1  # random numbers apart from those of `nested_places`


def read_task(place: str, plan: TaskPlan, *, seed: int) -> Task:
    """Read a task; its notes say what was skipped, split or converted.

    `task_digest` covers the notes, so a change of their wording changes the identity of a run.

    Args:
        place: a folder with files or folders named train, dev (or valid, validation, val, devel)
            and test; a file, which is split; or `hub:NAME[:CONFIG]`.
        plan: fields, kind, and the shares of missing splits.
        seed: random seed of missing splits and of `dev_size`.

    Raises:
        InputError: the train split is missing or has a single label, or a file's contents do not
            match its name.
        EmptyInputError: a split has no usable example.
        UsageError: a setting is not allowed, or the kind does not match the files.
        MissingDependencyError: the place is a dataset and `datasets` is not installed.
    """
    plan.check()
    found = find_splits(place, plan.kind)
    kind = FORMS[found.form]
    splits = {split: _read(found, split, plan) for split in found.places}
    notes = [note for labelled in splits.values() for note in labelled.notes]
    if kind == "tagging":
        splits, converted = _in_bio(splits)
        notes += converted
    splits, made = _with_all(splits, plan, seed)
    notes += made
    labels, learnable = _labels(splits, kind)
    notes += _unlearned(splits, set(labels[learnable:]))
    examples = {split: _numbered(splits[split], labels) for split in SPLITS}
    dev = examples["dev"]
    if 0 < plan.dev_size < len(dev):
        examples["dev"] = dev.take(nested_places(len(dev), plan.dev_size, seed))
        notes.append(f"{plan.dev_size:,} of {len(dev):,} dev examples are looked at (seed {seed}).")
    return Task(found.name, kind, labels, learnable, **examples, notes=tuple(notes))


def _read(found: TaskFiles, split: str, plan: TaskPlan) -> Labelled:
    places = found.places[split]
    if found.form == "rows":
        return read_rows(places, plan, split)
    return read_conll(places, split) if found.form == "conll" else read_brat(places, split)


def _in_bio(splits: dict[str, Labelled]) -> tuple[dict[str, Labelled], list[str]]:
    """The splits with tags in BIO, and notes on conversions."""
    written = scheme(tags for labelled in splits.values() for tags in labelled.labels)
    changed = {
        split: dataclasses.replace(labelled, labels=list(map(as_bio, labelled.labels)))
        for split, labelled in splits.items()
    }
    if written != "bio":
        name = "IOB1" if written == "iob1" else "BIOES"
        note = f"Entities were tagged as {name} and are now as BIO; they are the same ones."
        return changed, [note]
    odd = {split: sum(map(strays, labelled.labels)) for split, labelled in splits.items()}
    return changed, [
        f"Entities of {split} that begin with I-, without a B- before, begin with B- now; they are "
        f"the same ones ({n:,})."
        for split, n in odd.items()
        if n
    ]


def _with_all(
    splits: dict[str, Labelled], plan: TaskPlan, seed: int
) -> tuple[dict[str, Labelled], list[str]]:
    """All splits, missing ones taken from train, and notes on those."""
    train = splits["train"]
    n = len(train)
    missing = [split for split in ("test", "dev") if split not in splits]
    order = np.argsort(place_keys(seed, _APART, n), kind="stable")
    made, notes, used = dict(splits), [], 0
    for split in missing:
        share = plan.dev_share if split == "dev" else plan.test_share
        size = max(1, round(share * n))
        made[split] = _take(train, np.sort(order[used : used + size]).tolist())
        used += size
        notes.append(
            f"No {split} split: {size:,} of {n:,} training examples were set aside (seed {seed})."
        )
    if used >= n:
        raise InputError(
            f"--task must have more training examples than {' and '.join(missing)} take; it has "
            f"{n:,}, they take {used:,}. Add examples, or lower task.dev_share and task.test_share."
        )
    if missing:
        made["train"] = _take(train, np.sort(order[used:]).tolist())
    return made, notes


def _take(labelled: Labelled, places: list[int]) -> Labelled:
    return Labelled([labelled.pieces[i] for i in places], [labelled.labels[i] for i in places])


def _labels(splits: dict[str, Labelled], kind: str) -> tuple[tuple[str, ...], int]:
    """The labels of train in order, then all others; and the number of train's labels."""
    of = {split: _different(labelled) for split, labelled in splits.items()}
    learned = of["train"]
    others = set.union(*of.values()) - learned
    if kind == "tagging":
        if not learned - {"O"}:
            raise InputError(
                "--task must have entities in train; every word of train is tagged O. Check the "
                "tags of the train split."
            )
        labels = ["O", *_in_order(learned - {"O"})]
        others.discard("O")
    else:
        if len(learned) < 2:
            raise InputError(
                f"--task must have two or more labels in train; all {len(splits['train']):,} "
                f"examples have the label {next(iter(learned))!r}. Check --label-field."
            )
        labels = _in_order(learned)
    return (*labels, *_in_order(others)), len(labels)


def _different(labelled: Labelled) -> set[str]:
    return {label for labels in labelled.labels for label in labels}


def _in_order(labels: set[str]) -> list[str]:
    """Sorted by value if all labels are numbers, otherwise as strings."""
    if all(map(_NUMBER.fullmatch, labels)):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)


def _unlearned(splits: dict[str, Labelled], others: set[str]) -> Iterator[str]:
    """Notes on labels of dev and test that are not in train."""
    for split in ("dev", "test"):
        labelled = splits[split]
        here = others & _different(labelled)
        if here:
            n = sum(not others.isdisjoint(labels) for labels in labelled.labels)
            few = ", ".join(map(repr, _in_order(here)[:8])) + (", …" if len(here) > 8 else "")
            yield (
                f"{split} has {_labels_in_words(len(here))} that train lacks and no model can "
                f"learn: {few} ({n:,} of {len(labelled):,} examples)."
            )


def _labels_in_words(n: int) -> str:
    return "a label" if n == 1 else f"{n:,} labels"


def _numbered(labelled: Labelled, labels: Iterable[str]) -> Examples:
    number = {label: i for i, label in enumerate(labels)}
    return Examples(labelled.pieces, [[number[label] for label in of] for of in labelled.labels])
