"""A labelled task: what there is to learn, to pick by, and to be judged on.

What: three splits of examples; an example is a list of pieces of text with a label each: one piece
for classification, the words of a sentence for tagging.
Why: one form for both kinds lets everything after reading be written once.
Trade-off: a task is held in memory; the largest of the papers has 180,000 short texts.
Reference: TADPOLE, section 4 (Table 2); mDAPT, section 4.1.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import write_bytes
from corpusfit.kernels.chance import place_keys


@dataclass(frozen=True, eq=False)
class Examples:
    """n examples.

    Attributes:
        pieces: of each example, its one text or its words.
        labels: of each example, the number of each piece's label.
    """

    pieces: list[list[str]]
    labels: list[list[int]]

    def __len__(self) -> int:
        return len(self.pieces)

    def take(self, places: Sequence[int]) -> Examples:
        """Those at some places, in that order."""
        return Examples([self.pieces[i] for i in places], [self.labels[i] for i in places])

    def followed_by(self, others: Examples) -> Examples:
        """These, and then others."""
        return Examples([*self.pieces, *others.pieces], [*self.labels, *others.labels])

    def texts(self) -> list[str]:
        """Each example as one text; words are joined by spaces."""
        return [" ".join(pieces) for pieces in self.pieces]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """int64 [n]: pieces of each example."""
        return np.fromiter(map(len, self.pieces), np.int64, len(self))

    @cached_property
    def flat(self) -> NDArray[np.int32]:
        """int32 [pieces of all examples]: their labels, end to end."""
        return np.fromiter((n for labels in self.labels for n in labels), np.int32)


@dataclass(frozen=True, eq=False)
class Task:
    """A labelled task.

    Attributes:
        name: of its folder or dataset.
        kind: `classification` or `tagging`.
        labels: the names of the labels by number: those of train in order, then any others.
        learnable: how many of the labels train has.
        train: what is learned from.
        dev: what the best epoch is picked by.
        test: what is looked at once, at the end.
        notes: what the user should know of how it was read.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    learnable: int
    train: Examples
    dev: Examples
    test: Examples
    notes: tuple[str, ...] = field(default=())

    def first(self, size: int, seed: int) -> Task:
        """The task with `size` training examples; a smaller draw of a seed is part of a larger."""
        return dataclasses.replace(
            self, train=self.train.take(nested_places(len(self.train), size, seed))
        )


def nested_places(n: int, size: int, seed: int) -> list[int]:
    """The places of `size` of n examples, in order; of one seed, smaller sets lie in larger."""
    order = np.argsort(place_keys(seed, 0, n), kind="stable")
    found: list[int] = np.sort(order[:size]).tolist()
    return found


_SPLITS = ("train", "dev", "test")


def store_task(task: Task, path: Path) -> None:
    """Write a task to one JSON file, for workers.

    Raises:
        StorageError: it cannot be written.
    """
    write_bytes(path, _stored(task))


def task_digest(task: Task) -> str:
    """Hex fingerprint of all that a task is."""
    return hashlib.blake2b(_stored(task), digest_size=16).hexdigest()


def _stored(task: Task) -> bytes:
    fields: dict[str, Any] = {
        f.name: getattr(task, f.name) for f in dataclasses.fields(task) if f.name not in _SPLITS
    }
    return _as_bytes(fields | {name: _plain(getattr(task, name)) for name in _SPLITS})


def load_task(path: Path) -> Task:
    """Read what `store_task` wrote."""
    fields = _from_bytes(path.read_bytes())
    fields |= {name: Examples(**fields[name]) for name in _SPLITS}
    return Task(**{**fields, "labels": tuple(fields["labels"]), "notes": tuple(fields["notes"])})


def store_examples(examples: Examples, path: Path) -> None:
    """Write examples to one JSON file, for workers.

    Raises:
        StorageError: it cannot be written.
    """
    write_bytes(path, _as_bytes(_plain(examples)))


def load_examples(path: Path) -> Examples:
    """Read what `store_examples` wrote."""
    return Examples(**_from_bytes(path.read_bytes()))


def _plain(examples: Examples) -> dict[str, Any]:
    return {"pieces": examples.pieces, "labels": examples.labels}


def _as_bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _from_bytes(data: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return fields
