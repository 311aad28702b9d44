"""Reads the pairs of a translation task: line-aligned files, columns of a TSV, `pair:…`."""

from __future__ import annotations

from pathlib import Path

from corpusfit.contracts import InputError, bad_setting, read_pairs

_SPLITS = {s: s for s in ("train", "dev", "test")} | dict.fromkeys(
    ("devel", "valid", "validation", "val"), "dev"
)
"""The split of a file by its name up to the first dot."""
_TSV = "tsv"
_PREFIX = "pair:"
Pairs = list[tuple[str, str]]


def read_splits(
    location: str, direction: str
) -> tuple[str, dict[str, Pairs], tuple[str, ...], list[str]]:
    """The name, pairs by split, languages and notes of a task; a place without splits is test."""
    path = Path(location).expanduser()
    if path.is_dir():
        places = {
            split: _pair_of(files, direction) for split, files in _files(path, location).items()
        }
        name = path.absolute().resolve().name
    else:
        place = location if location.startswith(_PREFIX) else _PREFIX + location
        places = {"test": place + _columns(place, direction)}
        name = Path(location.removeprefix(_PREFIX).partition(",")[0]).name.partition(".")[0]
    found = {split: read_pairs(place, role="task") for split, place in places.items()}
    notes = [
        f"{pairs.blank:,} pairs of {split} were left out: a side is blank."
        for split, pairs in found.items()
        if pairs.blank
    ]
    pairs = {split: list(zip(*read.sides, strict=True)) for split, read in found.items()}
    return name, pairs, _languages(direction) or found["test"].languages, notes


def _files(folder: Path, location: str) -> dict[str, list[Path]]:
    """The files of each split, by their names up to the first dot."""
    files: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        name, _, ending = entry.name.partition(".")
        if name in _SPLITS and ending and entry.suffix != ".old" and entry.is_file():
            files.setdefault(_SPLITS[name], []).append(entry)
    odd = [f for f in files.values() if len(f) > 2 or (len(f) == 1 and f".{_TSV}" not in f[0].name)]
    if "test" not in files or odd:
        present = ", ".join(f.name for of_split in files.values() for f in of_split)
        raise InputError(
            f"`task` {location} must hold test as two line-aligned files such as test.de and "
            "test.en, or as one .tsv, and may hold dev and train in this form; it holds "
            f"{present or 'no file of a split'}."
        )
    return files


def _pair_of(files: list[Path], direction: str) -> str:
    """The files of a split as `pair:…`, source first."""
    if len(files) == 1:
        return f"{_PREFIX}{files[0]}{_columns(str(files[0]), direction)}"
    by_language = {_ending(file): file for file in files}
    first, second = sorted(by_language)
    languages = _languages(direction)
    if sorted(languages) != [first, second]:
        allowed = f"{first}-{second} or {second}-{first} for these files"
        cure = f"For example `task.direction={first}-{second}`, source language first."
        raise bad_setting("`task.direction`", allowed, direction or "nothing", cure)
    return f"{_PREFIX}{by_language[languages[0]]},{by_language[languages[1]]}"


def _columns(place: str, direction: str) -> str:
    """The names of the columns of a TSV, behind its name."""
    if not direction or f".{_TSV}" not in place or "," in place:
        return ""
    return f":{','.join(_languages(direction))}"


def _ending(file: Path) -> str:
    """The language of a file, as a direction has it: test.pt-BR.gz is pt_BR, for its one hyphen."""
    return file.name.split(".")[1].replace("-", "_")


def _languages(direction: str) -> tuple[str, ...]:
    """The languages of a direction, source first; none of none."""
    languages = tuple(direction.split("-")) if direction else ()
    if languages and (len(languages) != 2 or not all(languages) or languages[0] == languages[1]):
        cure = "Write a script or region after an underscore, as in pt_BR-en."
        raise bad_setting(
            "`task.direction`", "two languages with a hyphen, such as de-en", direction, cure
        )
    return languages
