"""Open, list and read stored bytes, wherever they are.

What: a local path through the standard library, anything with `://` through fsspec.
Why: every other module sees one way to get bytes, and one wording of what can go wrong.
Trade-off: what a store states of the content (S3, Google Cloud Storage, Azure, the Hugging Face
hub) is believed, so that a corpus of terabytes is not fetched for its fingerprint.
Reference: https://filesystem-spec.readthedocs.io
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO, cast

from corpusfit.errors import CorpusfitError, InputError
from corpusfit.types import Span

CHUNK = 1 << 20
"""Bytes read from a file at a time."""

_DIGESTS = ("ETag", "etag", "md5Hash", "content_md5", "content_settings", "blob_id")
_STATES_DIGEST = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf"}


def is_url(place: str) -> bool:
    """Whether fsspec has to open it."""
    return "://" in place


def filesystem(url: str, setting: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path within it.

    Raises:
        InputError: the protocol is not known, or its library is not installed.
    """
    import fsspec.core

    protocol = url.partition("://")[0]
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as e:
        missing = e.name or str(e)
        raise InputError(
            f"{setting} {url!r} needs a library that reads {protocol}:// and is not installed "
            f"({missing}); install it, for instance pip install 'fsspec[{protocol}]'."
        ) from e
    except ValueError as e:
        raise InputError(
            f"{setting} must be a path or a URL that fsspec can read; got {url!r}, whose protocol "
            f"{protocol!r} is not known ({_first_line(e)})."
        ) from e
    except Exception as e:
        raise unreadable(url, e) from e
    return fs, path


def open_stored(url: str) -> BinaryIO:
    """The stored bytes as a file that can seek.

    Raises:
        InputError: it cannot be opened.
    """
    try:
        if not is_url(url):
            return Path(url).open("rb")
        fs, path = filesystem(url, "The input")
        return cast("BinaryIO", fs.open(path, "rb"))
    except CorpusfitError:
        raise
    except Exception as e:
        raise unreadable(url, e) from e


def read_full(file: BinaryIO, size: int, url: str) -> bytes:
    """The next `size` bytes, fewer only at the end, so that chunks never depend on the network.

    Raises:
        InputError: reading failed.
    """
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


def read_span(span: Span) -> bytes:
    """The bytes of a span.

    Raises:
        InputError: they cannot be read, or the file has become shorter.
    """
    with open_stored(span.url) as file:
        file.seek(span.begin)
        data = read_full(file, span.end - span.begin, span.url)
    if len(data) < span.end - span.begin:
        raise InputError(
            f"{span.url} became shorter while it was read. Run again when nobody writes to it."
        )
    return data


def stored_size(url: str) -> int:
    """Bytes of the stored file.

    Raises:
        InputError: it cannot be looked at.
    """
    with open_stored(url) as file:
        try:
            return file.seek(0, 2)
        except Exception as e:
            raise unreadable(url, e) from e


def unreadable(url: str, error: Exception) -> InputError:
    """The sentence for bytes that cannot be had."""
    reason = getattr(error, "strerror", None) or _first_line(error)
    return InputError(f"{url} cannot be read: {reason}.")


def stated_digest(url: str) -> tuple[str, int] | None:
    """What the store itself says of the content, hashed, and its size; None where it is silent.

    Raises:
        InputError: it cannot be looked at.
    """
    if not is_url(url) or url.partition("://")[0] not in _STATES_DIGEST:
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


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
