"""Inputs of the Python API: names of inputs, finished runs, or data in memory.

Data in memory is written once to the cache, as JSON lines under a digest of its content. So workers
read it as they read a file, the same data resumes the same run, and an iterator is read once.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from corpusfit.core.artifacts import is_local, user_path, writing
from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.core.keywords import Inputs
from corpusfit.text.context import Machine
from corpusfit.text.contract import format_of, named
from corpusfit.text.fields import fields_in, missing, records, values
from corpusfit.text.files import is_data
from corpusfit.text.formats.jsonl import line_of
from corpusfit.text.rejects import missing_field

_LOOKED_AT = 100
_FEW = 10
"""Strings from which on they may be words, or texts of a script without spaces."""
_SHOWN = 3
_LONGEST_NAME = 255
"""Bytes of the longest name of a file."""
_FIELDS = {"target": "fit.target_field", "corpus": "read.text_field"}
"""The settings of text fields, which are checked before anything is read."""
_WHITE = re.compile(r"\s")
_URL = re.compile(r"[\w+.-]+://")


def listed(inputs: Inputs) -> list[str]:
    """The names of what is never data in memory, such as folders and models: one or several."""
    several: Any = [inputs] if _is_name(inputs) else inputs
    return list(map(_name, several))


def inputs(inputs_or_data: Inputs, role: str, machine: Machine, field: str = "text") -> list[str]:
    """Resolve inputs to names; data in memory is written to the cache and named.

    Args:
        inputs_or_data: strings are names of inputs if one of them exists, all look like names, or
            there are few and none has white space; otherwise they are texts. Of ten or more that
            mostly have white space only these count, and a look counts if it is that of a URL.
            Strings of a subclass, as from the command line, are always names.
        role: the setting, such as `target`; also the name of the data.
        machine: its cache holds the data.
        field: the field from which the command reads the text.

    Raises:
        UsageError: a row is neither a text nor a dict; a mapping has columns, not data by name.
        EmptyInputError: no row of the target or the corpus has the field.
        StorageError: the cache cannot be written.
    """
    names = _named(inputs_or_data)
    if names is not None:
        _require_names(inputs_or_data, role)
        return names
    cache = machine.cache_folder()
    several = isinstance(inputs_or_data, Mapping)
    parts: Mapping[Any, Any] = (
        inputs_or_data if isinstance(inputs_or_data, Mapping) else {role: inputs_or_data}
    )
    column = parts.get(field)
    tables = ("columns", "column_names")
    if several and hasattr(column, "__len__") and not any(hasattr(column, a) for a in tables):
        got = f"a dict with {field!r}"
        cure = "Give a list of dicts, or a data frame, in place of a dict of columns."
        raise bad_setting(f"`{role}`", "data by name in a dict", got, cure)
    digest = hashlib.blake2b(digest_size=16)
    first = None
    has_field = False
    with tempfile.TemporaryDirectory(prefix="corpusfit-") as scratch:
        for name, data in parts.items():
            file = Path(scratch) / f"{quote(str(name), safe=' ')}.jsonl"
            digest.update(f"{file.name}\n".encode())
            with file.open("wb") as out:
                for row in _rows(data):
                    line = _line(row, field, role)
                    digest.update(line)
                    out.write(line)
                    first = row if first is None else first
                    has_field = has_field or _has(row, field)
        if role in _FIELDS and first is not None and not has_field:
            raise EmptyInputError(
                f"`{role}` has no usable text ({missing_field(field, first)}). Name its text "
                f"field with `{_FIELDS[role]}`."
            )
        folder = cache / "data" / digest.hexdigest()
        files = [folder / file.name for file in sorted(Path(scratch).iterdir())]
        for target in files:
            if not target.exists():
                with (Path(scratch) / target.name).open("rb") as whole, writing(target) as out:
                    shutil.copyfileobj(whole, out)
            elif is_local(target):
                target.touch()  # mark it as used for `cache clear`
    # in a folder, a file with such a name would be left out
    named = not several or not all(is_data(file.name) for file in files)
    return list(map(str, files)) if named else [str(folder)]


def _named(inputs: Inputs) -> list[str] | None:
    """The inputs that are named; None for data in memory."""
    if _is_name(inputs):
        return [_name(inputs)]
    if not (isinstance(inputs, Sequence) and all(map(_is_name, inputs))):
        return None
    return None if _are_texts(inputs) else list(map(_name, inputs))


def _is_name(value: Any) -> bool:
    """Whether it can name an input: a string, a path, a finished run, or a path of a store."""
    return isinstance(value, str | os.PathLike) or hasattr(value, "joinpath")


def _name(value: Any) -> str:
    return str(value) if hasattr(value, "joinpath") else os.fspath(value)


def _are_texts(strings: Sequence[str]) -> bool:
    """Whether strings are texts, not names of inputs."""
    if not all(type(s) is str for s in strings):
        return False
    if len(strings) < _FEW and not any(map(_WHITE.search, strings)):
        return False
    first = strings[:_LOOKED_AT]
    spaced = list(filter(_WHITE.search, first))
    if len(strings) >= _FEW and 2 * len(spaced) > len(first):
        # a question looks like a pattern of names, and a text of one word may be a file by chance
        return not any(map(_exists, spaced)) and not all(map(_URL.match, first))
    return not any(map(_exists, first)) and not all(map(_is_input, first))


def _require_names(inputs: Any, role: str) -> None:
    """Raise `UsageError` for strings that name no input and may be texts."""
    strings = [inputs] if _is_name(inputs) else inputs
    if not all(type(s) is str for s in strings):
        return
    may_be_texts = len(strings) > 1 or any(
        _WHITE.search(s) or len(s.encode(errors="replace")) > _LONGEST_NAME for s in strings
    )
    if may_be_texts and not any(_exists(s) or _is_input(s) for s in strings):
        shown = inputs if isinstance(inputs, str) else list(inputs[:_SHOWN])
        cure = "For texts, give a list of dicts, such as [{'text': …}]."
        raise bad_setting(
            f"`{role}`", "names of files or folders that exist, or texts", shown, cure
        )


def _is_input(name: str) -> bool:
    """Whether it is the name of an input by its form."""
    if format_of(name) or named(name) or _URL.match(name):
        return True
    if _WHITE.search(name):  # a text may have marks of a pattern
        return bool(glob.glob(str(user_path(name))))  # noqa: PTH207  it may be absolute
    return glob.has_magic(name)


def _exists(name: str) -> bool:
    try:
        return user_path(name).exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


def _rows(data: Any) -> Iterator[Any]:
    """The rows of data in memory, in order: texts or dicts."""
    if hasattr(data, "with_format"):  # datasets
        yield from _with_label_names(data.with_format(None))
    elif hasattr(data, "itertuples"):  # a data frame of pandas
        data = data.loc[:, ~data.columns.duplicated()]  # of columns with one name the first
        columns = [_column(data.iloc[:, n]) for n in range(data.shape[1])]
        names = list(map(str, data.columns))
        # named levels of the index are columns, as pandas writes them to Parquet
        for level, name in enumerate(data.index.names):
            if name is not None and str(name) not in names:
                columns.append(_column(data.index.get_level_values(level).to_series()))
                names.append(str(name))
        yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    elif hasattr(data, "collect"):  # a lazy frame of polars
        yield from _rows(data.collect())
    elif hasattr(data, "to_arrow"):  # a data frame or a series of polars
        yield from _rows(data.to_arrow())
    elif hasattr(data, "to_batches"):  # an Arrow table
        for batch in data.to_batches():
            yield from _rows(batch)
    elif hasattr(data, "read_next_batch"):  # a reader of Arrow batches
        for batch in data:
            yield from _rows(batch)
    elif hasattr(data, "schema") and hasattr(data, "to_pylist"):  # an Arrow batch
        yield from records(data)
    elif hasattr(data, "to_pylist"):  # an Arrow array
        yield from values(data)
    # any other table, such as a relation of DuckDB; a column of pandas has a type
    elif hasattr(data, "__arrow_c_stream__") and not hasattr(data, "dtype"):
        yield from _rows(pa.RecordBatchReader.from_stream(data))
    else:
        for row in data if isinstance(data, Iterable) else [data]:
            yield from _rows(row) if hasattr(row, "to_pylist") else [row]


def _column(column: Any) -> Iterable[Any]:
    """The values of a column of pandas, without digits that its type does not have."""
    if hasattr(column.dtype, "pyarrow_dtype"):
        return values(pa.array(column))
    return list(column.to_numpy() if str(column.dtype) in ("float16", "float32") else column)


def _with_label_names(data: Any) -> Iterator[dict[str, Any]]:
    """The rows of a `datasets` split with the names of labels in the place of their numbers."""
    features = data.features or {}
    labels = {name: kind for name, kind in features.items() if hasattr(kind, "int2str")}
    for row in data:
        named_labels = {
            # -1 is the number of no label
            name: kind.int2str(row[name]) if row[name] >= 0 else None
            for name, kind in labels.items()
            if isinstance(row[name], int)
        }
        yield {**row, **named_labels}


def _line(row: Any, field: str, role: str) -> bytes:
    """A row as a JSON line; a text becomes the field that the command reads."""
    if not isinstance(row, Mapping):
        if not (isinstance(row, str) or missing(row)):
            allowed = "names of inputs, texts, dicts, a data frame, or an Arrow or datasets table"
            raise bad_setting(f"`{role}`", allowed, f"a row of type {type(row).__name__}")
        row = {field: row}
    return line_of(row)


def _has(row: Any, field: str) -> bool:
    """Whether a row may have the field, which may be a template or lie within another."""
    plain = fields_in(field) == [field] and "." not in field
    return not plain or not isinstance(row, Mapping) or field in row
