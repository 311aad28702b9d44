"""Hugging Face datasets, streamed split by split.

What: `hub:NAME[:CONFIG][@REVISION][@SPLIT]` names a split, whose rows become JSON lines with the
text and the id, which are parsed as such.
Why: `datasets` reads every layout on the hub, and streaming needs no disk space for a copy.
Trade-off: `byte` counts bytes of these JSON lines, not of a file. Datasets that need their own code
are refused: `datasets` runs none from version 4 on, and earlier versions are not supported.
Reference: https://huggingface.co/docs/datasets/stream
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from corpusfit.core.errors import (
    CorpusfitError,
    InputError,
    MissingDependencyError,
    importing,
    without_secrets,
)
from corpusfit.core.hub import REVISION
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text.contract import Named
from corpusfit.text.cutting import Block, Lines, cut
from corpusfit.text.files import first_line, is_url, raise_unreadable
from corpusfit.text.formats.jsonl import JsonLines, as_line
from corpusfit.text.shards import fingerprint

PREFIX = "hub:"
_AT_REVISION = re.compile(
    rf"([\w.-]+(?:/[\w.-]+)?)(?::([\w.-]+))?@({REVISION})(?:@([\w.-]+))?", re.ASCII
)
_ROWS = 64
_WITHOUT_SCRIPTS = 4  # first version of `datasets` that never runs a dataset's code


class _DatasetName(NamedTuple):
    name: str
    config: str | None
    split: str | None
    revision: str | None = None

    def written(self) -> str:
        """The dataset with its configuration and revision, without a split."""
        config = f":{self.config}" if self.config else ""
        return f"{self.name}{config}" + (f"@{self.revision}" if self.revision else "")


class Hub(Named, JsonLines):
    """Splits of Hugging Face datasets."""

    name = "hub"
    prefix = PREFIX
    cut_by_text = False

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        lines = _JsonLines(source, plan)
        for block in cut(lines, Lines(), plan):
            yield replace(block, data=lines.kept(block)) if plan.kept_fields() else block

    def find(self, input_name: str, setting: str) -> list[Source]:
        """Describe a dataset split as a source; the path of a local folder becomes absolute."""
        dataset, files = _found(input_name, setting)
        split = dataset.split or (next(iter(files)) if len(files) == 1 else "train")
        if split not in files:
            splits = ", ".join(files) or "none"
            raise InputError(
                f"{setting} must name a split of the dataset ({splits}); got {input_name!r}. "
                f"Write {PREFIX}{dataset.name}@SPLIT."
            )
        name = dataset.written()
        if Path(dataset.name).is_dir():
            dataset = dataset._replace(name=os.path.abspath(dataset.name))  # noqa: PTH100 (links keep their names)
            name = dataset._replace(name=Path(dataset.name).name).written()
        full = f"{PREFIX}{dataset.written()}@{split}"
        # local files by content, files of the hub by URL, which holds the revision
        parts = [dataset.config or "", split] if Path(dataset.name).is_dir() else [full]
        parts += [file if is_url(file) else fingerprint(file)[0] for file in files[split]]
        digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
        return [Source(f"{name}@{split}", full, "hub", "", 0, digest)]

    def files(self, source: Source) -> list[str]:
        """None: `find` asks the hub again."""
        del source
        return []


def splits(url: str, setting: str) -> tuple[list[str], bool]:
    """The splits of a dataset, and whether its name ends with one; raises as `find` does."""
    dataset, files = _found(url, setting)
    return list(files), dataset.split is not None


class _JsonLines:
    """The rows as JSON lines, one chunk per few rows."""

    position = 0
    problem = None

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self._url = source.url
        self._plan = plan
        # lines with the kept fields, of the rows that are in no block yet
        self._kept = deque[bytes]()

    def __iter__(self) -> Iterator[bytes]:
        rows = opened(self._url)[0]
        kept = self._plan.kept_fields()
        while batch := list(islice(rows, _ROWS)):
            if kept:
                self._kept += [as_line(row, self._plan, kept) for row in batch]
            yield b"".join(as_line(row, self._plan) for row in batch)

    def kept(self, block: Block) -> bytes:
        """The rows of the next block with the kept fields, by which no block is cut."""
        lines = [self._kept.popleft() for _ in range(block.data.count(b"\n"))]
        for _ in block.rejects:
            self._kept.popleft()
        return b"".join(lines)


def opened(url: str) -> tuple[Iterator[dict[str, Any]], Mapping[str, Any]]:
    """The rows of the split `hub:NAME[:CONFIG][@REVISION]@SPLIT`, and its features by field."""
    dataset = _parsed(url)
    datasets = _datasets(url)
    with _reading(url):
        data = datasets.load_dataset(
            dataset.name,
            dataset.config,
            split=dataset.split,
            revision=dataset.revision,
            streaming=True,
        )
    return _rows(data, url), getattr(data, "features", None) or {}


def _rows(data: Any, url: str) -> Iterator[dict[str, Any]]:
    with _reading(url):
        yield from data


@contextlib.contextmanager
def _reading(url: str) -> Iterator[None]:
    """Turn the errors of `datasets` into `InputError`."""
    try:
        yield
    except CorpusfitError:
        raise
    except Exception as e:
        raise_unreadable(url, e)


def _parsed(url: str) -> _DatasetName:
    # the name of a folder may contain : and @, so only its last part is searched
    folder, slash, last = url.removeprefix(PREFIX).rpartition("/")
    rest, _, split = last.partition("@")
    name, _, config = rest.partition(":")
    plain = _DatasetName(folder + slash + name, config or None, split or None)
    match = _AT_REVISION.fullmatch(url.removeprefix(PREFIX))
    if match is None or Path(plain.name).is_dir():
        return plain
    name, config, revision, split = match.groups()
    # one word after @ may be a split or a revision, which only the hub knows (`_found`)
    is_clear = split is not None or revision.startswith("refs/")
    return _DatasetName(name, config, split, revision) if is_clear else plain


def _found(url: str, setting: str) -> tuple[_DatasetName, dict[str, list[str]]]:
    """A dataset and the files of its splits; a name after @ is a split, or else a revision."""
    dataset = _parsed(url)
    files = _files(dataset, url, setting)
    is_split = dataset.split is None or dataset.split in files
    if not is_split and dataset.revision is None and not Path(dataset.name).is_dir():
        other = dataset._replace(split=None, revision=dataset.split)
        with contextlib.suppress(InputError):
            return other, _files(other, url, setting)
    return dataset, files


def _datasets(url: str) -> Any:
    with importing(f"Reading {url!r}", "hub"):
        import datasets
    if int(datasets.__version__.partition(".")[0]) < _WITHOUT_SCRIPTS:
        raise MissingDependencyError(f"Reading {url!r} with datasets 4 or later", "hub")
    return datasets


def _builder(dataset: _DatasetName, url: str, setting: str) -> Any:
    datasets = _datasets(url)
    name = dataset.name
    local = Path(name).is_dir()
    try:
        if not local:
            # one question to the hub, unless offline or in its cache: `datasets` tries for 20 s
            from huggingface_hub import HfApi, try_to_load_from_cache

            offline = datasets.config.HF_HUB_OFFLINE
            if not offline and not try_to_load_from_cache(name, "README.md", repo_type="dataset"):
                HfApi(datasets.config.HF_ENDPOINT).dataset_info(name, timeout=10)
        return datasets.load_dataset_builder(name, dataset.config, revision=dataset.revision)
    except Exception as e:
        if local:
            raise InputError(
                f"{setting} must be a dataset; got {url!r}: {first_line(e)}."
            ) from without_secrets(e)
        raise InputError(
            f"{setting} must be a dataset of the Hugging Face hub or a folder; got {url!r}, which "
            f"the hub does not give ({first_line(e)}). Check the spelling and the network, and log "
            "in with `hf auth login` if it is private."
        ) from without_secrets(e)


def _files(dataset: _DatasetName, url: str, setting: str) -> dict[str, list[str]]:
    """The data files of every split; a dataset's card can name files anywhere."""
    files = _builder(dataset, url, setting).config.data_files or {}
    name = dataset.name
    home = os.path.abspath(name) + os.sep if Path(name).is_dir() else "hf://"  # noqa: PTH100
    for file in (str(file) for names in files.values() for file in names):
        if not (file if is_url(file) else os.path.normpath(file)).startswith(home):
            raise InputError(
                f"{setting} must be a dataset with files of its own; the card of {name!r} names "
                f"{file!r}. Remove this from its README.md, or name the file itself."
            )
    return {str(split): [str(file) for file in names] for split, names in files.items()}
