"""Stored bytes: local paths directly, URLs through fsspec, archives unpacked as they stream."""

from __future__ import annotations

import bz2
import errno
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from corpusfit.core.errors import CorpusfitError, InputError, MissingDependencyError, machine_cure
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text import rejects

CHUNK = 1 << 20
"""Bytes read from a file at a time."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_DIGESTS = ("ETag", "etag", "md5Hash", "content_md5", "content_settings", "blob_id")
_REPORTS_DIGEST = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf"}

# bytes to unpack before the bomb limit applies, as small files may compress very well
_FREE = 32 << 20
# bytes in and out of one call; the output of a failing call is lost
_PART = 1 << 16
# most bytes of memory for a window or a dictionary; archives of forums need 2 GiB
_MEMORY = 1 << 31
_ERRORS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)
_OPENERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(31),
    "zst": lambda: zstandard.ZstdDecompressor(max_window_size=_MEMORY).decompressobj(),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MEMORY),
}

COMPRESSIONS = tuple(_OPENERS)
"""Suffixes of readable compressed files, without the dot."""
MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
"""Their first bytes."""


def is_url(path: str) -> bool:
    """Whether fsspec must open the path."""
    return "://" in path


def filesystem(url: str, setting: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path within it."""
    import fsspec.core

    protocol = url.partition("://")[0]
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as e:
        if protocol == "hf":
            raise MissingDependencyError(f"{setting} {url!r}", "hub") from e
        missing = e.name or str(e)
        raise InputError(
            f"{setting} {url!r} needs a library for {protocol}:// that is not installed "
            f"({missing}). Install it, for instance with pip install 'fsspec[{protocol}]'."
        ) from e
    except ValueError as e:
        raise InputError(
            f"{setting} must be a path or a URL that fsspec can read; got {url!r} with the unknown "
            f"protocol {protocol!r} ({first_line(e)}). Check the spelling of the URL."
        ) from e
    except Exception as e:
        raise unreadable(url, e) from e
    return fs, path


def open_stored(url: str) -> BinaryIO:
    """Open the stored bytes as a seekable file."""
    try:
        if not is_url(url):
            return Path(url).open("rb")
        fs, path = filesystem(url, "The input")
        return _checked(cast("BinaryIO", fs.open(path, "rb")))
    except CorpusfitError:
        raise
    except Exception as e:
        raise unreadable(url, e) from e


def _checked(file: BinaryIO) -> BinaryIO:
    """A store's file whose `read` fails if the store returns fewer bytes than it announced."""
    size, read = getattr(file, "size", None), file.read
    if size is None:
        return file

    def checked(length: int = -1) -> bytes:
        left = size - file.tell()
        wanted = left if length < 0 else min(length, left)
        data = read(length)
        if len(data) < wanted:
            raise OSError(errno.EIO, f"the store gave {len(data):,} of {wanted:,} bytes")
        return data

    file.read = checked  # type: ignore[method-assign]
    return file


def read_full(file: BinaryIO, size: int, url: str) -> bytes:
    """Read the next `size` bytes, fewer only at the end of the file."""
    try:
        data = file.read(size)
        while data and len(data) < size:
            more = file.read(size - len(data))
            if not more:
                break
            data += more
    except Exception as e:
        raise unreadable(url, e) from e
    return data


def read_bytes(url: str, begin: int, end: int) -> bytes:
    """The bytes [begin, end) of a stored file."""
    size = end - begin
    if is_url(url):
        with open_stored(url) as file:
            file.seek(begin)
            data = read_full(file, size, url)
    else:
        try:
            # unbuffered, because most files of a large number are small
            handle = os.open(url, _READ)
            try:
                if begin:
                    os.lseek(handle, begin, os.SEEK_SET)
                data = os.read(handle, size)
                while len(data) < size and (more := os.read(handle, size - len(data))):
                    data += more
            finally:
                os.close(handle)
        except OSError as e:
            raise unreadable(url, e) from e
    if len(data) < size:
        raise InputError(
            f"{url} became shorter during reading. Run again when no process writes to it."
        )
    return data


def stored_size(url: str) -> int:
    """Size of the stored file in bytes."""
    if not is_url(url):
        try:
            return os.stat(url).st_size  # noqa: PTH116 (a Path costs more than the call)
        except OSError as e:
            raise unreadable(url, e) from e
    with open_stored(url) as file:
        try:
            return file.seek(0, 2)
        except Exception as e:
            raise unreadable(url, e) from e


def unreadable(url: str, error: Exception) -> InputError:
    """The error for bytes that cannot be read."""
    reason = getattr(error, "strerror", None) or first_line(error)
    cure = machine_cure(error) or "Check that it can be reached, then run the same command again."
    return InputError(f"{url} cannot be read: {reason}. {cure}")


def stated_digest(url: str) -> tuple[str, int] | None:
    """A hash of the digest that the store reports, and the size in bytes; None without one."""
    # trusted, so that a corpus of terabytes is not downloaded for its fingerprint
    if not is_url(url) or url.partition("://")[0] not in _REPORTS_DIGEST:
        return None
    fs, path = filesystem(url, "The input")
    try:
        info = fs.info(path)
    except Exception as e:
        raise unreadable(url, e) from e
    stated = [f"{key}={info[key]}" for key in _DIGESTS if info.get(key)]
    if not stated or info.get("size") is None:
        return None
    size = int(info["size"])
    text = "\n".join([*stated, str(size)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), size


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


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
            for chunk in self._stored():
                self.position += len(chunk)
                yield chunk
            return
        parts: list[bytes] = []
        length = size = 0
        for part in self._unpacked():
            size += len(part)
            if size > _FREE and size > self._plan.max_ratio * self.position:
                self.problem = rejects.bomb(self._plan)
                break
            parts.append(part)
            length += len(part)
            if length >= CHUNK:
                yield b"".join(parts)
                parts, length = [], 0
        if parts:
            yield b"".join(parts)

    def _stored(self) -> Iterator[bytes]:
        with open_stored(self._source.url) as file:
            while chunk := read_full(file, CHUNK, self._source.url):
                yield chunk

    def _unpacked(self) -> Iterator[bytes]:
        """The content of all members, until the end or a problem."""
        suffix = self._source.compression
        if suffix == "zst":
            pieces = _zstd_blocks(self._stored())
        else:
            pieces = (c[at : at + _PART] for c in self._stored() for at in range(0, len(c), _PART))
        member, started, ended = _OPENERS[suffix](), False, False
        for piece in pieces:
            data = piece
            self.position += len(piece)
            while data:
                if ended and not started:
                    # tapes, block devices and xz pad with zeros
                    data = data.lstrip(b"\0")
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


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_ZSTD_PART = 1 << 17


class _ExactReader:
    """Reads exact numbers of bytes from a stream of chunks, fewer only at its end."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk, self._at = b"", 0

    def __call__(self, size: int) -> bytes:
        piece = self._chunk[self._at : self._at + size]
        self._at += len(piece)
        while len(piece) < size:
            self._chunk, self._at = next(self._chunks, b""), size - len(piece)
            if not self._chunk:
                break
            piece += self._chunk[: self._at]
        return piece


def _zstd_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut after every header, block and checksum (RFC 8878, section 3.1)."""
    # a block unpacks to at most 128 KiB; python-zstandard does not limit the output of one call,
    # and 4 KiB of a bomb can unpack to 128 MiB
    read = _ExactReader(chunks)
    while head := read(5):
        while padding := len(head) - len(head.lstrip(b"\0")):
            yield head[:padding]
            head = head[padding:] + read(padding)
        if head[:4] == _ZSTD_MAGIC and len(head) == 5:
            yield from _zstd_frame(head, read)
        elif head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5:
            head += read(3)
            yield head
            size = int.from_bytes(head[4:], "little")
            while size > 0 and (part := read(min(size, _ZSTD_PART))):
                size -= len(part)
                yield part
        else:  # unknown bytes: the library reports the error
            yield head
            yield from iter(lambda: read(_ZSTD_PART), b"")


def _zstd_frame(head: bytes, read: _ExactReader) -> Iterator[bytes]:
    """Header, blocks and checksum of one frame; `head` is its magic number and descriptor."""
    flags = head[4]
    single, checksum = flags >> 5 & 1, flags >> 2 & 1
    content_size = (single, 2, 4, 8)[flags >> 6]
    yield head + read((1 - single) + (0, 1, 2, 4)[flags & 3] + content_size)
    last = False
    while not last:
        header = read(3)
        number = int.from_bytes(header, "little")
        last = bool(number & 1) or len(header) < 3
        repeated = number >> 1 & 3 == 1
        yield header + read(1 if repeated else number >> 3)
    if checksum:
        yield read(4)
