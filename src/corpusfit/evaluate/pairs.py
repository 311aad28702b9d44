"""Sentences and their translations: a test set in which translations are looked for.

What: what `--pairs` names is read as aligned pairs of a corpus are (`corpus/pairs.py`): `pair:…`,
or what is put as that, `NAME` for NAME.de beside NAME.en, two files with a comma, or a `.tsv`.
Why: that is how test sets of translation are published (Moses, WMT, OPUS, Tatoeba).
Trade-off: a pair with a blank side is left out and counted, where a test set that is broken in any
other way is an error: half of one is another.
Reference: Koehn et al. (2007), Moses; Artetxe and Schwenk (2019) for Tatoeba's test sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from corpusfit import corpus
from corpusfit.corpus.rejects import EMPTY_LINE, EMPTY_TEXT, in_translation
from corpusfit.corpus.unpack import COMPRESSIONS
from corpusfit.errors import EmptyInputError, InputError, bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Source

_ALLOWED = (
    "NAME for NAME.de beside NAME.en, two files as FILE,FILE, a .tsv of two columns, or pair:… as "
    "of a corpus"
)
_BLANK = {EMPTY_LINE, EMPTY_TEXT, in_translation(EMPTY_LINE), in_translation(EMPTY_TEXT)}


@dataclass(frozen=True)
class Pairs:
    """n sentences, each with its translation.

    Attributes:
        name: of the files, without the languages.
        languages: what both sides are called: the files' last suffixes, the names of the columns,
            or `text` and `translation`.
        sides: n sentences each.
        blank: pairs that were left out because a side is blank.
    """

    name: str
    languages: tuple[str, str]
    sides: tuple[list[str], list[str]]
    blank: int

    def __len__(self) -> int:
        return len(self.sides[0])


def read_pairs(given: str) -> Pairs:
    """Read what one `--pairs` names.

    Args:
        given: `pair:…` as for a corpus; `NAME` where exactly two files NAME.X and NAME.Y are,
            `FILE,FILE`, or a `.tsv`; all plain or packed (.gz, .zst, .bz2, .xz).

    Raises:
        UsageError: it names something else.
        InputError: a file cannot be read, has a line that cannot, or is longer than the other.
        EmptyInputError: no pair has text on both sides.
    """
    read, blank = ReadPlan(), 0
    sources = corpus.find([_as_corpus(given)], read, spool=Path(), role="pairs")
    sides: tuple[list[str], list[str]] = ([], [])
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                sides[0].append(row.text.strip())
                sides[1].append(str(row.translation).strip())
            elif row.reason in _BLANK:
                blank += 1
            else:
                raise InputError(f"--pairs {given} cannot be read at row {row.row}: {row.reason}.")
    if not sides[0]:
        raise EmptyInputError(f"--pairs {given} holds no pair with text on both sides.")
    return Pairs(_name(sources[0]), corpus.sides(sources), sides, blank)


def _as_corpus(given: str) -> str:
    """The input as a corpus takes it."""
    if corpus.is_pair(given):
        return given
    path = Path(given).expanduser()
    if not path.is_file():
        return "pair:{},{}".format(*_two(given, path))
    if _bare(path).suffix != ".tsv":
        cure = "One file has to hold both sides; of two files name what they have in common."
        raise bad_setting("--pairs", _ALLOWED, given, cure)
    return f"pair:{path}"


def _bare(path: Path) -> Path:
    """The name without the suffix of an archive."""
    return path.with_suffix("") if path.suffix[1:].lower() in COMPRESSIONS else path


def _two(given: str, path: Path) -> tuple[Path, Path]:
    """The two files that are named, or that have a name in common."""
    parts = [Path(part).expanduser() for part in given.split(",")]
    if len(parts) == 2 and all(part.is_file() for part in parts):
        return parts[0], parts[1]
    folder = path.parent
    found = sorted(folder.glob("*")) if folder.is_dir() else []
    found = [p for p in found if p.is_file() and _bare(p).stem == path.name]
    if len(found) != 2:
        here = ", ".join(p.name for p in found[:6]) or "no such file"
        cure = f"There is {here}." if len(found) < 2 else f"There are {here}: name two."
        raise bad_setting("--pairs", _ALLOWED, given, cure)
    order = re.split(r"\W+|_", path.name)  # tatoeba.deu-eng: German first
    places = [order.index(x) if x in order else len(order) for x in map(_language, found)]
    first, second = found if places[0] <= places[1] else reversed(found)
    return first, second


def _language(path: Path) -> str:
    return _bare(path).suffix[1:]


def _name(source: Source) -> str:
    """What the files' names have in common, or both with a hyphen."""
    stems = [_bare(Path(url)).stem for url in corpus.files_of(source)]
    return "-".join(dict.fromkeys(stems))
