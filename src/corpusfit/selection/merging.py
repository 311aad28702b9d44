"""The parts of `selected/`: what workers write of each shard, merged to files of one size."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import orjson

from corpusfit.core.artifacts import names_in, read_many, remove, remove_files, write_bytes, writing
from corpusfit.core.engine.worker import counting
from corpusfit.core.errors import StorageError
from corpusfit.core.manifest import undamaged
from corpusfit.core.zstandard import zstd

_NAME = re.compile(r"(\d+)-(\d+)\.zst")
_FAST: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}
_AT_ONCE = 32
"""Pieces in the memory of a worker."""


def selected_path(folder: Path, number: int) -> Path:
    """A part of the selected text."""
    return folder / f"part-{number:05d}.jsonl.zst"


def _piece_path(pieces: Path, shard: int, size: int) -> Path:
    return pieces / f"{shard:05d}-{size}.zst"


def write_piece(pieces: Path, shard: int, lines: bytes) -> None:
    """Write the selected text of a shard, until it is merged; its name has the number of bytes."""
    # in the shortest time: compressed in little more than half of what a part takes, as it is read
    # once, and not synced, as the checksum shows whether it is whole
    data = zstd.compress(lines, options=_FAST)
    write_bytes(_piece_path(pieces, shard, len(lines)), data, synced=False)


def sizes_of_pieces(pieces: Path) -> dict[int, int]:
    """The shards whose selected text is written, with its bytes; by one listing."""
    names = map(_NAME.fullmatch, names_in(pieces))
    return {int(name[1]): int(name[2]) for name in names if name}


def plan_parts(sizes: Iterable[tuple[int, int]], most: float) -> list[list[int]]:
    """Divide shards, in order with their bytes, into parts of at most so many bytes."""
    # the text of a shard stays in one part, however large it is
    parts: list[list[int]] = []
    left = 0.0
    for shard, size in sizes:
        if not parts or size > left:
            parts.append([])
            left = most
        parts[-1].append(shard)
        left -= size
    return parts


def stored_parts(path: Path, shards: list[int]) -> list[list[int]] | None:
    """The parts that an earlier command planned for these shards; None if it did not come to it."""
    if not path.exists():
        return None
    with undamaged(path):
        parts: list[list[int]] = orjson.loads(path.read_bytes())
        if [shard for part in parts for shard in part] != shards:
            raise ValueError("it has other shards")
        return parts


def merge_pieces(pieces: Path, selected: Path, part: tuple[int, list[tuple[int, int]]]) -> None:
    """Write a part from the pieces of its shards, each with its bytes, and remove them."""
    number, shards = part
    paths = [_piece_path(pieces, *shard) for shard in shards]
    advance = counting(sum(size for _, size in shards))
    # One frame that states its size: many programs read only the first frame of several, and
    # report nothing.
    packer = zstd.ZstdCompressor(level=3)
    packer.set_pledged_input_size(sum(size for _, size in shards))
    with writing(selected_path(selected, number)) as file:
        for first in range(0, len(paths), _AT_ONCE):
            some = paths[first : first + _AT_ONCE]
            for path, data in zip(some, read_many(some), strict=True):
                lines = _unpacked(path, data)
                file.write(packer.compress(lines))
                advance(len(lines))
        file.write(packer.flush())
    remove_files(paths)


def _unpacked(path: Path, data: bytes) -> bytes:
    """The lines of a piece."""
    try:
        return zstd.decompress(data)
    except zstd.ZstdError as e:
        remove(path)
        raise StorageError(
            f"{path} is damaged: {e}. It is removed: run the same command again, which writes it "
            "anew; finished work is kept."
        ) from e
