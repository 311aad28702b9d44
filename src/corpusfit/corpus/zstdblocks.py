"""Where the blocks of a zstd file are, so that it can be unpacked one at a time.

What: `blocks` cuts stored chunks into pieces that each unpack to 128 KiB at most.
Why: python-zstandard has no limit on what one call may put out, and 4 KiB of a bomb can hold
128 MiB; a block is small by definition of the format.
Trade-off: thirty lines that know the format; what they do not understand they pass on whole, and
the library words the error.
Reference: RFC 8878, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_PART = 1 << 17


class _Taker:
    """Exact numbers of bytes from a stream of chunks, fewer only at its end."""

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
    """The same bytes, cut after every header, block and checksum."""
    take = _Taker(chunks)
    while head := take(5):
        if head[:4] == _MAGIC and len(head) == 5:
            yield from _frame(head, take)
        elif head[1:4] == _SKIPPABLE and head[0] >> 4 == 5:
            head += take(3)
            yield head
            yield from _parts(take, int.from_bytes(head[4:], "little"))
        else:
            yield head
            yield from iter(lambda: take(_PART), b"")


def _frame(head: bytes, take: _Taker) -> Iterator[bytes]:
    """Header, blocks and checksum of one frame; `head` is its magic number and descriptor."""
    flags = head[4]
    single, checksum = flags >> 5 & 1, flags >> 2 & 1
    content_size = (single, 2, 4, 8)[flags >> 6]
    yield head + take((1 - single) + (0, 1, 2, 4)[flags & 3] + content_size)
    last = False
    while not last:
        header = take(3)
        number = int.from_bytes(header, "little")
        last = bool(number & 1) or len(header) < 3
        repeated = number >> 1 & 3 == 1
        yield header + take(1 if repeated else number >> 3)
    if checksum:
        yield take(4)


def _parts(take: _Taker, size: int) -> Iterator[bytes]:
    while size > 0 and (part := take(min(size, _PART))):
        size -= len(part)
        yield part
