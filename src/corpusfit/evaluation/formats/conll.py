"""Read CoNLL columns: one word per line with its tag, blank lines between sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.evaluation.formats.labelled import Labelled, lines_of

_BLANKS = re.compile(r"[ \t]+")
TAG = re.compile(r"O|[BIESLU](?:-.*)?")
"""A tag of an entity."""
_DOCUMENT = "-DOCSTART-"
_NO_TYPE = "_"  # seqeval's name


def read_conll(places: Sequence[str], split: str) -> Labelled:
    """Read the sentences of a split, with the tags as written; a bare `B` has the type `_`.

    The first column is the word, the last its tag. Columns are separated by tabs if the first line
    has one, otherwise by blanks. Lines that begin with -DOCSTART- are skipped. Comments are not
    supported, because `#` is a word in many texts.

    Reference: https://www.clips.uantwerpen.be/conll2003/ner
    """
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for place in places:
        _read(Path(place), pieces, tags)
    if not pieces:
        raise EmptyInputError(f"The {split} split of `task` must hold sentences; it is empty.")
    return Labelled(pieces, tags)


def _read(path: Path, pieces: list[list[str]], tags: list[list[str]]) -> None:
    """Append a file's sentences."""
    first, width, between, tabs = 0, 0, True, False
    for number, line in lines_of(path):
        if not line.strip(" \t") or line.startswith(_DOCUMENT):
            between = True
            continue
        tabs = tabs if first else "\t" in line
        found = line.split("\t") if tabs else _BLANKS.split(line.strip(" \t"))
        if not first:
            first, width = number, len(found)
        if len(found) != width or width < 2:
            raise _wrong_columns(path, number, found, first, width)
        word, tag = found[0].strip(" "), found[-1].strip(" ")
        if not word or not TAG.fullmatch(tag):
            what = "last column must be a tag such as O, B-NAME or I-NAME"
            what = what if word else "first column must be a word"
            raise InputError(f"{path}, line {number}: the {what}; got {line[:60]!r}.")
        if between:
            pieces.append([])
            tags.append([])
        between = False
        pieces[-1].append(word)
        tags[-1].append(with_type(tag))


def with_type(tag: str) -> str:
    """A tag with the type `_` if it has none."""
    return tag if "-" in tag or tag == "O" else f"{tag}-{_NO_TYPE}"


def _wrong_columns(path: Path, number: int, found: list[str], first: int, width: int) -> InputError:
    allowed = f"{width} columns, as line {first} has" if width > 1 else "a word and its tag"
    return InputError(
        f"{path}, line {number}: must have {allowed}; got {len(found)}: "
        f"{' '.join(found)[:60]!r}. Separate sentences by blank lines."
    )
