"""Read sentence pairs of a retrieval test set (--pairs)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import EmptyInputError, InputError, bad_setting
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.text.rejects import EMPTY_LINE, EMPTY_TEXT, in_translation
from corpusfit.text.unpack import unpacked_name

_ALLOWED = (
    "NAME for the files NAME.de and NAME.en, two files as FILE,FILE, a .tsv with two columns, or "
    "pair:… as for a corpus"
)
_BLANK = {EMPTY_LINE, EMPTY_TEXT, in_translation(EMPTY_LINE), in_translation(EMPTY_TEXT)}


@dataclass(frozen=True)
class Pairs:
    """n sentences with their translations.

    Attributes:
        name: name of the files, without the languages.
        languages: names of both sides: the files' last suffixes, the names of the columns, or
            `text` and `translation`.
        sides: n sentences each.
        blank: number of pairs that were skipped because a side is empty.
    """

    name: str
    languages: tuple[str, str]
    sides: tuple[list[str], list[str]]
    blank: int

    def __len__(self) -> int:
        return len(self.sides[0])


def read_pairs(value: str) -> Pairs:
    """Read one value of `--pairs`.

    A broken row is an error, because scores on part of a test set differ; only pairs with an
    empty side are skipped and counted.
    """
    read, blank = ReadPlan(), 0
    sources = corpus.find([_as_corpus(value)], read, spool=Path(), role="pairs")
    sides: tuple[list[str], list[str]] = ([], [])
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                sides[0].append(row.text.strip())
                sides[1].append(str(row.translation).strip())
            elif row.reason in _BLANK:
                blank += 1
            else:
                raise InputError(f"`pairs={value}` cannot be read at row {row.row}: {row.reason}.")
    if not sides[0]:
        raise EmptyInputError(f"`pairs={value}` has no pair with text on both sides.")
    stems = [_bare(Path(url)).stem for url in corpus.files_of(sources[0])]
    return Pairs("-".join(dict.fromkeys(stems)), corpus.sides(sources), sides, blank)


def _as_corpus(value: str) -> str:
    """The value as a corpus input."""
    if corpus.is_pair(value):
        return value
    path, parts = user_path(value), value.split(",")
    if path.is_file() or (len(parts) == 2 and all(user_path(p).is_file() for p in parts)):
        return f"pair:{value}"
    return "pair:{},{}".format(*_two(value, path))


def _bare(path: Path) -> Path:
    """The path without a compression suffix."""
    return path.with_name(unpacked_name(path.name)[0])


def _two(value: str, path: Path) -> tuple[Path, Path]:
    """The two files with a common name."""
    folder = path.parent
    found = sorted(folder.glob("*")) if folder.is_dir() else []
    found = [p for p in found if p.is_file() and _bare(p).stem == path.name]
    if len(found) != 2:
        here = ", ".join(p.name for p in found[:6]) or "no such file"
        cure = f"Found: {here}." if len(found) < 2 else f"Found: {here}. Name two of them."
        raise bad_setting("`pairs`", _ALLOWED, value, cure)
    languages = [_bare(p).suffix[1:] for p in found]
    places = []
    for language in languages:  # tatoeba.deu-eng: German first
        named = re.search(rf"(?<![^\W_]){re.escape(language)}(?![^\W_])", path.name)
        places.append(named.start() if named else len(path.name))
    first, second = found if places[0] <= places[1] else reversed(found)
    return first, second
