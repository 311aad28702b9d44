"""Token ids of texts on disk, memory-mapped and read a piece at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import safe_open

from corpusfit.core.artifacts import listed, read_arrays, write_arrays

_NAME = re.compile(r"part-(\d+)\.safetensors")
MAX_MAPS = 16_384  # files mapped at once; Linux lets a process map about 65,000


@dataclass(frozen=True, eq=False)
class Part:
    """The n texts of one shard or selected part, t tokens in all.

    Attributes:
        source: name of the file of the texts.
        rows: int64 [n], row of each text in that file.
        ids: uint16 or uint32 [t], the texts' tokens end to end; of a pair, its source text and
            then its target text.
        offsets: int64 [n + 1]; text i is `ids[offsets[i] : offsets[i + 1]]`, possibly empty.
        keys: uint64 [n], equal for texts with the same letters and digits; [n, 2] of pairs.
        scores: float32 [n].
        begins: int64 [n], tokens of the source text of each pair; None for texts.
    """

    source: str
    rows: NDArray[np.int64]
    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    keys: NDArray[np.uint64]
    scores: NDArray[np.float32]
    begins: NDArray[np.int64] | None = None


def _path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.safetensors"


def finished(folder: Path) -> set[int]:
    """Numbers of the parts in a folder; a part is written atomically."""
    return {int(found[1]) for name in listed(folder) if (found := _NAME.fullmatch(name))}


def write_part(folder: Path, number: int, part: Part, tally: dict[str, Any]) -> None:
    """Write a part and the counts of reading its texts."""
    counted = {name: value for name, value in tally.items() if name != "rejects"}
    arrays: dict[str, NDArray[Any]] = {
        "rows": part.rows,
        "ids": part.ids,
        "offsets": part.offsets,
        "keys": part.keys,
        "scores": part.scores,
        **({} if part.begins is None else {"begins": part.begins}),
        # not in the header, whose size is limited: a shard can have millions of bad rows
        "rejects": np.frombuffer(orjson.dumps(tally["rejects"]), np.uint8),
    }
    write_arrays(_path(folder, number), arrays, {"source": part.source, "tally": counted})


def read_tally(folder: Path, number: int) -> dict[str, Any]:
    """The counts of reading one part."""
    arrays, header = read_arrays(_path(folder, number), ["rejects"])
    return {**header["tally"], "rejects": orjson.loads(arrays["rejects"].tobytes())}


class Tokens:
    """The n texts of all parts of a folder, ordered by part and position.

    24 bytes of memory per text; the ids stay in memory-mapped local files. safetensors maps them,
    because each numpy memmap holds a file handle and a process has about a thousand of those.

    Attributes:
        lengths: int64 [n], tokens of each text.
        keys: uint64 [n], or [n, 2] of pairs, as in `Part`.
        scores: float32 [n].
    """

    lengths: NDArray[np.int64]
    keys: NDArray[np.uint64]
    scores: NDArray[np.float32]

    def __init__(self, paths: list[Path]) -> None:
        read = [read_arrays(path, ["offsets", "keys", "scores"])[0] for path in paths]
        counts = [len(arrays["keys"]) for arrays in read]
        self._paths = paths
        self._first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._begins = _joined([arrays["offsets"][:-1] for arrays in read], np.int64)
        self._maps: dict[int, Any] = {}
        self.lengths = _joined([np.diff(arrays["offsets"]) for arrays in read], np.int64)
        self.keys = _joined([arrays["keys"] for arrays in read], np.uint64)
        self.scores = _joined([arrays["scores"] for arrays in read], np.float32)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open all parts of a folder."""
        return cls([_path(folder, number) for number in sorted(finished(folder))])

    def __len__(self) -> int:
        return len(self.lengths)

    def name(self, text: int) -> str:
        """File and row of a text, for messages."""
        part, place = self._place(text)
        arrays, header = read_arrays(self._paths[part], ["rows"])
        return f"{header['source']}, row {arrays['rows'][place]}"

    def ids(self, text: int, begin: int, end: int) -> NDArray[Any]:
        """uint16 or uint32 [end - begin]: the tokens of a text from `begin` to `end`."""
        if begin >= end:
            return np.empty(0, np.uint16)  # safetensors cannot slice an empty range
        first = int(self._begins[text])
        part = self._place(text)[0]
        if part not in self._maps:
            if len(self._maps) >= MAX_MAPS:
                del self._maps[next(iter(self._maps))]
            opened: Any = safe_open(self._paths[part], framework="numpy")
            self._maps[part] = opened.get_slice("ids")
        found: NDArray[Any] = self._maps[part][first + begin : first + end]
        return found

    def _place(self, text: int) -> tuple[int, int]:
        """The part of a text, and its position there."""
        part = int(np.searchsorted(self._first, text, side="right")) - 1
        return part, text - int(self._first[part])


class PairTokens(Tokens):
    """The n pairs of all parts of a folder; a text is a source text and then its target text.

    Attributes:
        sides: int64 [n, 2], tokens of both sides of each pair.
    """

    sides: NDArray[np.int64]

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        first = _joined([read_arrays(path, ["begins"])[0]["begins"] for path in paths], np.int64)
        self.sides = np.stack([first, self.lengths - first], 1)


def _joined(arrays: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    """Concatenate arrays; an empty array if there are none."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)
