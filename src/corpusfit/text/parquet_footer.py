"""The sizes of column chunks in the footer of a Parquet file.

Why: pyarrow says them too, but a damaged chunk ends its process (`RowGroupMetaData.column` lets an
exception of C++ through).
Reference: parquet.thrift of Apache Parquet (FileMetaData.row_groups, RowGroup.columns,
ColumnChunk.meta_data), Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

_DEEPEST = 32  # structures in each other; those of Parquet have ten
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


class Chunk(NamedTuple):
    """A column of a row group."""

    root: str  # the first part of its path
    stored: int  # bytes
    unpacked: int  # bytes


def row_groups(file: BinaryIO) -> list[list[Chunk]]:
    """The column chunks of every row group.

    Raises:
        ValueError: the footer is damaged.
    """
    end = file.seek(-8, 2)
    size = int.from_bytes(file.read(4), "little")
    file.seek(max(0, end - size))
    try:
        footer = _Compact(file.read(size)).value(_STRUCT)
        groups = [[column[3] for column in group[1]] for group in footer[4]]
        return [
            [Chunk(c[3][0].decode("utf-8", "replace"), int(c[7]), int(c[6])) for c in chunks]
            for chunks in groups
        ]
    except (AttributeError, LookupError, TypeError) as e:
        raise ValueError(f"the footer is damaged: {e}") from e


class _Compact:
    """Reads values of Thrift's compact protocol, structures as dicts by field number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self, kind: int, depth: int = 0) -> Any:
        """The next value, of a kind."""
        if depth > _DEEPEST:
            raise ValueError("structures are too deep")
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in (_LIST, _SET):
            header = self._byte()
            length = header >> 4
            length = self._unsigned() if length == 15 else length
            return [self.value(header & 15, depth + 1) for _ in range(length)]
        if kind == _MAP:
            length = self._unsigned()
            kinds = self._byte() if length else 0
            for _ in range(length):
                self.value(kinds >> 4, depth + 1)
                self.value(kinds & 15, depth + 1)
            return None
        if kind == _STRUCT:
            return self._struct(depth)
        number = self._unsigned()  # a whole number, its sign in the last bit
        return number >> 1 ^ -(number & 1)

    def _struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        field = 0
        while header := self._byte():
            kind = header & 15
            field = field + (header >> 4) if header >> 4 else self.value(4)
            # a boolean is in the header
            fields[field] = kind if kind in (_TRUE, _FALSE) else self.value(kind, depth + 1)
        return fields

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, length: int) -> bytes:
        begin = self._at
        self._at += length
        if self._at > len(self._data):
            raise ValueError("a value is longer than the footer")
        return self._data[begin : self._at]

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("a number is too long")
