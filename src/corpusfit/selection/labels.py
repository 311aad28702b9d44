"""Row labels, for methods that score by label and for whoever holds scores against them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.errors import ChangedInputError, InputError, UsageError, bad_setting
from corpusfit.core.manifest import locked, undamaged
from corpusfit.core.plan import Plan, ReadPlan
from corpusfit.core.types import Document, Reject, Shard, Source
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder, tallies
from corpusfit.text import load_format, rows
from corpusfit.text.context import Machine, Run
from corpusfit.text.fields import label_of
from corpusfit.text.input import Input
from corpusfit.text.reading import Tally

NONE = "(none)"
"""Label of rows whose field is missing, empty, or not a string, a number or a boolean."""


def labels_of(
    shard: Shard, read: ReadPlan, wanted: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct labels of a shard's rows, and each row's index [n] among them."""
    number: dict[str, int] = {}
    row_numbers: list[int] = []
    places: list[int] = []
    for row, label in _labeled(shard, read):
        row_numbers.append(row)
        places.append(number.setdefault(label, len(number)))
    different, nth = np.unique(wanted, return_inverse=True)
    if not np.array_equal(different, row_numbers):
        raise different_shards(read.id_field)
    return list(number), np.array(places, np.int64)[nth]


def labels_at(shard: Shard, read: ReadPlan, wanted: NDArray[np.int64]) -> list[str]:
    """The labels of some rows, int64 [n]; `read.id_field` is the label's field."""
    needed = set(wanted.tolist())
    labels = {row: label for row, label in _labeled(shard, read) if row in needed}
    return [labels[row] for row in wanted.tolist()]


def _labeled(shard: Shard, read: ReadPlan) -> Iterator[tuple[int, str]]:
    """The rows of a shard and their labels."""
    try:
        for row in rows(shard, read):
            if isinstance(row, Document):
                yield row.row, label_of(row.value) or NONE
    except ChangedInputError:
        if load_format(shard.format).cut_by_text:
            raise
        raise different_shards(read.id_field) from None


def labeled_scores(path: Path, field: str, machine: Machine) -> Iterator[pa.Table]:
    """The parts of a run's scores in order, each with the labels of its segments as a column."""
    folder = SelectionFolder(path)
    with (
        locked(folder.work, "labels", shared=True),
        undamaged(path),
        machine.running(folder.work) as run,
    ):
        manifest = folder.require_scored()
        # the label is read in place of the id
        read = dataclasses.replace(Plan.from_dict(manifest["plan"]).read, id_field=field)
        run.engine.require_shared(folder.work, "DIR")
        sources = [Source(**source) for source in manifest["corpus"]]
        texts = Input(run.find_again(sources, read, folder.path), read)
        scored = {shard for shard, _ in tallies(folder)}

        def scored_shards() -> Iterator[Shard]:
            for shard in run.shards(texts):
                if shard.index not in scored:
                    raise different_shards(field)
                yield shard

        job = partial(_labels_of_part, folder.scores, read, texts.names)
        ahead: dict[int, pa.DictionaryArray] = {}
        order = iter(sorted(scored))
        due = next(order, None)
        labeled = False
        with run.stage("read labels", texts.size):
            for part, labels in run.map(job, scored_shards()):
                ahead[part] = labels
                labeled = labeled or labels.dictionary.to_pylist() not in ([], [NONE])
                while due in ahead:
                    of_part = table.read(table.part_path(folder.scores, due))
                    yield of_part.append_column("label", ahead.pop(due))
                    due = next(order, None)
        if run.shard_count != len(scored):
            raise different_shards(field)
        if not labeled:
            raise _no_labels(run, texts, field)


def _labels_of_part(
    scores: Path, read: ReadPlan, names: tuple[str, ...], shard: Shard
) -> tuple[int, pa.DictionaryArray]:
    wanted = table.read_rows(table.part_path(scores, shard.index), Tally.of(shard).sources(names))
    labels, places = labels_of(shard, read, wanted)
    return shard.index, pa.DictionaryArray.from_arrays(places, pa.array(labels, pa.string()))


def _no_labels(run: Run, texts: Input, field: str) -> UsageError:
    # reading the field as the text names the fields of a row
    read = dataclasses.replace(texts.read, text_field=field)
    refused = (r.reason for r in rows(next(run.shards(texts)), read) if isinstance(r, Reject))
    fields = next((reason.detail for reason in refused if reason.fields), "")
    return bad_setting(
        "The field of a label",
        "one that holds a string, a number or a boolean",
        field,
        f"In the first row without this field, {fields}." if fields else "",
    )


def different_shards(field: str) -> InputError:
    """The error for a corpus that is cut into other shards if another field is read."""
    # This happens for hub datasets, whose rows are stored with the requested fields only.
    return InputError(
        f"Reading the field {field!r} cuts the corpus into other shards. Score the corpus with "
        f"`read.id_field={field}`, and another `out` if it is scored."
    )


def shown(labels: Iterable[str]) -> str:
    """A few labels for a message."""
    few = sorted({label[:40] for label in labels})
    return ", ".join(map(repr, few[:_SHOWN])) + (", …" if len(few) > _SHOWN else "")


_SHOWN = 8
