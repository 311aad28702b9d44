"""Copy standard input and pipes to a file, because a corpus is read more than once."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from corpusfit.core.artifacts import is_local
from corpusfit.core.errors import InputError, StorageError, bad_setting, machine_fault
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text.cutting import BOM
from corpusfit.text.registry import format_of_bytes
from corpusfit.text.survey import fingerprint
from corpusfit.text.unpack import Stream

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
_used: weakref.WeakSet[TextIO] = weakref.WeakSet()
"""Standard inputs that were read to their end and cannot be read again."""


def spooled(input_name: str, spool: Path, role: str) -> Source:
    """Copy `-` or a pipe into the folder `spool` and describe the copy.

    The format is JSON lines if the first byte that is not white space is `{`, else plain text. An
    existing copy with other content stays, because an earlier run needs it.
    """
    if not is_local(spool):
        raise bad_setting(
            "`out`",
            "a local folder if an input is standard input or a pipe",
            str(spool.parent),
            "Save the input to a file first.",
        )
    name = "stdin" if input_name == "-" else Path(input_name).name
    copy = spool / f"{role}-{name}"
    incoming = copy.with_name(f"{copy.name}.{os.getpid()}.part")
    stdin = _standard_input(f"`{role}`") if input_name == "-" else None
    try:
        spool.mkdir(parents=True, exist_ok=True)
        with incoming.open("wb") as out:
            if stdin:
                shutil.copyfileobj(stdin, out, 1 << 20)
            else:
                with Path(input_name).open("rb") as pipe:
                    shutil.copyfileobj(pipe, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
        source = _described(name, incoming)
        if copy.exists() and fingerprint(str(copy))[0] != source.fingerprint:
            copy = copy.with_name(f"{copy.name}-{source.fingerprint[:8]}")
        incoming.replace(copy)
    except OSError as e:
        with contextlib.suppress(OSError):
            incoming.unlink()
        what = f"{input_name} cannot be copied to {copy}"
        raise (machine_fault(e, what) or StorageError(f"{what}: {e.strerror or e}.")) from e
    return replace(source, url=str(copy.absolute()))


def _standard_input(setting: str) -> BinaryIO:
    stream = sys.stdin
    if stream in _used:
        raise InputError(
            f"{setting} must be another input; got '-', but standard input was already read and "
            "can be named only once. Save one of the two inputs to a file."
        )
    if stream is None or stream.closed or not hasattr(stream, "buffer"):
        raise InputError(
            f"{setting} must be a readable input; got '-', but standard input is closed. "
            "Name a file, or pipe the rows in."
        )
    _used.add(stream)
    return cast("BinaryIO", stream.buffer)


def _described(name: str, copy: Path) -> Source:
    with copy.open("rb") as file:
        start = file.read(8)
    archive = next((c for magic, c in _MAGIC.items() if start.startswith(magic)), "")
    digest, size = fingerprint(str(copy))
    source = Source(name, str(copy), "", archive, size, digest)
    begin = b""
    for chunk in Stream(source, ReadPlan()):
        begin = chunk.removeprefix(BOM).lstrip()
        if begin:
            break
    return replace(source, format=format_of_bytes(begin))
