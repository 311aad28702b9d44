"""Formats of labeled tasks: CoNLL, brat, folders of classes, rows; each makes a `Labeled`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text.cures import of_encoding
from corpusfit.text.cutting import line_feeds
from corpusfit.text.files import Stream, unpacked_name


@dataclass(frozen=True, eq=False)
class Labeled:
    """n examples of one split."""

    pieces: list[list[str]]  # one text or the words of a sentence of each example
    # labels of each example: one per piece, or whatever the kind of task reads
    labels: list[list[Any]]
    notes: tuple[str, ...] = ()  # notes for the user, one sentence each

    @classmethod
    def of_sentences(
        cls, split: str, sentences: list[list[str]], labels: list[list[Any]]
    ) -> Labeled:
        """The sentences of a split; raises `EmptyInputError` if there are none."""
        if not sentences:
            raise EmptyInputError(f"The {split} split of `task` must hold sentences; it is empty.")
        return cls(sentences, labels)

    def __len__(self) -> int:
        return len(self.pieces)

    def different(self) -> set[Any]:
        """The labels, each once."""
        return {label for labels in self.labels for label in labels}


def whole_text(path: Path) -> str:
    """The text of a file, decompressed; CRLF and a byte order mark are kept."""
    source = Source(path.name, str(path), "", unpacked_name(path.name)[1], 0, "")
    stream = Stream(source, ReadPlan())
    data = line_feeds(b"".join(stream))
    if stream.problem:
        raise InputError(f"{path} cannot be read completely: {stream.problem}.")
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        cure = of_encoding(path.name, str(path), data)
        raise InputError(f"{path}, line {line}: invalid UTF-8. {cure}") from e


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file without their ends, numbered from 1; raises as `whole_text` does."""
    for number, line in enumerate(whole_text(path).removeprefix("\ufeff").split("\n"), 1):
        yield number, line.rstrip("\r")
