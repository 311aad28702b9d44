"""Arrow data as rows: the values that the same rows have as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from corpusfit.text import rejects

Convert = Callable[[Any], Any]


def records(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table or batch; dates, decimals and bytes as `json_value` takes them."""
    names, columns = table.schema.names, list(map(values, table.columns))
    for row in zip(*columns, strict=True) if names else [()] * table.num_rows:
        yield dict(zip(names, row, strict=True))


def values(column: Any) -> list[Any]:
    """The values of an Arrow array; one that Python cannot hold is a `rejects.FOREIGN`."""
    convert = _converter(column.type)
    try:
        found: list[Any] = column.to_pylist()
        return list(map(convert, found)) if convert else found
    except (ValueError, OverflowError):  # a date beyond Python's, or no Unicode
        pass
    found = []
    for scalar in column:
        try:
            value = scalar.as_py()
            found.append(convert(value) if convert else value)
        except UnicodeError:
            found.append({rejects.FOREIGN: rejects.INVALID_UTF8})
        except (ValueError, OverflowError) as e:
            found.append({rejects.FOREIGN: rejects.unreadable(str(column.type), e)})
    return found


def _converter(kind: Any) -> Convert | None:
    """What makes a value as Arrow gives it one as JSON has it; None if it is one already."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            return lambda value: None if value is None else orjson.loads(value)
        return _converter(kind.storage_type)
    if types.is_dictionary(kind):
        return _converter(kind.value_type)
    if types.is_float16(kind) or types.is_float32(kind):
        # the shortest digits that give it again, as JSON lines and CSV have them
        return lambda value: None if value is None else float(str(np.float32(value)))
    if types.is_map(kind):
        inner = _converter(kind.item_type) or _same
        return lambda value: None if value is None else {k: inner(v) for k, v in value}
    if types.is_struct(kind):
        own = {f.name: c for f in kind if (c := _converter(f.type))}
        if not own:
            return None
        return lambda value: value and {k: own.get(k, _same)(v) for k, v in value.items()}
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        each = _converter(kind.value_type)
        return each and (lambda value: value and list(map(each, value)))
    return None


def _same(value: Any) -> Any:
    return value
