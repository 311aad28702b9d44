"""Hugging Face datasets: a split, streamed.

What: `hub:NAME[:CONFIG][@SPLIT]` names it; its rows become JSON lines of the text and the id,
which the module `jsonl` parses.
Why: `datasets` knows every layout on the hub; streaming needs no room for a copy.
Trade-off: `byte` counts in the JSON lines made here, not in a file. Datasets that need code of
their own are refused: `datasets` runs none from version 4 on, and earlier ones are not used.
Reference: https://huggingface.co/docs/datasets/stream
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from corpusfit.corpus.cutting import Block, Lines, cut
from corpusfit.corpus.files import is_url
from corpusfit.corpus.survey import fingerprint
from corpusfit.errors import CorpusfitError, InputError, MissingDependencyError
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

PREFIX = "hub:"
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w.-]+)?(@[\w.-]+)?")
_ROWS = 64
_WITHOUT_SCRIPTS = 4  # the first version of `datasets` that runs no code of a dataset


class _Place(NamedTuple):
    """The parts of `hub:NAME[:CONFIG][@SPLIT]`."""

    name: str
    config: str | None
    split: str | None


def is_id(text: str) -> bool:
    """Whether it looks like `owner/name`, perhaps with a configuration and a split."""
    return _ID.fullmatch(text) is not None


def find(url: str, setting: str) -> Source:
    """The dataset split as a source.

    Args:
        url: `hub:NAME[:CONFIG][@SPLIT]`; NAME is an id or a local folder, which the source's
            `url` names by its absolute path.
        setting: the user's word for it, for messages.

    Raises:
        MissingDependencyError: `datasets` is not installed, or older than version 4.
        InputError: it cannot be reached, or has no such split.
    """
    place = _parsed(url)
    files = _files(_builder(place, url, setting))
    split = place.split or ("train" if "train" in files or len(files) != 1 else next(iter(files)))
    if split not in files:
        known = ", ".join(files) or "none"
        raise InputError(
            f"{setting} must name a split that the dataset has ({known}); got {url!r}. "
            f"Say {PREFIX}{place.name}@SPLIT."
        )
    name = place.name
    if Path(name).is_dir():
        place = place._replace(name=os.path.abspath(name))  # noqa: PTH100 (links keep their names)
        name = Path(place.name).name
    name += f":{place.config}" if place.config else ""
    full = f"{PREFIX}{place.name}{f':{place.config}' if place.config else ''}@{split}"
    return Source(f"{name}@{split}", full, "hub", "", 0, _identity(full, place, files[split]))


def splits(url: str, setting: str) -> list[str]:
    """The splits that the dataset of `hub:NAME[:CONFIG]` has; raises as `find` does."""
    return list(_files(_builder(_parsed(url), url, setting)))


def blocks(source: Source, plan: ReadPlan) -> Iterator[Block]:
    """Runs of whole rows."""
    return cut(_JsonLines(source, plan), Lines(), plan)


class _JsonLines:
    """The rows as JSON lines, a chunk for every few rows."""

    position = 0
    problem = ""

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self._url = source.url
        self._plan = plan

    def __iter__(self) -> Iterator[bytes]:
        place = _parsed(self._url)
        datasets = _datasets(self._url)
        lines: list[bytes] = []
        try:
            data = datasets.load_dataset(
                place.name, place.config, split=place.split, streaming=True
            )
            for row in data:
                lines.append(self._line(row))
                if len(lines) == _ROWS:
                    yield b"".join(lines)
                    lines = []
        except CorpusfitError:
            raise
        except Exception as e:
            raise InputError(f"{self._url} cannot be read: {_sentence(e)}.") from e
        if lines:
            yield b"".join(lines)

    def _line(self, row: dict[str, Any]) -> bytes:
        wanted = (self._plan.text_field, self._plan.id_field)
        if self._plan.text_field in row:
            row = {name: row[name] for name in wanted if name in row}
        else:
            row = dict.fromkeys(row)
        try:
            return orjson.dumps(row, default=_foreign) + b"\n"
        except orjson.JSONEncodeError:
            return b'"\xff"\n'  # a string that no UTF-8 can hold: the parser says invalid UTF-8


def _foreign(value: object) -> dict[str, str]:
    """A picture or a sound, say: not a string, and the reader will say so."""
    return {"type": type(value).__name__}


def _parsed(url: str) -> _Place:
    folder, slash, last = url.removeprefix(PREFIX).rpartition("/")  # a folder may hold : and @
    rest, _, split = last.partition("@")
    name, _, config = rest.partition(":")
    return _Place(folder + slash + name, config or None, split or None)


def _datasets(url: str) -> Any:
    try:
        import datasets
    except ImportError as e:
        raise MissingDependencyError(f"Reading {url!r}", "hub") from e
    if int(datasets.__version__.partition(".")[0]) < _WITHOUT_SCRIPTS:
        raise MissingDependencyError(f"Reading {url!r} with datasets 4 or later", "hub")
    return datasets


def _builder(place: _Place, url: str, setting: str) -> Any:
    datasets = _datasets(url)
    try:
        return datasets.load_dataset_builder(place.name, place.config)
    except Exception as e:
        raise InputError(
            f"{setting} must be a path, a URL or a Hugging Face dataset that can be reached; "
            f"got {url!r}: {_sentence(e)}. Check the name and the network."
        ) from e


def _files(builder: Any) -> dict[str, list[str]]:
    """The data files of every split."""
    files = builder.config.data_files or {}
    return {str(split): [str(file) for file in names] for split, names in files.items()}


def _identity(full: str, place: _Place, files: list[str]) -> str:
    """Local files by content; those of the hub by their URL, which holds the revision."""
    local = Path(place.name).is_dir()
    parts = [place.config or "", full.rpartition("@")[2]] if local else [full]
    parts += [file if is_url(file) else fingerprint(file)[0] for file in files]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(". ")
