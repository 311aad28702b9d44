"""Read a labelled task: its splits, made where they are missing, and its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from corpusfit.core.errors import InputError
from corpusfit.core.languages import USUAL, bleu_tokenizer
from corpusfit.evaluation.contract import Splits, TaskType, in_order
from corpusfit.evaluation.formats.brat import read_brat
from corpusfit.evaluation.formats.conll import read_conll
from corpusfit.evaluation.formats.conllu import read_conllu
from corpusfit.evaluation.formats.labelled import Labelled
from corpusfit.evaluation.formats.pairs import languages_of, read_translations
from corpusfit.evaluation.formats.rct import read_rct
from corpusfit.evaluation.formats.rows import read_rows, read_texts
from corpusfit.evaluation.formats.tokens import given_names, read_tokens
from corpusfit.evaluation.formats.xlsx import read_xlsx
from corpusfit.evaluation.metrics import BINARY
from corpusfit.evaluation.plan import TaskPlan, metric_of
from corpusfit.evaluation.registry import detect, load
from corpusfit.evaluation.splits import SPLITS, TaskFiles, find_splits
from corpusfit.evaluation.task import Examples, Task, nested_places
from corpusfit.kernels.chance import place_keys

READERS: dict[str, Callable[[Sequence[str], str, TaskPlan], Labelled]] = {
    "conll": lambda places, split, _: read_conll(places, split),
    "conllu": lambda places, split, plan: read_conllu(places, split, plan.label_field),
    "xlsx": lambda places, split, _: read_xlsx(places, split),
    "brat": lambda places, split, _: read_brat(places, split),
    "tokens": read_tokens,
    "rct": lambda places, split, _: read_rct(places, split),
    "pairs": read_translations,
    "texts": read_texts,
}
"""The readers of formats whose labels need no kind of task to be understood, by format."""
_APART = 1  # random numbers apart from those of `nested_places`


def read_task(place: str, plan: TaskPlan, *, seed: int) -> Task:
    """Read a task; its notes say what was skipped, split or converted.

    `task_digest` covers the notes, so a change of their wording changes the identity of a run.

    A task that uses no train (translation, plain text) needs only test; its other splits may be
    empty.
    """
    plan.check()
    elsewhere = None if plan.kind == "auto" else load(plan.kind).read(place, plan)
    if elsewhere is not None:
        return elsewhere
    found = find_splits(place, plan.kind)
    task_type, splits = _read(found, plan)
    metric_of(plan, task_type.kind)
    left_out = [note for labelled in splits.values() for note in labelled.notes]
    splits, converted = task_type.prepare(splits, given_names(plan))
    notes = [*left_out, *converted]
    if task_type.uses_train:
        splits, made = _with_all(splits, plan, seed)
        notes += made
        try:
            labels, learnable = task_type.labels(splits)
        except InputError as e:  # perhaps for want of the rows that were left out
            raise InputError(" ".join([e.args[0], *left_out])) from e
        labels = task_type.ordered(labels, plan)
        if plan.metric in BINARY:
            notes.append(f"{', '.join(BINARY)} are of the label {labels[1]!r}.")
        notes += _unlearned(splits, set(labels[learnable:]))
    else:
        splits = {split: splits.get(split, Labelled([], [])) for split in SPLITS}
        labels, learnable = (), 0
        if task_type.parallel:
            source, target = languages_of(found.places["test"], plan)
            tokenizer = bleu_tokenizer(target, (own[0] for own in splits["test"].labels))
            # In the labels, so that outcomes by another tokenizer are not those of this task.
            labels = (source, target) if tokenizer == USUAL else (source, target, tokenizer)
    number = {label: i for i, label in enumerate(labels)}
    examples = {
        split: Examples(own.pieces, [task_type.numbers(of, number) for of in own.labels])
        for split, own in splits.items()
    }
    for split, size in (("dev", plan.dev_size), ("test", plan.test_size)):
        own = examples[split]
        if 0 < size < len(own):
            examples[split] = own.take(nested_places(len(own), size, seed))
            notes.append(f"{size:,} of {len(own):,} {split} examples are looked at (seed {seed}).")
    return Task(
        found.name,
        task_type.kind,
        labels,
        learnable,
        train=examples["train"],
        dev=examples["dev"],
        test=examples["test"],
        notes=tuple(notes),
    )


def _read(found: TaskFiles, plan: TaskPlan) -> tuple[TaskType, Splits]:
    """The type of a task, and the examples of its splits."""
    if found.form in READERS:
        read = READERS[found.form]
        splits = {split: read(places, split, plan) for split, places in found.places.items()}
        return load(detect(found.form, []) if plan.kind == "auto" else plan.kind), splits
    rows = {split: read_rows(places, plan, split) for split, places in found.places.items()}
    if plan.kind == "auto" and rows["train"].holds_words():
        return _read(replace(found, form="tokens"), plan)
    kind = detect(found.form, rows["train"].values()) if plan.kind == "auto" else plan.kind
    task_type = load(kind)
    return task_type, {
        split: own.labelled(task_type.parse, task_type.wants) for split, own in rows.items()
    }


def _with_all(splits: Splits, plan: TaskPlan, seed: int) -> tuple[Splits, list[str]]:
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
            f"`task` must have more training examples than {' and '.join(missing)} take; it has "
            f"{n:,}, they take {used:,}. Add examples, or lower `task.dev_share` and "
            "`task.test_share`."
        )
    if missing:
        made["train"] = _take(train, np.sort(order[used:]).tolist())
    return made, notes


def _take(labelled: Labelled, places: list[int]) -> Labelled:
    return Labelled([labelled.pieces[i] for i in places], [labelled.labels[i] for i in places])


def _unlearned(splits: Splits, others: set[str]) -> Iterator[str]:
    """Notes on labels of dev and test that are not in train."""
    for split in ("dev", "test"):
        labelled = splits[split]
        here = others & labelled.different()
        if here:
            n = sum(not others.isdisjoint(labels) for labels in labelled.labels)
            if all(labels and others.issuperset(labels) for labels in labelled.labels):
                raise InputError(
                    f"`task` must have labels in {split} that are in train too; {split} has only "
                    f"{', '.join(map(repr, in_order(here)[:8]))}. Write them alike in all splits."
                )
            few = ", ".join(map(repr, in_order(here)[:8])) + (", …" if len(here) > 8 else "")
            words = "a label" if len(here) == 1 else f"{len(here):,} labels"
            yield (
                f"{split} has {words} that train lacks and no model can "
                f"learn: {few} ({n:,} of {len(labelled):,} examples)."
            )
