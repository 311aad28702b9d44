"""Token ids on disk: a file for each shard, mapped into memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import safe_open

from corpusfit.core.artifacts import names_in, read_arrays, write_arrays
from corpusfit.core.types import file_of, in_file

_NAME = re.compile(r"part-(\d+)\.safetensors")
MAX_MAPS = 16_384  # files mapped at once; Linux lets a process map about 65,000


@dataclass(frozen=True, eq=False)
class ShardTokens:
    """The n texts of one shard as t tokens in all: the content of a part."""

    names: Sequence[str]  # names of the files of the texts
    rows: NDArray[np.int64]  # [n], row of each text in the shard
    # uint16 or uint32 [t], the texts' tokens end to end; of a pair, its first text and then
    # its second text
    ids: NDArray[Any]
    # int64 [n + 1]; text i is `ids[offsets[i] : offsets[i + 1]]`, possibly empty
    offsets: NDArray[np.int64]
    # uint64 [n], equal for texts with the same letters and digits; [n, 2] of pairs
    keys: NDArray[np.uint64]
    # int64 [n], tokens of the first text of each pair; None for texts
    begins: NDArray[np.int64] | None = None
    # bool [t], whether the loss is on each token; None for all
    counted: NDArray[np.bool_] | None = None


def _path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.safetensors"


def finished(folder: Path) -> set[int]:
    """Numbers of the parts in a folder; a part is written atomically."""
    return {int(match[1]) for name in names_in(folder) if (match := _NAME.fullmatch(name))}


def write_part(folder: Path, number: int, part: ShardTokens, tally: dict[str, Any]) -> None:
    """Write a part and the counts of reading its texts."""
    counted = {name: value for name, value in tally.items() if name != "rejects"}
    arrays: dict[str, NDArray[Any]] = {
        "rows": part.rows,
        "ids": part.ids,
        "offsets": part.offsets,
        "keys": part.keys,
        **({} if part.begins is None else {"begins": part.begins}),
        **({} if part.counted is None else {"counted": part.counted}),
        # not in the header, whose size is limited: a shard can have millions of bad rows
        "rejects": np.frombuffer(orjson.dumps(tally["rejects"]), np.uint8),
    }
    header = {"source": part.names[0], "tally": counted}
    if len(part.names) > 1:
        header["files"] = part.names
    write_arrays(_path(folder, number), arrays, header)


def read_tally(folder: Path, number: int) -> dict[str, Any]:
    """The counts of reading one part."""
    arrays, header = read_arrays(_path(folder, number), ["rejects"])
    return {**header["tally"], "rejects": orjson.loads(arrays["rejects"].tobytes())}


class Tokens:
    """The n texts of all parts of a folder, ordered by part and position."""

    # 24 bytes of memory per text; the ids stay in memory-mapped local files. safetensors maps them,
    # because each numpy memmap holds a file handle and a process has about a thousand of those.
    lengths: NDArray[np.int64]  # [n], tokens of each text
    keys: NDArray[np.uint64]  # [n], or [n, 2] of pairs, as in `Part`

    def __init__(self, paths: list[Path]) -> None:
        read = [read_arrays(path, ["offsets", "keys"])[0] for path in paths]
        counts = [len(arrays["keys"]) for arrays in read]
        self._paths = paths
        self._first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._begins = _joined([arrays["offsets"][:-1] for arrays in read], np.int64)
        self._maps: dict[tuple[int, str], Any] = {}
        self.lengths = _joined([np.diff(arrays["offsets"]) for arrays in read], np.int64)
        self.keys = _joined([arrays["keys"] for arrays in read], np.uint64)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open all parts of a folder."""
        return cls([_path(folder, number) for number in sorted(finished(folder))])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, which map the files themselves."""
        return {**vars(self), "_maps": {}}

    def name(self, text: int) -> str:
        """File and row of a text, for messages."""
        part, index = self._place(text)
        arrays, header = read_arrays(self._paths[part], ["rows"])
        row = int(arrays["rows"][index])
        names = header.get("files", [header["source"]])
        return f"{names[file_of(row)]}, row {in_file(row)}"

    def ids(self, text: int, begin: int, end: int) -> NDArray[Any]:
        """uint16 or uint32 [end - begin]: the tokens of a text from `begin` to `end`."""
        return self._between("ids", text, begin, end)

    def _between(self, array: str, text: int, begin: int, end: int) -> NDArray[Any]:
        if begin >= end:
            return np.empty(0, np.uint16)  # safetensors cannot slice an empty range
        first = int(self._begins[text])
        part = self._place(text)[0]
        if (part, array) not in self._maps:
            if len(self._maps) >= MAX_MAPS:
                del self._maps[next(iter(self._maps))]
            opened: Any = safe_open(self._paths[part], framework="numpy")
            self._maps[part, array] = opened.get_slice(array)
        values: NDArray[Any] = self._maps[part, array][first + begin : first + end]
        return values

    def _place(self, text: int) -> tuple[int, int]:
        """The part that holds a text, and the text's position in it."""
        part = int(np.searchsorted(self._first, text, side="right")) - 1
        return part, text - int(self._first[part])


class PairTokens(Tokens):
    """The n pairs of all parts of a folder; a text is a first text and then its second."""

    sides: NDArray[np.int64]  # [n, 2], tokens of both sides of each pair

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        first = _joined([read_arrays(path, ["begins"])[0]["begins"] for path in paths], np.int64)
        self.sides = np.stack([first, self.lengths - first], 1)


class ChatTokens(Tokens):
    """Texts whose loss is on a part of their tokens."""

    counts: NDArray[np.int64]  # [n], tokens of each text that the loss is on

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        counts = []
        for path in paths:
            arrays, _ = read_arrays(path, ["counted", "offsets"])
            counts.append(
                np.diff(np.concatenate([[0], np.cumsum(arrays["counted"])])[arrays["offsets"]])
            )
        self.counts = _joined(counts, np.int64)

    def counted(self, text: int, begin: int, end: int) -> NDArray[np.bool_]:
        """Whether the loss is on each token of a text from `begin` to `end`."""
        return self._between("counted", text, begin, end)


def _joined(arrays: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    """Concatenate arrays; an empty array if there are none."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)
