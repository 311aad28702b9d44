"""The contract of input formats, and their registry: files of `text/formats/` and entry points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.errors import InputError
from corpusfit.core.plan import PAIR, ReadPlan
from corpusfit.core.registry import Registry
from corpusfit.core.types import (
    Document,
    Documents,
    Reject,
    Shard,
    Source,
    buffers,
    take_texts,
    text_array,
)
from corpusfit.text.cutting import Block
from corpusfit.text.fields import Pick, Row
from corpusfit.text.files import COMPRESSIONS, unpacked_name


class Format(ABC):
    """An input format. It has no state, so that workers find it by its name alone.

    To add a format, add one file to `text/formats/` with one `Format` (or two that differ in a
    setting). The readers, the messages, `split` and the contract tests find it there.
    """

    name: ClassVar[str]
    """Its name in `Source.format`, and so in manifests; never changed."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of file names, each from a dot on, before any compression suffix."""
    plain: ClassVar[bool] = False
    """Whether the stored bytes of a small file that is not compressed are a block as they are."""
    joins: ClassVar[bool] = False
    """Whether blocks of several sources can be parsed as one; see `joined`."""
    line_ends: ClassVar[bool] = False
    """Whether any run of lines is a block of rows, so that workers can read a file in parallel."""
    seeks: ClassVar[bool] = False
    """Whether `blocks_from` goes to a row without reading those before it."""
    cut_by_text: ClassVar[bool] = True
    """Whether shards are the same, whatever field is read as the id."""
    named_fields: ClassVar[bool] = True
    """Whether rows have fields beside the text, by name."""
    single: ClassVar[bool] = False
    """Whether a file is one document, so that one about others, such as a README, is no data."""
    parallel: ClassVar[bool] = False
    """Whether rows are aligned pairs; such a format is named by its prefix."""
    gathers: ClassVar[bool] = False
    """Whether a source's rows are of several sources, `names`; a row's number then holds which."""
    written: ClassVar[str] = ""
    """Suffix (no dot) of a file that holds `header` and rows unchanged; empty if none does."""

    @abstractmethod
    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Cut a source into blocks of whole rows, from its beginning.

        Raises:
            InputError: stored bytes cannot be read. Bad content becomes a reject.
        """

    def blocks_from(self, source: Source, plan: ReadPlan, row: int, byte: int) -> Iterator[Block]:
        """Those of `blocks` from the one that begins at a row and byte, or from an earlier one."""
        del row, byte
        return self.blocks(source, plan)

    @abstractmethod
    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        """The rows of one shard by `shard.data`, in order, in a worker; never raises."""

    def columns(
        self, shard: Shard, plan: ReadPlan, pick: Pick | None = None
    ) -> tuple[Documents, list[Reject]]:
        """The usable rows of a shard as columns, and the rejects; `pick` chooses rows."""
        return columns_of(self.parse(shard, plan), pick)

    def joined(self, data: bytes, plan: ReadPlan) -> bytes | None:
        """Terminate a source's raw rows, so that another source can follow; offsets are kept.

        None if the first row cannot be parsed behind others.
        """
        del plan
        return data

    def head(self, data: bytes, plan: ReadPlan) -> int:
        """The number of bytes before the first row of a block's data."""
        del data, plan
        return 0

    def written_row(self, data: bytes, raw: bytes) -> bytes:
        """The bytes of a row of a block, as a file with `header` holds them, without a line end."""
        del data
        return raw.rstrip(b"\r\n")

    def header(self, source: Source, plan: ReadPlan) -> bytes:
        """File header without its line end; empty for formats without one."""
        del source, plan
        return b""

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        """Raise `InputError` for what would stop a run later; `setting` named the source."""
        del source, plan, setting

    def files(self, source: Source) -> list[str]:
        """The stored files of a source; none if its content is known by its name alone."""
        return [source.url]

    def fingerprint(self, source: Source, digests: Sequence[str]) -> str:
        """Combine the fingerprints of a source's files."""
        del source
        return digests[0]

    def names(self, source: Source) -> tuple[str, ...]:
        """The names of the sources that its rows are of."""
        return (source.name,)

    def sides(self, source: Source) -> tuple[str, str]:
        """Names of the two sides of aligned pairs, fit for file names."""
        del source
        return PAIR


def columns_of(rows: Iterable[Row], pick: Pick | None = None) -> tuple[Documents, list[Reject]]:
    """The usable rows as columns, and the rejects; see `Format.columns`."""
    used: list[Document] = []
    rejected: list[Reject] = []
    for row in rows:
        if isinstance(row, Document):
            used.append(row)
        else:
            rejected.append(row)
    numbers = np.array([d.row for d in used], np.int64)
    texts = text_array([d.text for d in used])
    return picked(Documents(numbers, texts, _numbers(used)), pick), rejected


def _numbers(used: Sequence[Document]) -> NDArray[np.float64] | None:
    """The numbers of documents, float64 [n, k]; None if they have none."""
    return np.array([d.numbers for d in used], np.float64) if used and used[0].numbers else None


def picked(documents: Documents, pick: Pick | None) -> Documents:
    """The documents that `pick` chooses, by the sizes of their texts; all without it."""
    if not pick:
        return documents
    chosen = pick(documents.row, np.diff(buffers(documents.texts)[1]))
    texts = take_texts(documents.texts, np.flatnonzero(chosen))
    numbers = None if documents.numbers is None else documents.numbers[chosen]
    return Documents(documents.row[chosen], texts, numbers)


def completed(
    read: Documents, plain: NDArray[np.bool_], parse: Callable[[int], Row | None]
) -> tuple[Documents, list[Reject]]:
    """The usable rows of n, and the rejects, after a kernel has read most of them.

    Args:
        read: n rows; texts are empty where the kernel deferred to the full parser.
        plain: bool [n], rows that the kernel read.
        parse: the full parser of row i; None if that is no row.
    """
    rejected: list[Reject] = []
    further: list[Document] = []
    kept = plain.copy()
    at = np.arange(len(plain))
    for i in np.flatnonzero(~plain).tolist():
        row = parse(i)
        if isinstance(row, Reject):
            rejected.append(row)
        elif row is not None:
            kept[i] = True
            at[i] = len(plain) + len(further)
            further.append(row)
    if kept.all() and not further:
        return read, rejected
    both = pa.concat_arrays([read.texts, text_array([d.text for d in further])])
    # rows with numbers are all parsed in full
    return Documents(read.row[kept], take_texts(both, at[kept]), _numbers(further)), rejected


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8, without decoding them to a string."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


class Named(Format):
    """A format whose inputs have a prefix instead of being files."""

    prefix: ClassVar[str]
    """Beginning of its inputs, such as `hub:`; formats with the same one share `find`."""

    @abstractmethod
    def find(self, input_name: str, setting: str) -> list[Source]:
        """The sources that an input names. A source of stored files gets its own name later.

        Raises:
            UsageError: the input has none of the allowed forms; `setting` is what named it.
            InputError: it cannot be reached.
        """

    def located(self, input_name: str, home: Path) -> str:
        """Resolve relative paths of an input against the folder `home`."""
        del home
        return input_name


FORMATS = Registry("corpusfit.formats", "corpusfit.text.formats")


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    modules = FORMATS.modules()
    return {cls.name: cls() for module in modules for cls in FORMATS.classes(module, Format)}


def load(name: str) -> Format:
    """The format of a source or a shard."""
    form = formats().get(name)
    if form is None:
        raise InputError(
            f"The format of an input must be one of {', '.join(formats())}; got {name!r}. Install "
            "the package that reads it."
        )
    return form


def named(input_name: str) -> Named | None:
    """The format whose prefix an input begins with; None for paths and URLs."""
    for form in formats().values():
        if isinstance(form, Named) and input_name.startswith(form.prefix):
            return form
    return None


def format_of(name: str) -> tuple[str, str] | None:
    """The format and the compression (or `""`) of a file name; None for an unknown suffix."""
    stem, compression = unpacked_name(name.lower())
    for form in formats().values():
        if stem.endswith(form.suffixes):
            return form.name, compression
    return None


def suffixes() -> list[str]:
    """The readable suffixes, without those of compressed files."""
    return [suffix for form in formats().values() for suffix in form.suffixes]


def allowed_suffixes() -> str:
    """The readable suffixes, for messages."""
    archives = ", ".join(f".{c}" for c in COMPRESSIONS)
    return f"{', '.join(suffixes())}, each plain or compressed ({archives})"
