"""Arrow IPC files and streams: Feather, and what `datasets` saves to disk.

What: read as Parquet is; a file that begins with the mark of IPC files is one, any other a stream.
Why: pyarrow reads both, and a data set saved to disk is a folder of streams.
Trade-off: a stored batch is read whole, so a file of one huge batch needs its size in memory.
Offsets and UTF-8 are checked, because pyarrow trusts them; a batch that fails ends the file.
Reference: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from corpusfit.text.formats.parquet import BATCH, Batches, Parquet

_MARK = b"ARROW1"


class _ArrowBatches(Batches):
    form = "arrow"
    _file_position = 0

    def read(self, file: BinaryIO) -> Iterator[tuple[Any, Any]]:
        """Batches with the wanted columns, each with the schema of the whole file."""
        mark = file.read(len(_MARK))
        file.seek(0)
        opened = (pa.ipc.open_file if mark == _MARK else pa.ipc.open_stream)(file)
        outer = {n for name in self.wanted(opened.schema.names) for n in (name, name.split(".")[0])}
        columns = [name for name in opened.schema.names if name in outer]
        stored = (
            map(opened.get_batch, range(opened.num_record_batches)) if mark == _MARK else opened
        )
        try:
            for batch in stored:
                wanted = batch.select(columns)
                wanted.validate(full=True)
                self._file_position = file.tell()
                for begin in range(0, batch.num_rows, BATCH):
                    yield wanted.slice(begin, BATCH), opened.schema
        except MemoryError as e:  # a damaged length
            raise pa.ArrowInvalid("a batch is larger than memory") from e

    def position(self, row: int) -> int:
        """The bytes that are read."""
        del row
        return min(self._source.size, self._file_position)


class Arrow(Parquet):
    """Arrow IPC files and streams."""

    name = "arrow"
    suffixes = (".arrow", ".feather")
    batches = _ArrowBatches
