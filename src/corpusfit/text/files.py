"""Stored bytes: local paths directly, URLs through fsspec, archives unpacked as they stream."""

from __future__ import annotations

import bz2
import errno
import hashlib
import io
import lzma
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from isal import igzip_lib

from corpusfit.core.credentials import URLS, with_credentials
from corpusfit.core.errors import (
    CorpusfitError,
    InputError,
    MissingDependencyError,
    machine_cure,
    without_secrets,
)
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reason, Source
from corpusfit.core.zstandard import zstd
from corpusfit.text import rejects

CHUNK = 1 << 20
"""Bytes read from a file at a time."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_DIGESTS = ("ETag", "etag", "md5Hash", "content_md5", "content_settings", "blob_id")
_NO_RANGES = {"http", "https"}
"""Protocols whose parts are read from an open file: some servers answer a range with all."""
_LIST_FROM = 8
"""Fewest files of one folder for which the folder is listed; fewer are asked for one by one."""
_REQUESTS_AT_ONCE = 32
"""Requests for single files that run at a time."""
_REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
"""Answers to a request without valid credentials; some servers answer 404 instead."""
_REPORTS_DIGEST = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf"}

FREE = 32 << 20
"""Bytes to unpack before the bomb limit applies, as small files may compress very well."""
# stored bytes that a decompressor gets in one call
_INPUT = 1 << 16
# most bytes that it returns from one call; the output of a failing call is lost
_OUTPUT = 1 << 17
# the power of two of the most bytes of memory for a window or a dictionary; archives of forums
# need 2 GiB
_MEMORY = 31
_IsalError: type[Exception] = cast("type[Exception]", igzip_lib.IsalError)
_ERRORS = (_IsalError, lzma.LZMAError, zstd.ZstdError, OSError, EOFError, ValueError)
_OPENERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP),
    "zst": lambda: zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: _MEMORY}
    ),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=1 << _MEMORY),
    "deflate": lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE),
}

COMPRESSIONS = ("gz", "zst", "bz2", "xz")
"""Suffixes of readable compressed files, without the dot."""
MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
"""The first bytes of compressed files, with their suffixes."""
# hidden files, files that a job has not finished or that log its work, checksums, and lists of
# titles beside Wikipedia's dumps
_NO_DATA = re.compile(
    r"^[._]|(?:^|[-._])(?:(?:md5|sha1|sha\d{3})(?:sums?)?|checksums?)(?:\.\w+){0,2}$"
    r"|-multistream-index\.txt",
    re.IGNORECASE,
)
Infos = dict[str, dict[str, Any]]
"""Metadata of files as their stores report it, by URL."""

States = Sequence[os.stat_result | None]
"""`os.stat` of local files."""


def is_url(path: str) -> bool:
    """Whether fsspec must open the path."""
    return "://" in path


# no local path has two slashes within, so that no file's name reads as that of a part of another
_MEMBER = re.compile(r"(.+?[^:/])//(\d+)\+(\d+)(?:\.(\w+))?/(.*)", re.DOTALL)


class Member(NamedTuple):
    """A file of an archive (`text/archives.py`)."""

    archive: str  # the archive's path or URL
    begin: int
    size: int
    packing: str
    name: str


def member_of(url: str) -> Member | None:
    """The file of an archive that a URL names; None for a file of its own."""
    match = _MEMBER.match(url) if "//" in url else None
    return match and Member(match[1], int(match[2]), int(match[3]), match[4] or "", match[5])


class _Range(io.RawIOBase):
    """A range of a file as a file."""

    def __init__(self, file: BinaryIO, begin: int, size: int) -> None:
        self._file = file
        self._begin = begin
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._begin + self._at)
        data = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def filesystem(url: str, setting: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path within it."""
    import fsspec.core

    protocol = url.partition("://")[0]
    try:
        fs, path = fsspec.core.url_to_fs(with_credentials(url))
    except ImportError as e:
        if protocol == "hf":
            raise MissingDependencyError(f"{setting} {url!r}", "hub") from e
        missing = e.name or str(e)
        raise InputError(
            f"{setting} {url!r} needs a library for {protocol}:// that is not installed "
            f"({missing}). Install it, for instance with pip install 'fsspec[{protocol}]'."
        ) from without_secrets(e)
    except ValueError as e:
        raise InputError(
            f"{setting} must be a path or a URL that fsspec can read; got {url!r} with the unknown "
            f"protocol {protocol!r} ({first_line(e)}). Check the spelling of the URL."
        ) from without_secrets(e)
    except Exception as e:
        raise_unreadable(url, e)
    return fs, path


def open_stored(url: str) -> BinaryIO:
    """Open the stored bytes as a seekable file."""
    if member := member_of(url):
        part = _Range(open_stored(member.archive), member.begin, member.size)
        return cast("BinaryIO", io.BufferedReader(part))
    try:
        if not is_url(url):
            return Path(url).open("rb")
        fs, path = filesystem(url, "The input")
        return _checked(cast("BinaryIO", fs.open(path, "rb")))
    except CorpusfitError:
        raise
    except Exception as e:
        raise_unreadable(url, e)


def _checked(file: BinaryIO) -> BinaryIO:
    """A store's file whose `read` fails if the store returns fewer bytes than it announced."""
    size = getattr(file, "size", None)
    read = file.read
    if size is None:
        return file

    def checked(length: int = -1) -> bytes:
        left = size - file.tell()
        wanted = left if length < 0 else min(length, left)
        data = read(length)
        if len(data) < wanted:
            raise OSError(errno.EIO, f"the store returned {len(data):,} of {wanted:,} bytes")
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
        raise_unreadable(url, e)
    return data


def read_bytes(url: str, begin: int, end: int) -> bytes:
    """The bytes [begin, end) of a stored file."""
    if member := member_of(url):
        return read_bytes(member.archive, member.begin + begin, member.begin + end)
    size = end - begin
    if is_url(url) and url.partition("://")[0] not in _NO_RANGES:
        fs, path = filesystem(url, "The input")
        try:
            data = fs.cat_file(path, start=begin, end=end) if size else b""
        except Exception as e:
            raise_unreadable(url, e)
    elif is_url(url):
        with open_stored(url) as file:
            file.seek(begin)
            data = read_full(file, size, url)
    else:
        try:
            # unbuffered, because most files of a large number are small
            handle = os.open(url, _READ)
            try:
                if begin:
                    os.lseek(handle, begin, os.SEEK_SET)
                data = os.read(handle, size)
                while len(data) < size and (more := os.read(handle, size - len(data))):
                    data += more
            finally:
                os.close(handle)
        except OSError as e:
            raise_unreadable(url, e)
    if len(data) < size:
        raise InputError(
            f"{url} became shorter during reading. Run again when no process writes to it."
        )
    return data


def stored_size(url: str, state: os.stat_result | None = None) -> int:
    """Size of the stored file in bytes; `state` as from `states_of`."""
    if member := member_of(url):
        return member.size
    if state:
        return state.st_size
    if not is_url(url):
        try:
            return os.stat(url).st_size  # noqa: PTH116 (a Path costs more than the call)
        except OSError as e:
            raise_unreadable(url, e)
    with open_stored(url) as file:
        try:
            return file.seek(0, 2)
        except Exception as e:
            raise_unreadable(url, e)


def states_of(urls: Iterable[str]) -> list[os.stat_result | None]:
    """`os.stat` of each file, or its archive; None for files in stores and for missing ones."""
    states: list[os.stat_result | None] = []
    for url in urls:
        member = member_of(url)
        try:
            states.append(os.stat(member.archive if member else url))  # noqa: PTH116 (faster)
        except (OSError, ValueError):
            states.append(None)
    return states


def reason_of(error: Exception) -> BaseException:
    """The error of a store, or the real one that its `FileNotFoundError` hides."""
    # fsspec raises FileNotFoundError, with the URL as its text, for every failed HTTP request
    cause: BaseException = error
    while isinstance(cause, FileNotFoundError) and not isinstance(cause.errno, int):
        cause = cause.__cause__ or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if getattr(cause, "status", 0) == HTTPStatus.NOT_FOUND:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return cause


def raise_unreadable(url: str, error: Exception) -> NoReturn:
    """Raise the error for bytes that cannot be read."""
    cause = reason_of(error)
    reason = getattr(cause, "strerror", None) or first_line(cause)
    cure = machine_cure(cause) or "Check that it can be reached, then run the same command again."
    refused = isinstance(cause, FileNotFoundError) or getattr(cause, "status", 0) in _REFUSED
    if is_url(url) and refused:
        cure = (
            "If it needs a password or a signature, give the URL with a valid one: in the command, "
            f"or, if that names a run, in the environment variable {URLS}, as with "
            f"export {URLS}='URL'."
        )
    raise InputError(f"{url} cannot be read: {reason}. {cure}") from without_secrets(error)


def reports_digest(url: str) -> bool:
    """Whether the store of a file reports a digest of its content."""
    return url.partition("://")[0] in _REPORTS_DIGEST and not member_of(url)


def infos(urls: Iterable[str], setting: str = "The input") -> Infos:
    """Metadata of the files whose stores report digests; missing files are left out.

    Many files of one folder are listed, about a thousand per request; others are asked for one by
    one, many at a time.
    """
    folders: dict[tuple[Any, str], dict[str, str]] = {}
    for url in filter(reports_digest, urls):
        fs, path = filesystem(url, setting)
        folders.setdefault((fs, path.rpartition("/")[0]), {})[path] = url
    for fs in {fs for fs, _ in folders}:
        fs.invalidate_cache()  # its listings may be those of an earlier command
    info_of: Infos = {}
    single = list[tuple[Any, str, str]]()
    for (fs, folder), files in folders.items():
        if len(files) >= _LIST_FROM:
            try:
                listed = {info["name"]: info for info in fs.ls(folder, detail=True)}
            except Exception as e:
                raise_unreadable(f"The folder of {next(iter(files.values()))}", e)
            info_of |= {url: listed[path] for path, url in files.items() if path in listed}
        # also a new file that is not listed yet
        single += [(fs, path, url) for path, url in files.items() if url not in info_of]

    def ask(fs: Any, path: str, url: str) -> dict[str, Any] | None:
        try:
            info: dict[str, Any] = fs.info(path)
        except FileNotFoundError:
            return None
        except Exception as e:
            raise_unreadable(url, e)
        return info

    if single:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
            answers = threads.map(ask, *zip(*single, strict=True))
            info_of |= {
                url: info for (_, _, url), info in zip(single, answers, strict=True) if info
            }
    return info_of


def stated_digest(info: Mapping[str, Any]) -> tuple[str, int] | None:
    """A hash of the digest that a store reports, and the size in bytes; None without one."""
    # trusted, so that a corpus of terabytes is not downloaded for its fingerprint
    stated = [f"{key}={info[key]}" for key in _DIGESTS if info.get(key)]
    if not stated or info.get("size") is None:
        return None
    size = int(info["size"])
    text = "\n".join([*stated, str(size)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), size


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def is_data(name: str) -> bool:
    """Whether a file or a folder inside a folder holds data, by its name.

    Names that begin with `.` or `_` do not, as in Spark, Hive and Arrow, unless they give the value
    of a column, such as `_year=2024`; nor do checksums and indexes of Wikipedia's dumps.
    """
    return not _NO_DATA.search(name) or (name[0] == "_" and "=" in name)


def unpacked_name(name: str) -> tuple[str, str]:
    """A file name without its compression suffix, and that suffix without its dot (or empty)."""
    stem, _, last = name.rpartition(".")
    return (stem, last.lower()) if last.lower() in COMPRESSIONS else (name, "")


class Stream:
    """The unpacked bytes of one source, readable once.

    Errors in an archive become `problem`, so that the rows before them are kept.

    Attributes:
        position: stored bytes consumed so far.
        problem: reject reason if the stream ended early.
    """

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self.position = 0
        self.problem: Reason | None = None
        self._source = source
        self._plan = plan

    def __iter__(self) -> Iterator[bytes]:
        """Chunks of about one MiB; raises `InputError` only for a disk or network error."""
        if not self._source.compression:
            for chunk in self._stored():
                self.position += len(chunk)
                yield chunk
            return
        parts: list[bytes] = []
        length = 0
        unpacked = self._counted()
        # a file of an archive may be compressed twice; what zip did comes last
        for suffix in reversed(self._source.compression.split(".")):
            unpacked = self._bounded(self._unpacked(suffix, unpacked))
        for part in unpacked:
            parts.append(part)
            length += len(part)
            if length >= CHUNK:
                yield b"".join(parts)
                parts = []
                length = 0
        if parts:
            yield b"".join(parts)

    def _stored(self) -> Iterator[bytes]:
        with open_stored(self._source.url) as file:
            while chunk := read_full(file, CHUNK, self._source.url):
                yield chunk

    def _counted(self) -> Iterator[bytes]:
        for chunk in self._stored():
            for at in range(0, len(chunk), _INPUT):
                piece = chunk[at : at + _INPUT]
                self.position += len(piece)
                yield piece

    def _bounded(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        size = 0
        for part in parts:
            size += len(part)
            if size > FREE and size > self._plan.max_ratio * self.position:
                self.problem = rejects.bomb(self._plan)
                return
            if part:  # an archive may have any number of members that hold nothing
                yield part

    def _unpacked(self, suffix: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The content of all members, until the end or a problem."""
        member = _OPENERS[suffix]()
        started = False
        ended = False
        for piece in pieces:
            data = piece
            while data:
                if ended and not started:
                    # tapes, block devices and xz pad with zeros
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                started = True
                try:
                    yield member.decompress(data, _OUTPUT)
                    while not (member.eof or member.needs_input):
                        yield member.decompress(b"", _OUTPUT)
                except _ERRORS as e:
                    self.problem = rejects.corrupt(suffix, e)
                    return
                data = member.unused_data if member.eof else b""
                if member.eof:
                    member = _OPENERS[suffix]()
                    started = False
                    ended = True
        if started and not self.problem:
            self.problem = rejects.truncated(suffix)
