"""A labeled task, the overlap of its splits, and the outcome of one evaluation on it."""

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
from corpusfit.text.same_text import text_keys

_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class Examples:
    """n examples."""

    pieces: list[list[str]]  # one text or the words of a sentence of each example
    # of each example, what the kind of task stores: the label number of each piece, a 0 or 1 for
    # each label (multilabel), or a number (regression)
    labels: list[list[Any]]

    def __len__(self) -> int:
        return len(self.pieces)

    def take(self, places: Sequence[int]) -> Examples:
        return Examples([self.pieces[i] for i in places], [self.labels[i] for i in places])

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
    """A labeled task, held in memory.

    Reference: TADPOLE, section 4 (Table 2); mDAPT, section 4.1.
    """

    name: str  # name of the folder or dataset
    kind: str  # kind of the task (`evaluation/tasks/`)
    # label names by number: those of train in order, then any others; none for numbers
    labels: tuple[str, ...]
    learnable: int  # number of labels in train, or of other outputs of the model
    train: Examples  # training examples
    dev: Examples  # examples for choosing the best epoch
    test: Examples  # examples that are predicted once, at the end
    notes: tuple[str, ...] = field(default=())  # notes for the user on how the task was read

    def first(self, size: int, seed: int) -> Task:
        """The task with `size` random training examples; smaller samples are subsets of larger."""
        return dataclasses.replace(
            self, train=self.train.take(nested_places(len(self.train), size, seed))
        )


def nested_places(n: int, size: int, seed: int) -> list[int]:
    """Sorted random positions of `size` of n examples; smaller samples are subsets of larger."""
    order = np.argsort(place_keys(seed, 0, n), kind="stable")
    places: list[int] = np.sort(order[:size]).tolist()
    return places


def store_task(task: Task, path: Path) -> None:
    """Write a task to one JSON file, for workers."""
    write_bytes(path, _stored(task))


def task_digest(task: Task) -> str:
    """Hex digest of a task's contents, wherever it is stored."""
    return hashlib.blake2b(_stored(task), digest_size=16).hexdigest()


def _stored(task: Task) -> bytes:
    fields: dict[str, Any] = {
        f.name: getattr(task, f.name) for f in dataclasses.fields(task) if f.name not in _SPLITS
    }
    for name in _SPLITS:
        examples = getattr(task, name)
        fields[name] = {"pieces": examples.pieces, "labels": examples.labels}
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")


def load_task(path: Path) -> Task:
    """Read a file written by `store_task`."""
    fields: dict[str, Any] = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
    fields |= {name: Examples(**fields[name]) for name in _SPLITS}
    return Task(**{**fields, "labels": tuple(fields["labels"]), "notes": tuple(fields["notes"])})


@dataclass(frozen=True)
class Outcome:
    """One fine-tuning of a model, or its answers as it is."""

    # Paired tests need the predictions, not only their score.

    size: int  # number of training examples; 0 where nothing is learned
    seed: int  # random seed of the head, the order and dropout
    # every metric by split (`dev`, `test`) and name, higher is better
    scores: dict[str, dict[str, float]]
    # answer to every piece, end to end, by split (`dev`, `test`): a label number, a 0 or 1 for each
    # label (multilabel), a number (regression), a text (translation), or the bits of a document
    # (language modeling)
    predicted: dict[str, list[Any]]
    # one record per epoch: `epoch`, `loss` (mean, nats) and `dev` (the metric)
    history: list[dict[str, Any]]
    best: int  # epoch of the evaluated weights
    # resolved settings, device and precision, and whether an adapter was trained
    tune: dict[str, Any]
    truncated: dict[str, int]  # number of truncated examples by split
    seconds: float  # wall-clock time
    cpu_seconds: float  # processor time
    examples_per_second: float  # training speed, or that of the answers where nothing is learned
    # cached `TaskType.tally` of a split, where it is slow to compute
    sums: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def one_answer(self) -> bool:
        """Whether all answers on test are equal, a sign that the model learned nothing."""
        return self.one_answer_on("test")

    def one_answer_on(self, split: str) -> bool:
        """Whether all answers on a split are equal."""
        return len({label for label in self.predicted[split] if isinstance(label, int)}) == 1

    def write(self, path: Path) -> None:
        write_bytes(path, json.dumps(dataclasses.asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> Outcome:
        return cls(**json.loads(path.read_text("utf-8")))


NOTABLE = 0.01
"""Share of copies from which they are warned of: fewer move a score by less than a point."""


@dataclass(frozen=True)
class Overlap:
    """Examples of one split that are also in another, or earlier in the same split."""

    split: str  # split whose examples are counted
    within: str  # split that is searched; `split` itself for duplicates
    examples: int  # number of examples of `split`
    shared: int  # examples with a copy, apart from case and punctuation
    share: float  # of the examples, in [0, 1]

    def __str__(self) -> str:
        where = "repeat earlier ones" if self.split == self.within else f"are also in {self.within}"
        counts = f"{self.shared:,} of {self.examples:,} texts ({100 * self.share:.1f} %)"
        return f"{self.split}: {counts} {where}, apart from case and punctuation."


def split_overlaps(task: Task) -> list[Overlap]:
    """Count copies between the splits of a task, then within each.

    Near-duplicates are found by `contamination`.

    Reference: Aharoni and Goldberg (2020), section 3.1, appendix A.2 and Table 8.
    """
    keys = {split: text_keys(getattr(task, split).texts()) for split in _SPLITS}
    overlaps = []
    for split, within in (("dev", "train"), ("test", "train"), ("test", "dev")):
        shared = int(np.isin(keys[split], keys[within]).sum())
        overlaps.append((split, within, shared))
    overlaps += [(split, split, len(k) - len(np.unique(k))) for split, k in keys.items()]
    return [
        Overlap(split, within, n := len(keys[split]), shared, shared / n if n else 0.0)
        for split, within, shared in overlaps
    ]


def notable(overlaps: Sequence[Overlap]) -> list[str]:
    """A sentence for every overlap that is large enough to change a score."""
    return [str(each) for each in overlaps if each.share >= NOTABLE]
