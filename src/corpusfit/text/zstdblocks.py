"""Find the blocks of a zstd file, so that it can be unpacked block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_PART = 1 << 17


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


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut after every header, block and checksum (RFC 8878, section 3.1).

    Each block unpacks to at most 128 KiB. python-zstandard does not limit the output of one call,
    and 4 KiB of a bomb can unpack to 128 MiB. Unknown bytes are passed on unchanged, so that the
    library reports the error.
    """
    read = _ExactReader(chunks)
    while head := read(5):
        while padding := len(head) - len(head.lstrip(b"\0")):
            yield head[:padding]
            head = head[padding:] + read(padding)
        if head[:4] == _MAGIC and len(head) == 5:
            yield from _frame(head, read)
        elif head[1:4] == _SKIPPABLE and head[0] >> 4 == 5:
            head += read(3)
            yield head
            yield from _parts(read, int.from_bytes(head[4:], "little"))
        else:
            yield head
            yield from iter(lambda: read(_PART), b"")


def _frame(head: bytes, read: _ExactReader) -> Iterator[bytes]:
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


def _parts(read: _ExactReader, size: int) -> Iterator[bytes]:
    while size > 0 and (part := read(min(size, _PART))):
        size -= len(part)
        yield part
