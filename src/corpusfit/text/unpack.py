"""Read a stored file as a stream of unpacked chunks: plain, .gz, .zst, .bz2 or .xz."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text import rejects, zstdblocks
from corpusfit.text.files import CHUNK, open_stored, read_full

_FREE = 32 << 20
"""Bytes unpacked before the bomb limit applies: small files may compress very well."""
_PART = 1 << 16
"""Bytes in and out of one call; the output of a failing call is lost."""
_MEMORY = 1 << 31
"""Most bytes of memory for a window or a dictionary; archives of forums need 2 GiB."""
_ERRORS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)

_OPENERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(31),
    "zst": lambda: zstandard.ZstdDecompressor(max_window_size=_MEMORY).decompressobj(),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MEMORY),
}

COMPRESSIONS = tuple(_OPENERS)
"""Suffixes of readable compressed files, without the dot."""


def unpacked_name(name: str) -> tuple[str, str]:
    """A file name without its compression suffix, and that suffix without its dot (or empty)."""
    stem, _, last = name.rpartition(".")
    return (stem, last.lower()) if last.lower() in COMPRESSIONS else (name, "")


class Stream:
    """The unpacked bytes of one source, readable once.

    Errors in an archive become `problem`, so that the rows before them are kept. The incremental
    objects of all four libraries detect truncated files; python-zstandard's `stream_reader` does
    not.

    Attributes:
        position: stored bytes consumed so far.
        problem: reject reason if the stream ended early, else empty.
    """

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self.position = 0
        self.problem = ""
        self._source = source
        self._plan = plan

    def __iter__(self) -> Iterator[bytes]:
        """Chunks of about one MiB; raises `InputError` for a disk or network error alone."""
        if not self._source.compression:
            for chunk in self._stored(CHUNK):
                self.position += len(chunk)
                yield chunk
            return
        parts: list[bytes] = []
        held = 0
        for part in self._limited():
            parts.append(part)
            held += len(part)
            if held >= CHUNK:
                yield b"".join(parts)
                parts, held = [], 0
        if parts:
            yield b"".join(parts)

    def _stored(self, size: int) -> Iterator[bytes]:
        with open_stored(self._source.url) as file:
            while chunk := read_full(file, size, self._source.url):
                yield chunk

    def _limited(self) -> Iterator[bytes]:
        """The archive's content, up to the bomb limit."""
        size = 0
        for part in self._unpacked():
            size += len(part)
            if size > _FREE and size > self._plan.max_ratio * self.position:
                self.problem = rejects.bomb(self._plan)
                return
            yield part

    def _unpacked(self) -> Iterator[bytes]:
        """The content of all members, until the end or a problem."""
        suffix = self._source.compression
        member, started, ended = _OPENERS[suffix](), False, False
        for piece in self._input_chunks():
            data = piece
            self.position += len(piece)
            while data:
                if ended and not started:
                    data = data.lstrip(b"\0")  # padding of tapes and block devices, and of xz
                    if not data:
                        break
                started = True
                try:
                    yield from _parts(member, data, suffix)
                except _ERRORS as e:
                    self.problem = rejects.corrupt(suffix, e)
                    return
                data = member.unused_data if member.eof else b""
                if member.eof:
                    member, started, ended = _OPENERS[suffix](), False, True
        if started:
            self.problem = rejects.truncated(suffix)

    def _input_chunks(self) -> Iterator[bytes]:
        """Stored bytes in the sizes fed to the library."""
        stored = self._stored(CHUNK)
        if self._source.compression == "zst":
            return zstdblocks.blocks(stored)
        return (chunk[at : at + _PART] for chunk in stored for at in range(0, len(chunk), _PART))


def _parts(member: Any, data: bytes, suffix: str) -> Iterator[bytes]:
    if suffix == "zst":
        yield member.decompress(data)
    elif suffix == "gz":
        while True:
            part = member.decompress(data, _PART)
            yield part
            data = member.unconsumed_tail
            if member.eof or (not data and len(part) < _PART):
                return
    else:
        yield member.decompress(data, _PART)
        while not (member.eof or member.needs_input):
            yield member.decompress(b"", _PART)
