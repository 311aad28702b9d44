"""Records and columnar tables that stages exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from corpusfit.core.plan import ReadPlan

T = TypeVar("T", int, NDArray[np.int64])

Texts: TypeAlias = pa.LargeStringArray
"""n texts as one Arrow array: bytes and offsets, no Python objects."""

Vectors: TypeAlias = NDArray[np.float32]
"""n embeddings, shape [n, d]."""

Reads = Literal["text", "embedding", "both", "numbers"]
"""What a method reads: the texts of units (`Texts`), their embeddings (`Vectors`), both, or numbers
in fields of their rows (`WithNumbers`)."""


@dataclass(frozen=True, slots=True)
class Paired:
    """n units, as texts and as embeddings."""

    texts: Texts
    vectors: Vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, places: NDArray[np.int64]) -> Paired:
        """The units at some positions, int64 [k]."""
        return Paired(take_texts(self.texts, places), self.vectors[places])


@dataclass(frozen=True, slots=True)
class WithNumbers:
    """n units with the numbers in some fields of their rows, float64 [n] each, by field."""

    units: Any  # as a method reads them: Texts, Vectors or Paired
    numbers: Mapping[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.units)

    def take(self, places: NDArray[np.int64]) -> WithNumbers:
        """The units at some positions, int64 [k]."""
        numbers = {field: values[places] for field, values in self.numbers.items()}
        return WithNumbers(take_units(self.units, places), numbers)


Corpus: TypeAlias = Iterable[tuple[int, Any]]
"""Every shard's number with its units, as the method reads them; can be iterated repeatedly."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a stored file, [begin, end)."""

    url: str
    begin: int
    end: int

    # dataclasses pickle four times as slowly, which the driver pays for each shard
    def __reduce__(self) -> tuple[type[Span], tuple[str, int, int]]:
        return Span, (self.url, self.begin, self.end)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Byte ranges of the m shards of a plain file of JSON lines."""

    # int64 [m + 1], the byte where each shard's first row begins, and the file's size
    begins: NDArray[np.int64]
    rows: NDArray[np.int64]  # int64 [m], the number of each shard's first row


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The m shards of a source that only a reader from its beginning can cut, as an archive."""

    rows: NDArray[np.int64]  # int64 [m], the number of each shard's first row
    begins: NDArray[np.int64]  # int64 [m], the byte of that row in the unpacked source
    sizes: NDArray[np.int64]  # int64 [m], bytes that each is cut by
    positions: NDArray[np.int64]  # int64 [m], stored bytes that are read when the shard ends
    # how the source was read (`blocks.cutting`); with another its shards may be others
    plan: ReadPlan


# not frozen, as a frozen one takes four times as long to make, which shows with many small files
@dataclass(slots=True, unsafe_hash=True)
class Source:
    """One input: a file, or a Hugging Face dataset split."""

    # path relative to the common folder of the inputs, with `/`; names it in every output
    name: str
    url: str  # local path, fsspec URL, or `hub:` and a dataset id
    format: str  # name of its format, a file of `text/formats/`
    compression: str  # `""`, `gz`, `zst`, `bz2` or `xz`
    size: int  # stored bytes, for progress; 0 if unknown
    fingerprint: str  # hex digest of the stored bytes (of id, split and revision for `hub`)
    # byte ranges of its shards, if workers can read them directly
    cells: Cells | None = field(default=None, compare=False, repr=False)
    # for `moses` the path or URL of the other file; for `columns` the names of the two columns,
    # joined by a comma, or empty for the first two; for `run` the digest of what decided the run
    translation: str = ""
    # its shards, if a stored file has to be read from its beginning for them
    blocks: Blocks | None = field(default=None, compare=False, repr=False)
    # hash of sizes and times of its local files before they were fingerprinted; 0 if unknown
    state: int = field(default=0, compare=False, repr=False)
    # its side files (`text/scores.py`): the set of each, its path, and the field of the corpus by
    # which it is joined; empty for the row number
    scores: Sequence[tuple[str, str, str]] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Nth:
    """A shard of a source that is cut from its beginning: one of `Blocks`."""

    source: Source  # the source, without its shards
    number: int  # the shard's number among those of the source
    row: int  # the number of its first row
    byte: int  # the byte of that row in the unpacked source
    size: int  # bytes that it is cut by
    last: bool  # whether it is the last one


class Beside(NamedTuple):
    """The side files of a shard's source."""

    source: str  # its name
    fingerprint: str  # that of the source, in which are those of the side files
    sides: Sequence[tuple[str, str, str]]  # as in `Source.scores`
    last: bool = False  # whether the shard is the source's last


BORDER = "\0"
"""Between two texts of a row, of which an earlier run selected parts; no text has it."""

FILE_BITS = 40
"""Low bits of a row's number in a shard; the high bits count sources from the shard's first."""


def in_file(rows: T) -> T:
    """Convert row numbers of a shard to row numbers of their sources; a number or int64 [n]."""
    return rows & ((1 << FILE_BITS) - 1)


def file_of(rows: T) -> T:
    """Index of each row's source within its shard; a number or int64 [n]."""
    return rows >> FILE_BITS


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive rows of one source, or several small sources: what a worker processes at a time.

    Shards are cut by content, so that their numbers do not depend on the number of workers. In a
    shard of several sources the number of a row also holds its source (`in_file`, `file_of`).
    """

    index: int  # number in the whole corpus, from 0, in reading order
    source: int  # number of its source
    format: str  # the source's format, which parses `data`
    first_row: int  # number of its first row within the source, from 0
    first_byte: int  # byte where that row begins in the unpacked source
    data: bytes  # the raw rows, in the form of the format's module
    rejects: tuple[Reject, ...]  # rows found unusable while cutting (too long, truncated archive)
    position: int  # stored bytes of the source read so far, for progress
    span: Span | Nth | None = None  # where the raw rows and their rejects are, if not here
    # the sources of a shard of several, all of its format; None for one source
    parts: Parts | None = None
    # number of sources from its first to its last; empty ones between them count
    files: int = 1
    beside: Beside | None = None

    def __reduce__(self) -> tuple[type[Shard], tuple[Any, ...]]:  # as for `Span`
        return Shard, _fields_of(self)


_fields_of = attrgetter(*(each.name for each in fields(Shard)))


class Parts(NamedTuple):
    """The k small sources of a shard of several: whole stored files, or shards they would be."""

    sources: list[int]  # their numbers, ascending
    sizes: list[int]  # bytes of their raw rows
    urls: list[str]  # the file of each, if a worker reads it; else empty
    shards: list[Shard | None]  # the shard of each, if not; else None


@dataclass(frozen=True, slots=True)
class Document:
    """One usable row.

    `byte` is where it begins in the unpacked source, `id` the value of its id field, `value` the id
    field as it is, also where it is a fraction or a list, which are no ids; `fields` by name those
    fields of the row that a template or a chat makes the text of, those of `choose.keep`, and of an
    aligned pair the text that is not read; `numbers` those of `read.numbers`.
    """

    row: int
    byte: int
    text: str
    id: str | int | None
    value: object = field(default=None, compare=False)
    fields: dict[str, Any] | None = field(default=None, compare=False)
    numbers: tuple[float, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Documents:
    """The n usable rows of one or more shards as columns, in reading order."""

    row: NDArray[np.int64]  # int64 [n], the row in its shard
    texts: Texts  # [n], never empty
    # float64 [n, k], those of `read.numbers`; None without any
    numbers: NDArray[np.float64] | None = None
    # whether a text may be several, with a `BORDER` between them
    bordered: bool = False

    def __len__(self) -> int:
        return len(self.row)


class Reason(NamedTuple):
    """Why a row is not used, as `text/rejects.py` says it; its text is what files store."""

    name: str
    about: str = ""  # what it is about, such as a field; summaries count each apart
    detail: str | None = None  # further words, which summaries do not count apart
    fields: tuple[str, ...] = ()  # those of a row that lacks the field to read

    def __str__(self) -> str:
        counted = f"{self.name} {self.about}" if self.about else self.name
        return counted if self.detail is None else f"{counted}: {self.detail}"

    @property
    def kind(self) -> Reason:
        """The reason without its detail, by which summaries count."""
        return self if self.detail is None else Reason(self.name, self.about)


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that is not used, and why."""

    row: int
    byte: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one shard, in reading order; n of them."""

    row: NDArray[np.int64]  # int64 [n], the document's row in its shard
    start: NDArray[np.int64]  # int64 [n], first character in the document's text
    end: NDArray[np.int64]  # int64 [n], one past the last character
    pieces: NDArray[np.int32]  # int32 [n], estimated word pieces
    # float64 [n, k], those of the document's row in `read.numbers`; None without any
    numbers: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.row)

    def take(self, places: NDArray[np.int64]) -> Units:
        """The units at some positions, int64 [k]."""
        numbers = None if self.numbers is None else self.numbers[places]
        row, start, end = (column[places] for column in (self.row, self.start, self.end))
        return Units(row, start, end, self.pieces[places], numbers)


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of one shard, in reading order; m of them over n units."""

    row: NDArray[np.int64]  # int64 [m], the document's row in its shard
    segment: NDArray[np.int32]  # int32 [m], number within the document, from 0
    start: NDArray[np.int64]  # int64 [m], first character in the document's text
    end: NDArray[np.int64]  # int64 [m], one past the last character
    units: NDArray[np.int32]  # int32 [m], number of units
    tokens: NDArray[np.int64]  # int64 [m], estimated word pieces
    first_unit: NDArray[np.int64]  # int64 [m], its first unit's place in the shard's `Units`

    def __len__(self) -> int:
        return len(self.row)


def text_array(texts: Sequence[str]) -> Texts:
    """Strings as one Arrow array [n], without `pa.array`, which imports pandas if installed."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    buffers = pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))
    return pa.LargeStringArray.from_buffers(len(encoded), *buffers)


def texts_between(through: NDArray[np.int64], data: NDArray[np.uint8]) -> Texts:
    """Texts as one Arrow array; text i is `data[through[i] : through[i + 1]]`."""
    held = pa.py_buffer(through), pa.py_buffer(data)
    return pa.LargeStringArray.from_buffers(len(through) - 1, *held)


def take_texts(texts: Texts, places: NDArray[np.int64]) -> Texts:
    """The texts at some positions, int64 [k], as one Arrow array [k]."""
    at = np.ascontiguousarray(places, np.int64)
    return texts.take(pa.Array.from_buffers(pa.int64(), len(at), [None, pa.py_buffer(at)]))


def take_units(batch: Any, places: NDArray[np.int64]) -> Any:
    """The units of a batch at some positions, in the batch's form."""
    if isinstance(batch, Paired | WithNumbers):
        return batch.take(places)
    return batch[places] if isinstance(batch, np.ndarray) else take_texts(batch, places)


def read_as(batch: Any, reads: Reads) -> Any:
    """The part of a batch that a method reads; a batch of one part is that part."""
    if reads == "numbers":
        return batch
    if isinstance(batch, WithNumbers):
        return read_as(batch.units, reads)
    if not isinstance(batch, Paired) or reads == "both":
        return batch
    return batch.texts if reads == "text" else batch.vectors


def as_texts(texts: Any, name: str = "texts") -> Texts:
    """Any n strings as one Arrow array [n]: a sequence, a column of pandas, any Arrow strings."""
    if type(texts) is pa.LargeStringArray and not texts.null_count:
        return texts
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        strings = (pa.string(), pa.large_string(), pa.string_view())
        if texts.null_count or texts.type not in strings:
            raise TypeError(f"{name} must be strings without nulls; got Arrow's {texts.type}")
        array = texts.cast(pa.large_string())  # cast first, as 32-bit offsets end at 2 GB
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    # a mapping or a data frame is not a sequence of texts
    whole = isinstance(texts, str | Mapping) or getattr(texts, "ndim", 1) != 1
    if whole or not hasattr(texts, "__len__"):
        got = f"got a {type(texts).__name__}"
        raise TypeError(f"{name} must be a sequence of strings, such as a list or a column; {got}")
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be strings; number {at} is a {type(text).__name__}")
    return text_array(list(texts))


def buffers(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes and the n + 1 offsets of n texts; text i is `data[offsets[i] : offsets[i + 1]]`.

    The bytes are always read-only: a kernel would be compiled twice for both kinds of arrays.

    Of `Texts` nothing is copied: Arrow's own layout is what the kernels read. Other strings become
    such an array first (`as_texts`, with its errors).
    """
    held = as_texts(texts)
    _, offsets, data = held.buffers()
    n = len(held)
    if offsets is None or n == 0:
        return np.frombuffer(b"", np.uint8), np.zeros(n + 1, np.int64)
    places = np.frombuffer(offsets, np.int64)[held.offset : held.offset + n + 1]
    held_bytes = np.frombuffer(data or b"", np.uint8)
    held_bytes.flags.writeable = False
    return held_bytes, places
