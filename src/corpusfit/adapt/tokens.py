"""Token ids on disk: made of the texts once, read a piece at a time while a model is trained.

What: one file for each shard or selected part: the ids of its texts end to end, where each text
ends, a key that copies of it share, and its score. `Tokens` reads them as one list of texts.
Why: training goes over the same texts many times, each time in another order, and they can be
more than the memory. The ids stay in the file, which is mapped: only what is asked for is read.
Trade-off: 24 bytes of memory a text, and the files have to be on this machine. numpy's own maps
each hold a file handle, of which a process has about a thousand; safetensors' hold none.
Reference: the safetensors format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import safe_open

from corpusfit.artifacts import listed, read_arrays, write_arrays

_NAME = re.compile(r"part-(\d+)\.safetensors")
_MAPS = 16_384  # files mapped at once; Linux lets a process map about 65,000


@dataclass(frozen=True, eq=False)
class Part:
    """The n texts of one shard or selected part, t tokens in all.

    Attributes:
        source: name of the file they come from.
        rows: int64 [n], the row of each in that file.
        ids: uint16 or uint32 [t], the texts' tokens end to end.
        offsets: int64 [n + 1]; text i is `ids[offsets[i] : offsets[i + 1]]`, perhaps nothing.
        keys: uint64 [n], equal for texts with the same letters and digits.
        scores: float32 [n].
    """

    source: str
    rows: NDArray[np.int64]
    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    keys: NDArray[np.uint64]
    scores: NDArray[np.float32]


def _path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.safetensors"


def finished(folder: Path) -> set[int]:
    """The parts that are there, by one listing; a part appears whole or not at all."""
    return {int(found[1]) for name in listed(folder) if (found := _NAME.fullmatch(name))}


def write_part(folder: Path, number: int, part: Part, tally: dict[str, Any]) -> None:
    """Write a part, with what was counted while its texts were read."""
    counted = {name: value for name, value in tally.items() if name != "rejects"}
    arrays: dict[str, NDArray[Any]] = {
        "rows": part.rows,
        "ids": part.ids,
        "offsets": part.offsets,
        "keys": part.keys,
        "scores": part.scores,
        # not in the header, which the format bounds: a shard can be millions of bad rows
        "rejects": np.frombuffer(orjson.dumps(tally["rejects"]), np.uint8),
    }
    write_arrays(_path(folder, number), arrays, {"source": part.source, "tally": counted})


def read_tally(folder: Path, number: int) -> dict[str, Any]:
    """What was counted in one part.

    Raises:
        ModelError: the file is not a whole one of ours.
    """
    arrays, header = read_arrays(_path(folder, number), ["rejects"])
    return {**header["tally"], "rejects": orjson.loads(arrays["rejects"].tobytes())}


class Tokens:
    """The n texts of all parts of a folder, by part and place in it.

    Attributes:
        lengths: int64 [n], tokens of each text.
        keys: uint64 [n], as in `Part`.
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
    def open(cls, folder: Path) -> Tokens:
        """Open all parts of a folder.

        Raises:
            ModelError: a file is not a whole one of ours.
        """
        return cls([_path(folder, number) for number in sorted(finished(folder))])

    def __len__(self) -> int:
        return len(self.lengths)

    def name(self, text: int) -> str:
        """Where a text comes from, for an error: its file and its row there."""
        part, place = self._place(text)
        arrays, header = read_arrays(self._paths[part], ["rows"])
        return f"{header['source']}, row {arrays['rows'][place]}"

    def ids(self, text: int, begin: int, end: int) -> NDArray[Any]:
        """uint16 or uint32 [end - begin]: the tokens of a text from `begin` to `end`.

        Args:
            text: its number, from 0.
            begin: 0 or more.
            end: at most the text's length.
        """
        if begin >= end:
            return np.empty(0, np.uint16)  # which safetensors cannot cut out
        first = int(self._begins[text])
        found: NDArray[Any] = self._mapped(self._place(text)[0])[first + begin : first + end]
        return found

    def _place(self, text: int) -> tuple[int, int]:
        """The part of a text, and its place there."""
        part = int(np.searchsorted(self._first, text, side="right")) - 1
        return part, text - int(self._first[part])

    def _mapped(self, part: int) -> Any:
        """The ids of a part, in its file; mapped at the first use."""
        ids = self._maps.get(part)
        if ids is None:
            if len(self._maps) >= _MAPS:
                del self._maps[next(iter(self._maps))]
            opened: Any = safe_open(self._paths[part], framework="numpy")
            ids = self._maps[part] = opened.get_slice("ids")
        return ids


def _joined(arrays: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    """Arrays end to end; of none, an empty one."""
    return np.concatenate([np.empty(0, kind), *arrays])
