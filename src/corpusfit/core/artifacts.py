"""Atomic file writes, local or remote, and dataclasses as safetensors files."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import gc
import json
import mmap
import os
import re
import shutil
import sys
import tempfile
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast
from urllib.parse import unquote, urlsplit

from corpusfit.core.credentials import registered, with_credentials
from corpusfit.core.errors import (
    ModelError,
    StorageError,
    bad_setting,
    machine_fault,
    raise_machine_fault,
    without_secrets,
)

if TYPE_CHECKING:  # the command line imports this module, and numpy takes long to import
    from numpy.typing import NDArray

T = TypeVar("T")

_TEMPORARY = re.compile(r"\.[0-9a-f]{12}\.part$")
# not followed by name or handle into other programs, and no line ends changed on Windows
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY
_NEW_FILE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# files fetched concurrently from a store
_AT_ONCE = 256
# bytes of a safetensors file that have its header, mostly
_HEADER = 1024
_KINDS = {"U64": "<u8", "U32": "<u4", "U16": "<u2", "I64": "<i8", "F32": "<f4"}
"""numpy's names of the types of safetensors."""


def folder_path(location: str | os.PathLike[str], setting: str) -> Path:
    """Parse a folder that the user named: a local path, `~` included, or the URL of a store."""
    given: Any = location
    # such as a frame, whose name would be its rows; paths of some stores are no `os.PathLike`
    if not (isinstance(given, str | os.PathLike) or hasattr(given, "protocol")):
        raise bad_setting(setting, "a folder", f"a {type(location).__name__}")
    text = os.fspath(location) if isinstance(location, os.PathLike) else str(location)
    if isinstance(location, Path) or "://" not in text:
        return user_path(text)
    if text.startswith("file://"):
        local = text.removeprefix("file://").removeprefix("localhost")
        if not local.startswith("/"):  # a host's name, or a relative path
            raise bad_setting(setting, "a folder of this machine, such as file:///tmp/out", text)
        return Path(local)
    from upath import UPath

    text = registered(text)
    try:
        # other workers write there too, so a listing may be out of date
        path = UPath(text, **{**_credentials(text), "use_listings_cache": False})
        _ = path.fs
    except (ImportError, ValueError) as e:
        cure = f"{e}. Install the library of the store, for instance `pip install s3fs` for s3://."
        raise bad_setting(
            setting, "a folder or a URL that fsspec can write to", text, cure
        ) from without_secrets(e)
    return cast("Path", path)


def _credentials(public: str) -> dict[str, Any]:
    """The options of a store's file system that the URL of a folder was given with."""
    from fsspec.core import get_filesystem_class

    secret_url = with_credentials(public)
    if secret_url == public:
        return {}
    protocol = secret_url.partition("://")[0]
    if protocol in ("http", "https"):
        user = unquote(urlsplit(secret_url).netloc.rpartition("@")[0])
        token = base64.b64encode(user.encode()).decode()
        return {"headers": {"Authorization": f"Basic {token}"}} if user else {}
    options: dict[str, Any] = get_filesystem_class(protocol)._get_kwargs_from_urls(secret_url)
    return options


def require_plain(folder: Path, setting: str) -> Path:
    """Refuse to write below a URL that fsspec takes for a pattern or a chain; returns the folder.

    It does so where it removes files, too: those of `run?` are those of `run1`.
    """
    text = str(folder)
    if not is_local(folder) and ("::" in text or set("*?[") & set(text.partition("://")[2])):
        raise bad_setting(setting, "the URL of a folder without *, ?, [ and ::", text)
    return folder


def user_path(name: str) -> Path:
    """Expand `~` and `~NAME`; an unknown `~NAME` is kept as it is."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (Path's own raises)


def user_cache() -> Path:
    """The user's local cache folder."""
    from platformdirs import user_cache_path

    return user_cache_path("corpusfit", appauthor=False)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection, which takes half of the time of listing many files."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_local(path: Path) -> bool:
    """Whether a path is on this machine, not in a store."""
    return isinstance(path, Path)


def local_folder_path(location: str | os.PathLike[str], setting: str) -> Path:
    """Like `folder_path`, but the folder must be local."""
    folder = folder_path(location, setting)
    if not is_local(folder):
        raise bad_setting(setting, "a folder of this machine", str(location))
    return folder


def names_in(folder: Path) -> set[str]:
    """The names in a folder, by one listing; none if the folder does not exist."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def read_many(paths: Iterable[Path]) -> Iterator[bytes]:
    """Read files in order; remote ones are fetched in concurrent batches."""
    remaining = iter(paths)
    while batch := list(islice(remaining, _AT_ONCE)):
        if is_local(batch[0]):
            yield from (path.read_bytes() for path in batch)
        else:
            fs = _store(batch[0])[0]
            keys = [_store(path)[1] for path in batch]
            contents = fs.cat(keys, **_whole(batch[0]))
            yield from (contents[key] for key in keys)


def read_bytes(path: Path) -> bytes:
    """The content of a file, by one request if it is in a store."""
    if is_local(path):
        return path.read_bytes()
    fs, key = _store(path)
    content: bytes = fs.cat_file(key, **_whole(path))
    return content


def _whole(path: Any) -> dict[str, Any]:
    """How to read a whole file of a store."""
    # s3fs asks for the size first, to read a large file by several requests at a time
    return {"max_concurrency": 1} if path.protocol in ("s3", "s3a") else {}


def remove(*paths: Path) -> None:
    """Remove files and folders, in order; missing ones are ignored."""
    for path in paths:
        if not is_local(path):
            fs, key = _store(path)
            with contextlib.suppress(FileNotFoundError):
                fs.rm(key, recursive=True)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()


def remove_files(paths: Sequence[Path]) -> None:
    """Remove files of one folder, in few requests if it is in a store; missing ones are ignored."""
    if not paths or is_local(paths[0]):
        remove(*paths)
        return
    with contextlib.suppress(FileNotFoundError):
        _store(paths[0])[0].rm([_store(path)[1] for path in paths])


def _store(path: Any) -> tuple[Any, str]:
    """The file system of a path in a store, and its key there."""
    return path.fs, path.path


def open_temporary(path: Path) -> tuple[Path, BinaryIO]:
    """Open a new local file beside a path, to be renamed to it when it is complete.

    Its name is random and it must not exist, so that neither a planted link nor a process with the
    same number in another container decides what is written; the umask decides its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.part")
    return temporary, os.fdopen(os.open(temporary, _NEW_FILE, 0o666), "wb")


@contextlib.contextmanager
def writing(path: Path, *, synced: bool = True) -> Iterator[BinaryIO]:
    """Open a file for an atomic write; not `synced`, a power cut can leave it damaged or empty."""
    if not is_local(path):
        fs, key = _store(path)
        with tempfile.TemporaryDirectory(prefix="corpusfit-") as scratch:
            whole = Path(scratch, "file")
            with whole.open("wb") as file:
                yield file
            try:
                fs.put_file(str(whole), key)
            except Exception as e:  # whatever the store's library raises
                raise _write_error(path, e) from without_secrets(e)
        return
    temporary = None
    try:
        temporary, opened = open_temporary(path)
        with opened as file:
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())
        # Windows refuses while another process has the old file open, mostly for milliseconds
        for pause in (0.01, 0.05, 0.2, 0.8) if sys.platform == "win32" else ():
            with contextlib.suppress(PermissionError):
                temporary.replace(path)
                break
            time.sleep(pause)
        else:
            temporary.replace(path)
        # sync the folder, so that the rename survives a power cut
        if synced and os.name == "posix":
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except BaseException as e:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        if not isinstance(e, OSError):
            raise
        raise _write_error(path, e) from e


def _write_error(path: Path, error: Exception) -> StorageError:
    failure = f"Cannot write {path}"
    return machine_fault(error, failure) or StorageError(
        f"{failure}: {getattr(error, 'strerror', None) or error}. Allow writing there, then run "
        "the same command again; finished work is kept."
    )


def sweep(folder: Path, files: str = "**/*") -> None:
    """Remove the temporary files of killed processes from a folder."""
    if not is_local(folder):
        return  # a store has no temporary files
    for file in folder.glob(f"{files}.part"):
        if _TEMPORARY.search(file.name):
            file.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Write a file atomically, as `writing`."""
    if is_local(path):
        with writing(path, synced=synced) as f:
            f.write(data)
        return
    fs, key = _store(path)
    try:
        fs.pipe_file(key, data)
    except Exception as e:  # whatever the store's library raises
        raise _write_error(path, e) from without_secrets(e)


def copy(file: Path, to: Path) -> None:
    """Copy an immutable file; a hard link if both are on the same local disk."""
    # this fails on another disk, in a store, and where there are no hard links
    with contextlib.suppress(OSError, AttributeError):
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        to.hardlink_to(file)
        return
    write_bytes(to, read_bytes(file))


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
    """Write named arrays and a JSON header as one safetensors file."""
    write_bytes(path, _safetensors_bytes(arrays, header))


def _safetensors_bytes(arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> bytes:
    import numpy as np
    from safetensors.numpy import save

    tensors = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    return save(tensors, {"json": json.dumps(header, sort_keys=True)})


def read_arrays(
    path: Path, names: Sequence[str] | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file of `write_arrays`: the named arrays (default: all) and the header."""
    from safetensors import safe_open

    with _naming_damage(path):
        if not is_local(path):
            return _from_safetensors(read_bytes(path), names)
        path.open("rb").close()  # `safe_open` reports every I/O error as a missing file
        with safe_open(path, framework="numpy") as f:
            wanted = f.keys() if names is None else names
            arrays = {name: f.get_tensor(name) for name in wanted}
            return arrays, json.loads((f.metadata() or {})["json"])


def map_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Map arrays of a file of `write_arrays` that are read again and again: nothing is copied."""
    import numpy as np

    if not is_local(path):
        return read_arrays(path, names)[0]
    with _naming_damage(path), path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        begin = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:begin])
        found = {}
        for name in names:
            kind = np.dtype(_KINDS[header[name]["dtype"]])
            first, last = header[name]["data_offsets"]
            count = (last - first) // kind.itemsize
            found[name] = np.frombuffer(content, kind, count, begin + first)
        return found


def read_slices(path: Path, slices: dict[str, tuple[int, int]]) -> dict[str, NDArray[Any]]:
    """Read elements `begin` to `end` of some arrays, [n] each, of a file of `write_arrays`."""
    import numpy as np

    with _naming_damage(path), contextlib.ExitStack() as stack:
        if is_local(path):
            file = stack.enter_context(path.open("rb"))

        def read(begin: int, end: int) -> bytes:
            if begin == end:
                return b""
            if not is_local(path):
                fs, key = _store(path)
                return cast("bytes", fs.cat_file(key, start=begin, end=end))
            file.seek(begin)
            return file.read(end - begin)

        start = read(0, _HEADER)
        length = 8 + int.from_bytes(start[:8], "little")
        if length > _HEADER:
            start += read(_HEADER, length)
        header = json.loads(start[8:length])
        found = {}
        for name, (begin, end) in slices.items():
            kind = np.dtype(_KINDS[header[name]["dtype"]])
            at = length + header[name]["data_offsets"][0] + begin * kind.itemsize
            found[name] = np.frombuffer(read(at, at + (end - begin) * kind.itemsize), kind)
            if len(found[name]) != end - begin:
                raise ValueError(f"{name} ends early")
        return found


@contextlib.contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Raise `ModelError` for content that we did not write, `StorageError` for a failing disk."""
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


def _from_safetensors(
    data: bytes, names: Sequence[str] | None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Parse the bytes of a safetensors file, which begins with the length of its JSON header."""
    from safetensors.numpy import load

    arrays = load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    wanted = arrays if names is None else names
    return {n: arrays[n] for n in wanted}, json.loads(header["__metadata__"]["json"])


def store(path: Path, kind: str, fitted: Any) -> None:
    """Write a dataclass instance, and its kind for `restore` to look up the class.

    Fields must be numpy arrays, numbers, strings, booleans, None, or tuples and string-keyed dicts
    of those.
    """
    write_bytes(path, serialize(kind, fitted))


def serialize(kind: str, fitted: Any) -> bytes:
    """The content of a `store` file, for nesting in another dataclass."""
    import numpy as np

    arrays: dict[str, NDArray[Any]] = {}
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(fitted):
        value = getattr(fitted, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        else:
            plain[field.name] = value
    return _safetensors_bytes(arrays, {"kind": kind, "fields": plain})


def restore(path: Path, resolve: Callable[[str], type[T]]) -> T:
    """Read a file of `store`; `resolve` maps the kind to the class.

    Tuples survive JSON because list fields are not allowed.
    """
    arrays, header = read_arrays(path)
    with _naming_damage(path):
        return _rebuild(arrays, header, resolve)


def deserialise(data: bytes, resolve: Callable[[str], type[T]]) -> T:
    """The inverse of `serialize`."""
    return _rebuild(*_from_safetensors(data, None), resolve)


def _rebuild(
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
    """Whether a value has a type; only arrays, numbers, strings and tuples are checked."""
    import numpy as np

    origin = typing.get_origin(kind)
    if origin is np.ndarray and isinstance(value, np.ndarray):
        return value.dtype.type in typing.get_args(typing.get_args(kind)[1])
    if kind in (int, float, str, bool):
        return type(value) is kind or (kind is float and type(value) is int)
    return isinstance(value, origin) if origin in (tuple, np.ndarray) else True
