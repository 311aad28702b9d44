"""Store and restore anything made of arrays, numbers and names.

What: one `.safetensors` file for a frozen dataclass; arrays as tensors, the rest as JSON in
the file's own header.
Why: a fitted scorer has to reach workers and later commands, and a pickle would run code.
Trade-off: fields must be numpy arrays, numbers, strings, booleans, None, or lists, tuples and
string-keyed dicts of those; that is the price for a file that is safe to open and to share.
Reference: the safetensors format.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from corpusfit.errors import ModelError, StorageError

__all__ = [
    "read_arrays",
    "restore",
    "store",
    "sweep",
    "write_arrays",
    "write_bytes",
    "writing",
]

_ASIDE = re.compile(r"\.\d+\.part$")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that appears whole or not at all: aside, fsync, rename.

    Raises:
        StorageError: the disk is full or the path cannot be written.
    """
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(aside, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        aside.replace(path)
        _sync_folder(path.parent)
    except BaseException as e:
        with contextlib.suppress(OSError):
            aside.unlink()
        if not isinstance(e, OSError):
            raise
        raise StorageError(
            f"Cannot write {path}: {e.strerror or e}. Make room or permit writing, then run the "
            "same command again: finished shards are kept."
        ) from e


def sweep(folder: Path) -> None:
    """Remove what killed processes left aside below a folder that nobody is writing to."""
    for left in folder.rglob("*.part"):
        if _ASIDE.search(left.name):
            left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename outlive a power cut, where folders can be synced."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; raises as `writing` does."""
    with writing(path) as f:
        f.write(data)


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
    """Write named arrays and a JSON header as one safetensors file, whole or not at all."""
    tensors = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    write_bytes(path, save(tensors, {"json": json.dumps(header, sort_keys=True)}))


def read_arrays(
    path: Path, names: Sequence[str] | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote: the named arrays (all if none are named) and the header.

    Raises:
        ModelError: the file is not a whole safetensors file of ours.
    """
    try:
        with safe_open(path, framework="numpy") as f:
            wanted = f.keys() if names is None else names
            arrays = {name: f.get_tensor(name) for name in wanted}
            header = json.loads((f.metadata() or {})["json"])
    except (SafetensorError, OSError, KeyError, ValueError) as e:
        raise ModelError(f"{path} is not a file that corpusfit wrote: {e}.") from e
    return arrays, header


def store(path: Path, kind: str, thing: Any) -> None:
    """Store a dataclass instance under a kind that `restore` can look up again."""
    arrays: dict[str, NDArray[Any]] = {}
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        else:
            plain[field.name] = value
    write_arrays(path, arrays, {"kind": kind, "fields": plain})


def restore(path: Path, resolve: Callable[[str], type[Any]]) -> Any:
    """Restore what `store` wrote; `resolve` turns the kind into the class.

    JSON has no tuples: a field that was a tuple comes back as one, because lists are never stored.
    """
    arrays, header = read_arrays(path)
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in header["fields"].items()}
    return resolve(header["kind"])(**arrays, **plain)
