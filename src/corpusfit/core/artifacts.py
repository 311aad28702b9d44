"""Atomic file writes, here or in a store, and dataclasses as safetensors files."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import json
import os
import re
import shutil
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from corpusfit.core.errors import (
    ModelError,
    StorageError,
    bad_setting,
    machine_fault,
    raise_machine_fault,
)

if TYPE_CHECKING:  # what parses a command line names folders, too
    from numpy.typing import NDArray

T = TypeVar("T")

_TEMPORARY = re.compile(r"\.\d+\.part$")
# files of a store that are fetched at a time
_AT_ONCE = 256


def place(location: str | os.PathLike[str], setting: str) -> Path:
    """A folder named by the user: a path of this machine, or a URL of a store."""
    text = os.fspath(location) if isinstance(location, os.PathLike) else str(location)
    if isinstance(location, Path) or "://" not in text:
        return Path(text)
    if text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    from upath import UPath

    try:
        path = UPath(text, use_listings_cache=False)  # because other workers write there too
        _ = path.fs
    except (ImportError, ValueError) as e:
        cure = f"{e}. Install the library of the store, for instance `pip install s3fs` for s3://."
        raise bad_setting(setting, "a folder or a URL that fsspec can write to", text, cure) from e
    return cast("Path", path)


def user_path(name: str) -> Path:
    """A path as people write it, with `~` for a home folder; an unknown `~NAME` stays a name."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (Path's own raises)


def user_cache() -> Path:
    """The user's local folder for what can be made again."""
    from platformdirs import user_cache_path

    return user_cache_path("corpusfit", appauthor=False)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause the search for cycles, which takes half of the time of listing many files."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def is_local(path: Path) -> bool:
    """Whether a path is on this machine, not in a store."""
    return isinstance(path, Path)


def local_place(location: str | os.PathLike[str], setting: str) -> Path:
    """As `place`, for a folder that must be on this machine."""
    folder = place(location, setting)
    if not is_local(folder):
        raise bad_setting(setting, "a folder of this machine", str(location))
    return folder


def listed(folder: Path) -> set[str]:
    """The names in a folder, by one listing; none if the folder does not exist."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def read_many(paths: Iterable[Path]) -> Iterator[bytes]:
    """The contents of files, in order; those in a store are fetched many at once."""
    waiting = iter(paths)
    while some := list(islice(waiting, _AT_ONCE)):
        if is_local(some[0]):
            yield from (path.read_bytes() for path in some)
        else:
            fs, keys = _store(some[0])[0], [_store(path)[1] for path in some]
            contents = fs.cat(keys)
            yield from (contents[key] for key in keys)


def remove(*paths: Path) -> None:
    """Remove files, and folders with their content, one after another; some may not exist."""
    for path in paths:
        if not is_local(path):
            fs, key = _store(path)
            with contextlib.suppress(FileNotFoundError):
                fs.rm(key, recursive=True)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()


def _store(path: Any) -> tuple[Any, str]:
    """The file system of a path in a store, and its key there."""
    return path.fs, path.path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for an atomic write."""
    if not is_local(path):
        fs, key = _store(path)
        with tempfile.NamedTemporaryFile(prefix="corpusfit-") as f:
            yield cast("BinaryIO", f)
            f.flush()
            try:
                fs.put_file(f.name, key)
            except Exception as e:  # whatever the store's library raises
                raise _unwritten(path, e) from e
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        if os.name == "posix":  # sync the folder, so that the rename survives a power cut
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except BaseException as e:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(e, OSError):
            raise
        raise _unwritten(path, e) from e


def _unwritten(path: Path, error: Exception) -> StorageError:
    what = f"Cannot write {path}"
    return machine_fault(error, what) or StorageError(
        f"{what}: {getattr(error, 'strerror', None) or error}. Allow writing there, then run the "
        "same command again; finished work is kept."
    )


def sweep(folder: Path, files: str = "**/*") -> None:
    """Remove the temporary files of killed processes from a folder."""
    if not is_local(folder):
        return  # a store has no temporary files
    for file in folder.glob(f"{files}.part"):
        if _TEMPORARY.search(file.name):
            file.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    if is_local(path):
        with writing(path) as f:
            f.write(data)
        return
    fs, key = _store(path)
    try:
        fs.pipe_file(key, data)
    except Exception as e:  # whatever the store's library raises
        raise _unwritten(path, e) from e


def copy(file: Path, to: Path) -> None:
    """Copy a file that is never changed in place: a link, if both are on this machine's disk."""
    with contextlib.suppress(OSError, AttributeError):  # another disk, a store, no links
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        to.hardlink_to(file)
        return
    write_bytes(to, file.read_bytes())


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
    """Write named arrays and a JSON header as one safetensors file."""
    write_bytes(path, _saved(arrays, header))


def _saved(arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> bytes:
    import numpy as np
    from safetensors.numpy import save

    tensors = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    return save(tensors, {"json": json.dumps(header, sort_keys=True)})


def read_arrays(
    path: Path, names: Sequence[str] | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote: the named arrays (default: all) and the header."""
    from safetensors import safe_open

    with _undamaged(path):
        if not is_local(path):
            return _parsed(path.read_bytes(), names)
        path.open("rb").close()  # as `safe_open` calls any error of it a missing file
        with safe_open(path, framework="numpy") as f:
            wanted = f.keys() if names is None else names
            arrays = {name: f.get_tensor(name) for name in wanted}
            return arrays, json.loads((f.metadata() or {})["json"])


@contextlib.contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Read a file of ours; any other is a `ModelError`, a disk that fails a `StorageError`."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, AttributeError, LookupError, OSError, TypeError, ValueError) as e:
        if isinstance(e, FileNotFoundError) and path.exists():
            e = OSError(errno.EIO, "it cannot be opened", str(path))
        raise_machine_fault(e)
        raise ModelError(
            f"{path} is not a file that corpusfit wrote: {e}. If it did, the file is damaged: "
            "remove it, then run the same command again."
        ) from e


def _parsed(
    data: bytes, names: Sequence[str] | None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read arrays and header from a file's bytes; its header is JSON after its own length."""
    from safetensors.numpy import load

    arrays = load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    wanted = arrays if names is None else names
    return {n: arrays[n] for n in wanted}, json.loads(header["__metadata__"]["json"])


def store(path: Path, kind: str, thing: Any) -> None:
    """Write a dataclass instance with its kind, by which `restore` finds its class.

    Fields must be numpy arrays, numbers, strings, booleans, None, or tuples and string-keyed dicts
    of those.
    """
    write_bytes(path, packed(kind, thing))


def packed(kind: str, thing: Any) -> bytes:
    """The bytes that `store` would write, for a dataclass that holds others."""
    import numpy as np

    arrays: dict[str, NDArray[Any]] = {}
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        else:
            plain[field.name] = value
    return _saved(arrays, {"kind": kind, "fields": plain})


def restore(path: Path, resolve: Callable[[str], type[T]]) -> T:
    """Restore what `store` wrote; `resolve` turns the kind into the class.

    JSON has no tuples: a field that was a tuple comes back as one, because lists are never stored.
    """
    arrays, header = read_arrays(path)
    with _undamaged(path):
        return _rebuilt(arrays, header, resolve)


def unpacked(data: bytes, resolve: Callable[[str], type[T]]) -> T:
    """Restore the bytes of `packed`."""
    return _rebuilt(*_parsed(data, None), resolve)


def _rebuilt(
    arrays: dict[str, NDArray[Any]], header: dict[str, Any], resolve: Callable[[str], type[T]]
) -> T:
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in header["fields"].items()}
    cls = resolve(header["kind"])
    kinds = typing.get_type_hints(cls)
    for name, value in (arrays | plain).items():
        if name in kinds and not _is_a(value, kinds[name]):
            raise ValueError(f"{name} is not a {kinds[name]}")
    return cls(**arrays, **plain)


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type; only arrays, numbers and texts are compared."""
    import numpy as np

    origin = typing.get_origin(kind)
    if origin is np.ndarray and isinstance(value, np.ndarray):
        return value.dtype.type in typing.get_args(typing.get_args(kind)[1])
    if kind in (int, float, str, bool):
        return type(value) is kind or (kind is float and type(value) is int)
    return isinstance(value, origin) if origin in (tuple, np.ndarray) else True
