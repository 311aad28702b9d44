"""A labelled task: train, dev and test examples."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.kernels.chance import place_keys


@dataclass(frozen=True, eq=False)
class Examples:
    """n examples.

    Attributes:
        pieces: one text or the words of a sentence of each example.
        labels: of each example, what the kind of task stores: the label number of each piece, a
            0 or 1 for each label (multilabel), or a number (regression).
    """

    pieces: list[list[str]]
    labels: list[list[Any]]

    def __len__(self) -> int:
        return len(self.pieces)

    def take(self, places: Sequence[int]) -> Examples:
        """Select examples by position, in that order."""
        return Examples([self.pieces[i] for i in places], [self.labels[i] for i in places])

    def followed_by(self, others: Examples) -> Examples:
        """Concatenate with other examples."""
        return Examples([*self.pieces, *others.pieces], [*self.labels, *others.labels])

    def texts(self) -> list[str]:
        """Each example as one text; words are joined by spaces."""
        return [" ".join(pieces) for pieces in self.pieces]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """int64 [n]: number of pieces of each example."""
        return np.fromiter(map(len, self.pieces), np.int64, len(self))

    @cached_property
    def flat(self) -> NDArray[Any]:
        """All labels, end to end: int32, or float64 if one is a float."""
        labels = list(chain.from_iterable(self.labels))
        return np.array(labels, np.float64 if float in set(map(type, labels)) else np.int32)


@dataclass(frozen=True, eq=False)
class Task:
    """A labelled task, held in memory.

    Reference: TADPOLE, section 4 (Table 2); mDAPT, section 4.1.

    Attributes:
        name: name of the folder or dataset.
        kind: kind of the task (`evaluation/tasks/`).
        labels: label names by number: those of train in order, then any others; none for numbers.
        learnable: number of labels in train, or of other outputs of the model.
        train: training examples.
        dev: examples for choosing the best epoch.
        test: examples that are predicted once, at the end.
        notes: notes for the user on how the task was read.
        place: what names it to another library that reads it (`TaskType.read`); empty for files.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    learnable: int
    train: Examples
    dev: Examples
    test: Examples
    notes: tuple[str, ...] = field(default=())
    place: str = ""

    def first(self, size: int, seed: int) -> Task:
        """The task with `size` random training examples; smaller samples are subsets of larger."""
        return dataclasses.replace(
            self, train=self.train.take(nested_places(len(self.train), size, seed))
        )


def nested_places(n: int, size: int, seed: int) -> list[int]:
    """Sorted random positions of `size` of n examples; smaller samples are subsets of larger."""
    order = np.argsort(place_keys(seed, 0, n), kind="stable")
    found: list[int] = np.sort(order[:size]).tolist()
    return found


_SPLITS = ("train", "dev", "test")


def store_task(task: Task, path: Path) -> None:
    """Write a task to one JSON file, for workers."""
    write_bytes(path, _stored(task))


def task_digest(task: Task) -> str:
    """Hex digest of a task's contents, not of its place."""
    plain = _stored(dataclasses.replace(task, place=""))
    return hashlib.blake2b(plain, digest_size=16).hexdigest()


def _stored(task: Task) -> bytes:
    fields: dict[str, Any] = {
        f.name: getattr(task, f.name) for f in dataclasses.fields(task) if f.name not in _SPLITS
    }
    if not task.place:  # so that tasks of files keep their digests
        del fields["place"]
    return _as_bytes(fields | {name: _plain(getattr(task, name)) for name in _SPLITS})


def load_task(path: Path) -> Task:
    """Read a file written by `store_task`."""
    fields = _from_bytes(path.read_bytes())
    fields |= {name: Examples(**fields[name]) for name in _SPLITS}
    return Task(**{**fields, "labels": tuple(fields["labels"]), "notes": tuple(fields["notes"])})


def store_examples(examples: Examples, path: Path) -> None:
    """Write examples to one JSON file, for workers."""
    write_bytes(path, _as_bytes(_plain(examples)))


def load_examples(path: Path) -> Examples:
    """Read a file written by `store_examples`."""
    return Examples(**_from_bytes(path.read_bytes()))


def _plain(examples: Examples) -> dict[str, Any]:
    return {"pieces": examples.pieces, "labels": examples.labels}


def _as_bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _from_bytes(data: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return fields
