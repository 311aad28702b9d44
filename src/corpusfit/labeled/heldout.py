"""Reads the texts of a task by split, without their labels: to hold out, or to select by."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path
from corpusfit.core.engine import Progress
from corpusfit.core.errors import EmptyInputError, InputError, bad_setting
from corpusfit.core.plan import PAIR, ReadPlan
from corpusfit.core.types import Reject, Source
from corpusfit.labeled.formats.conll import read_tagged_text
from corpusfit.labeled.formats.words import Fields
from corpusfit.labeled.splits import READERS, TaskFiles, find_splits, form_of_name, split_entries
from corpusfit.text import in_memory
from corpusfit.text.context import Machine
from corpusfit.text.contract import format_of
from corpusfit.text.formats import hub
from corpusfit.text.reading import Reasons
from corpusfit.text.rejects import EMPTY_LINE


def held_out(
    inputs: Sequence[str],
    read: ReadPlan,
    progress: Progress,
    *,
    setting: str,
    cure: str = "",
) -> dict[str, list[str]]:
    """The held-out texts, by split.

    Reference: Aharoni and Goldberg (2020), Table 8, for overlaps within a task.
    """
    # An input of one split is held out whole: `hub:NAME@SPLIT`, a folder of brat pairs, a file. A
    # `.tsv` or `.txt` file is read as CoNLL columns if each of its lines ends in a tag. Words of
    # CoNLL columns and of brat are joined by spaces.
    splits: dict[str, list[str]] = {}
    reasons = Reasons()
    plain: list[str] = []
    for source in inputs:
        path = user_path(source)
        is_file = path.is_file()
        if not (
            (is_file and _may_hold_words(path.name)) or _has_splits(source, path, f"`{setting}`")
        ):
            plain.append(source)  # read like a corpus, after all others
            continue
        files = find_splits(source, f"`{setting}`")
        # a single split is named as it was given, and held out whole
        if len(files.places) == 1:
            (places,) = files.places.values()
            parts = {path.name if is_file else files.name: places}
        else:
            prefix = f"{files.name} " if len(inputs) > 1 else ""
            held_splits = _held_out_splits(files, setting, progress)
            parts = {prefix + split: files.places[split] for split in held_splits}
        for name, places in parts.items():
            texts = _words(name, files.form, places)
            if texts is None:
                by_source = _rows(places, read, setting, reasons, progress)
                texts = list(chain.from_iterable(by_source.values()))
            splits.setdefault(name, []).extend(texts)
    if plain:
        for name, texts in _rows(plain, read, setting, reasons, progress).items():
            splits.setdefault(name, []).extend(texts)
    if inputs and not any(splits.values()):
        raise EmptyInputError(
            f"`{setting}` has no usable row ({reasons}). "
            f"{cure or f'Set `{setting}_field` to the field with the text'}, or name other files."
        )
    del reasons.counts[EMPTY_LINE]
    if reasons.counts:
        progress.warn(
            f"{reasons.counts.total():,} rows of `{setting}` have no usable text and are ignored: "
            f"{reasons}."
        )
    return splits


def _held_out_splits(files: TaskFiles, setting: str, progress: Progress) -> list[str]:
    """The splits of a task that models are evaluated on, and train if one is drawn from it."""
    # which part of train is drawn depends on the plan and seed of the evaluation
    held_splits: list[str] = [split for split in ("dev", "test") if split in files.places]
    if len(held_splits) == 2:
        return held_splits
    missing = "test" if held_splits == ["dev"] else "dev"
    progress.note(
        f"`{setting}` {files.name} has no {missing} split. An evaluation draws one from train, so "
        f"all of train is held out too. To hold out only {held_splits[0]}, name its file, or "
        "hub:NAME@SPLIT."
    )
    return ["train", *held_splits]


def as_target(inputs: Sequence[str], field: str, machine: Machine) -> list[str]:
    """The inputs of a target, with each task as its train split.

    A task is a folder with a train and another split, in any format that `evaluate` reads, or a
    file of words and tags. Of these the texts are written to the machine's cache.

    Args:
        inputs: the names of the target.
        field: the field from which the texts of the target are read.
        machine: its cache and its progress.
    """
    target: list[str] = []
    for source in inputs:
        path = user_path(source)
        splits: dict[str, list[Path]] = {}
        with contextlib.suppress(OSError):  # the reader of the target names what it cannot read
            splits = split_entries(path)[1] if path.is_dir() else {}
        of_words = path.is_file() and _may_hold_words(path.name)
        if not of_words and len(splits) < 2:
            target.append(source)
            continue
        files = find_splits(source, "`target`")
        # a file of words is named by its name, as it may be any split
        places = files.places["train"]
        texts = _words(path.name, files.form, places)
        if texts is None:
            target += places
        else:
            target += in_memory.inputs([{field: text} for text in texts], "target", machine, field)
        if others := [split for split in files.places if split != "train"]:
            machine.progress.note(
                f"Target: the train split of {files.name}; its {' and '.join(others)} "
                f"{'is' if len(others) == 1 else 'are'} not read."
            )
    return target


def training_splits(
    data: Sequence[str], task: Sequence[str], progress: Progress
) -> tuple[list[str], list[str]]:
    """The texts of a task for `adapt --then-task`, and its dev and test texts."""
    if list(data) == ["task"]:
        cure = "Leave out `then_task.on`, or name a selection as `data`."
        raise bad_setting("`then_task.on`", "left out with `data=task`", True, cure)
    train: list[str] = []
    heldout: list[str] = []
    for source in task:
        if not _has_splits(source, user_path(source), "`task`"):
            train.append(source)
            continue
        files = find_splits(source, "`task`")
        if files.form != "rows":
            cure = "Write its training texts to a .jsonl file, and name that."
            raise bad_setting("`task`", "rows, such as .jsonl, with `then_task.on`", source, cure)
        train += files.places["train"]
        held_splits: list[str] = [split for split in ("dev", "test") if split in files.places]
        heldout += [each for split in held_splits for each in files.places[split]]
        if len(held_splits) < 2:
            progress.warn(
                f"`task={files.name}` does not have both a dev and a test split. An evaluation "
                "draws the missing one from train, which `then_task.on` trains on. Make all three "
                "with `corpusfit split`."
            )
    return train, heldout


def held_out_of_task(
    places: Sequence[str], read: ReadPlan, progress: Progress
) -> dict[str, list[str]]:
    """The dev and test texts that `training_splits` found, by file; raises as `held_out`."""
    if places:
        progress.note(f"Also in `guard`: the dev and test texts of `task` ({', '.join(places)}).")
    cure = "Set `read.text_field` to the field with the text"
    texts_by_split = held_out(places, read, progress, setting="guard", cure=cure)
    # the keys are part of the identity of stored runs
    return {f"--task {name}": texts for name, texts in texts_by_split.items()}


def _has_splits(source: str, path: Path, setting: str) -> bool:
    """Whether an input may have several splits."""
    if source.startswith(hub.PREFIX):
        return "@" not in source or not hub.splits(source, setting)[1]
    return path.is_dir()


def _may_hold_words(name: str) -> bool:
    """Whether a file of this name may hold words with tags, not rows."""
    return form_of_name(name, tuple(READERS)) in READERS


def _words(name: str, form: str, places: list[str]) -> list[str] | None:
    """The texts of a form that is not rows; None if the files are rows or plain text."""
    form = form if form in READERS else "conll"
    if form == "conll" and not all(map(_may_hold_words, places)):
        return None
    either = all(map(format_of, places))  # plain text or rows, too
    if form == "conll" and either:
        labeled = read_tagged_text(places, name)
        return None if labeled is None else list(map(" ".join, labeled.pieces))
    try:
        return list(map(" ".join, READERS[form](places, name, Fields()).pieces))
    except InputError:
        if either:
            return None
        raise


def _rows(
    places: Sequence[str],
    read: ReadPlan,
    setting: str,
    reasons: Reasons,
    progress: Progress,
) -> dict[str, list[str]]:
    """The texts of rows, or of plain text, by source; of several fields, those of each."""
    first = with_first_text(read)
    sources = corpus.find(places, first, role=setting, note=progress.note)
    by_source: dict[str, list[str]] = {}
    rejected: dict[tuple[int, int], Reject] = {}  # each row once
    for plan in each_text(sources, read):
        for shard in corpus.shards(sources, plan):
            documents, without = corpus.documents(shard, plan)
            for reject in without:
                rejected.setdefault((shard.source, reject.row), reject)
            texts = by_source.setdefault(sources[shard.source].name, [])
            texts.extend(documents.texts.to_pylist())
    reasons.add(Counter(reject.reason for reject in rejected.values()))
    return by_source


def with_first_text(read: ReadPlan) -> ReadPlan:
    """The plan that reads the first of the fields that `text_field` lists."""
    return replace(read, text_field=_listed(read)[0])


def each_text(sources: Sequence[Source], read: ReadPlan) -> list[ReadPlan]:
    """The plans that read the texts of a row: both of aligned pairs, else of each listed field."""
    names = PAIR if corpus.is_parallel(sources) else _listed(read)
    return [replace(read, text_field=name) for name in names]


def _listed(read: ReadPlan) -> list[str]:
    """The fields of `text_field`, separated by commas; a template is one."""
    if "{" in read.text_field:
        return [read.text_field]
    return list(filter(None, map(str.strip, read.text_field.split(",")))) or [read.text_field]
