"""Sentences and their translations: read from line-aligned files or from two columns.

What: `NAME.de` beside `NAME.en`, two files named together, or a `.tsv` of two columns; line i of
one side is the translation of line i of the other.
Why: that is how test sets of translation are published (Moses, WMT, OPUS, Tatoeba).
Trade-off: nothing is aligned here. Sides of unequal length are an error, because one line too many
makes every pair after it a wrong one; a pair with a blank side is left out and counted.
Reference: Koehn et al. (2007), Moses; Artetxe and Schwenk (2019) for Tatoeba's test sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from corpusfit.corpus.unpack import COMPRESSIONS
from corpusfit.errors import EmptyInputError, InputError, bad_setting
from corpusfit.evaluate.formats.labelled import whole_text

__all__ = ["Pairs", "read_pairs"]

_BOM = "\ufeff"
_ALLOWED = "NAME for NAME.de beside NAME.en, two files as FILE,FILE, or a .tsv of two columns"


@dataclass(frozen=True)
class Pairs:
    """n sentences, each with its translation.

    Attributes:
        name: of the files, without the languages.
        languages: what both sides are called: the files' last suffixes, or `first` and `second`.
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
        given: `NAME` where exactly two files NAME.X and NAME.Y are, `FILE,FILE`, or a `.tsv`; all
            plain or packed (.gz, .zst, .bz2, .xz).

    Raises:
        UsageError: it names something else.
        InputError: a file cannot be read, a line has other than two columns, or one side is longer.
        EmptyInputError: no pair has text on both sides.
    """
    path = Path(given).expanduser()
    if path.is_file():
        if _bare(path).suffix != ".tsv":
            cure = "One file has to hold both sides; of two files name what they have in common."
            raise bad_setting("--pairs", _ALLOWED, given, cure)
        name, languages = _bare(path).stem, ("first", "second")
        sides = _columns(path)
    else:
        files = _two(given, path)
        name, languages = _named(files)
        sides = _lines(files[0]), _lines(files[1])
        _require_even(files, sides)
    whole = [(a, b) for a, b in zip(*sides, strict=True) if a.strip() and b.strip()]
    if not whole:
        raise EmptyInputError(f"--pairs {given} holds no pair with text on both sides.")
    return Pairs(
        name,
        languages,
        ([a.strip() for a, _ in whole], [b.strip() for _, b in whole]),
        len(sides[0]) - len(whole),
    )


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


def _named(files: tuple[Path, Path]) -> tuple[str, tuple[str, str]]:
    """The name of two files, and of their languages; files of one suffix go by their names."""
    stems, suffixes = [_bare(f).stem for f in files], [_language(f) for f in files]
    if suffixes[0] != suffixes[1] and all(suffixes):
        name = stems[0] if stems[0] == stems[1] else "-".join(stems)
        return name, (suffixes[0], suffixes[1])
    if stems[0] != stems[1]:
        return "-".join(stems), (stems[0], stems[1])
    return stems[0], ("first", "second")


def _lines(path: Path) -> list[str]:
    """The lines of a file; its last line end begins no line."""
    lines = whole_text(path).removeprefix(_BOM).split("\n")
    return lines[:-1] if not lines[-1] else lines


def _columns(path: Path) -> tuple[list[str], list[str]]:
    """The two columns of a file."""
    first, second = [], []
    for number, line in enumerate(_lines(path), 1):
        found = line.rstrip("\r").split("\t")
        if len(found) != 2 and line.strip():
            raise InputError(
                f"--pairs {path}, line {number}: must have two columns, a sentence and its "
                f"translation with a tab between; got {len(found)}: {line[:60]!r}."
            )
        first.append(found[0])
        second.append(found[1] if len(found) == 2 else "")
    return first, second


def _require_even(files: tuple[Path, Path], sides: tuple[list[str], list[str]]) -> None:
    """Raise `InputError` where one side has more lines."""
    counts = len(sides[0]), len(sides[1])
    if counts[0] != counts[1]:
        longer, shorter = (0, 1) if counts[0] > counts[1] else (1, 0)
        raise InputError(
            f"--pairs: both files must have as many lines; {files[longer]} has "
            f"{counts[longer]:,} and {files[shorter]} has {counts[shorter]:,}: line "
            f"{counts[shorter] + 1:,} of the first has no translation. A line is missing or "
            "broken in two somewhere before it."
        )
