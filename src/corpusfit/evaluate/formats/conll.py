"""CoNLL columns: a word a line with its tag, blank lines between sentences.

What: the first column is the word, the last its tag; columns in between are passed over, and so
are lines that begin with -DOCSTART-. Columns are set apart by tabs where the first line has one,
else by blanks.
Why: the form of nearly every published data set for named entities.
Trade-off: nothing is a comment, since `#` is a word of many texts; a file with comments is refused
by its first, for it has other columns.
Reference: https://www.clips.uantwerpen.be/conll2003/ner
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from corpusfit.errors import EmptyInputError, InputError
from corpusfit.evaluate.formats.labelled import Labelled, whole_text

_BLANKS = re.compile(r"[ \t]+")
_TAG = re.compile(r"O|[BIESLU](?:-.*)?")
_DOCUMENT = "-DOCSTART-"
_NO_TYPE = "_"  # as seqeval calls it
_BOM = "\ufeff"


def read_conll(places: Sequence[str], split: str) -> Labelled:
    """The sentences of a split, with the tags as they are written; a bare `B` is of type `_`.

    Args:
        places: files.
        split: for messages.

    Raises:
        InputError: a line has other columns than the first, or its last one is no tag.
        EmptyInputError: there is no sentence.
    """
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for place in places:
        _read(Path(place), pieces, tags)
    if not pieces:
        raise EmptyInputError(f"The {split} split of --task must hold sentences; it is empty.")
    return Labelled(pieces, tags)


def _read(path: Path, pieces: list[list[str]], tags: list[list[str]]) -> None:
    """Append a file's sentences."""
    columns: Callable[[str], list[str]] | None = None
    first, width, between = 0, 0, True
    for number, raw in enumerate(whole_text(path).removeprefix(_BOM).split("\n"), 1):
        line = raw.rstrip("\r")
        if not line.strip(" \t") or line.startswith(_DOCUMENT):
            between = True
            continue
        if columns is None:
            columns = _by_tabs if "\t" in line else _by_blanks
            first, width = number, len(columns(line))
        found = columns(line)
        if len(found) != width or width < 2:
            raise _wrong_columns(path, number, found, first, width)
        word, tag = found[0].strip(" "), found[-1].strip(" ")
        if not word or not _TAG.fullmatch(tag):
            what = "a tag such as O, B-NAME or I-NAME last" if word else "a word first"
            raise InputError(f"{path}, line {number}: must have {what}; got {line[:60]!r}.")
        if between:
            pieces.append([])
            tags.append([])
        between = False
        pieces[-1].append(word)
        tags[-1].append(tag if "-" in tag or tag == "O" else f"{tag}-{_NO_TYPE}")


def _by_tabs(line: str) -> list[str]:
    return line.split("\t")


def _by_blanks(line: str) -> list[str]:
    return _BLANKS.split(line.strip(" \t"))


def _wrong_columns(path: Path, number: int, found: list[str], first: int, width: int) -> InputError:
    allowed = f"{width} columns, as line {first} has" if width > 1 else "a word and its tag"
    return InputError(
        f"{path}, line {number}: must have {allowed}; got {len(found)}: "
        f"{' '.join(found)[:60]!r}. Sentences are set apart by blank lines."
    )
