"""Open, list and read stored bytes: local paths directly, URLs through fsspec."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

from corpusfit.core.errors import CorpusfitError, InputError, MissingDependencyError, machine_cure

CHUNK = 1 << 20
"""Bytes read from a file at a time."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_DIGESTS = ("ETag", "etag", "md5Hash", "content_md5", "content_settings", "blob_id")
_REPORTS_DIGEST = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf"}


def is_url(place: str) -> bool:
    """Whether fsspec must open the path."""
    return "://" in place


def filesystem(url: str, setting: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path within it."""
    import fsspec.core

    protocol = url.partition("://")[0]
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as e:
        if protocol == "hf":
            raise MissingDependencyError(f"{setting} {url!r}", "hub") from e
        missing = e.name or str(e)
        raise InputError(
            f"{setting} {url!r} needs a library for {protocol}:// that is not installed "
            f"({missing}). Install it, for instance with pip install 'fsspec[{protocol}]'."
        ) from e
    except ValueError as e:
        raise InputError(
            f"{setting} must be a path or a URL that fsspec can read; got {url!r} with the unknown "
            f"protocol {protocol!r} ({first_line(e)}). Check the spelling of the URL."
        ) from e
    except Exception as e:
        raise unreadable(url, e) from e
    return fs, path


def open_stored(url: str) -> BinaryIO:
    """Open the stored bytes as a seekable file."""
    try:
        if not is_url(url):
            return Path(url).open("rb")
        fs, path = filesystem(url, "The input")
        return _whole(cast("BinaryIO", fs.open(path, "rb")))
    except CorpusfitError:
        raise
    except Exception as e:
        raise unreadable(url, e) from e


def _whole(file: BinaryIO) -> BinaryIO:
    """The file of a store, whose `read` fails where the store gives fewer bytes than it stated."""
    size, read = getattr(file, "size", None), file.read
    if size is None:
        return file

    def checked(length: int = -1) -> bytes:
        left = size - file.tell()
        wanted = left if length < 0 else min(length, left)
        data = read(length)
        if len(data) < wanted:
            raise OSError(errno.EIO, f"the store gave {len(data):,} of {wanted:,} bytes")
        return data

    file.read = checked  # type: ignore[method-assign]
    return file


def read_full(file: BinaryIO, size: int, url: str) -> bytes:
    """Read the next `size` bytes, fewer only at the end of the file."""
    try:
        data = file.read(size)
        while data and len(data) < size:
            more = file.read(size - len(data))
            if not more:
                break
            data += more
    except Exception as e:
        raise unreadable(url, e) from e
    return data


def read_bytes(url: str, begin: int, end: int) -> bytes:
    """The bytes [begin, end) of a stored file."""
    size = end - begin
    if is_url(url):
        with open_stored(url) as file:
            file.seek(begin)
            data = read_full(file, size, url)
    else:
        data = _read_local(url, begin, size)
    if len(data) < size:
        raise InputError(
            f"{url} became shorter during reading. Run again when no process writes to it."
        )
    return data


def _read_local(path: str, begin: int, size: int) -> bytes:
    """The bytes, fewer only at the end; unbuffered, because most of many files are small."""
    try:
        handle = os.open(path, _READ)
        try:
            if begin:
                os.lseek(handle, begin, os.SEEK_SET)
            data = os.read(handle, size)
            while len(data) < size and (more := os.read(handle, size - len(data))):
                data += more
        finally:
            os.close(handle)
    except OSError as e:
        raise unreadable(path, e) from e
    return data


def stored_size(url: str) -> int:
    """Size of the stored file in bytes."""
    if not is_url(url):
        try:
            return os.stat(url).st_size  # noqa: PTH116 (a Path costs more than the call)
        except OSError as e:
            raise unreadable(url, e) from e
    with open_stored(url) as file:
        try:
            return file.seek(0, 2)
        except Exception as e:
            raise unreadable(url, e) from e


def unreadable(url: str, error: Exception) -> InputError:
    """The error for bytes that cannot be read."""
    reason = getattr(error, "strerror", None) or first_line(error)
    cure = machine_cure(error) or "Check that it can be reached, then run the same command again."
    return InputError(f"{url} cannot be read: {reason}. {cure}")


def stated_digest(url: str) -> tuple[str, int] | None:
    """A hash of the digest that the store reports, and the size in bytes; None if it reports none.

    S3, Google Cloud Storage, Azure and the Hugging Face hub report digests. They are trusted, so
    that a corpus of terabytes is not downloaded for its fingerprint.
    """
    if not is_url(url) or url.partition("://")[0] not in _REPORTS_DIGEST:
        return None
    fs, path = filesystem(url, "The input")
    try:
        info = fs.info(path)
    except Exception as e:
        raise unreadable(url, e) from e
    stated = [f"{key}={info[key]}" for key in _DIGESTS if info.get(key)]
    if not stated or info.get("size") is None:
        return None
    size = int(info["size"])
    text = "\n".join([*stated, str(size)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), size


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
