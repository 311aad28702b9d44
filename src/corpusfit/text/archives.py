"""Archives: the files of a `.zip` or a `.tar`, each of which is a source of its own.

What: a file of an archive is a range of its bytes. Its URL has the range, and `text/files.py` reads
it there; how zip packs it is one more compression of the source.
Why: shards, fingerprints and workers need not know of archives, small files share shards, and as
nothing is unpacked to a folder no name can lead out of one.
Trade-off: a tar that is compressed as a whole has no ranges, so it is unpacked first. The checksums
of zip are not verified, as those of plain files are not.
Reference: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT,
https://www.gnu.org/software/tar/manual/html_node/Standard.html
"""

from __future__ import annotations

import posixpath
import stat
import struct
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from corpusfit.text.files import MAGIC, first_line, open_stored, raise_unreadable, unpacked_name

ARCHIVE = "archive"
"""In place of a format, until the files of an archive are listed."""
_SUFFIXES = (".zip", ".tar")
TARS = (".tar", ".tgz", ".tbz2", ".txz", ".tzst")
"""Suffixes of tars; the names of those that are compressed may also end as in `.tar.gz`."""
_METHODS = {0: "", 8: "deflate", 12: "bz2", 93: "zst", 95: "xz"}
_HEADER = struct.Struct("<4s22xHH")
_BLOCK = 512  # bytes of a tar's headers, and of what ends it
# what damaged archives raise
_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, struct.error, EOFError),
    *(ValueError, ArithmeticError, NotImplementedError, RecursionError),
)

# reasons for which a file is left out, as `cures.of_archive` says them
ENCRYPTED = "encrypted"
METHOD = "packed by a method that is not read"
NESTED = "an archive itself"
_LINK = "a link, a device or a sparse file"
LOST = "damaged"


class Packed(NamedTuple):
    """A file of an archive: a range of its bytes, and how zip packs it, as in `Source`."""

    name: str  # with `/`, without `..` or a root
    begin: int
    size: int
    packing: str = ""

    def url(self, archive: str) -> str:
        """Its URL, which `files.member_of` reads."""
        packing = f".{self.packing}" if self.packing else ""
        return f"{archive}//{self.begin}+{self.size}{packing}/{self.name}"


def is_archive(name: str) -> bool:
    """Whether the files of a file are listed, by its name."""
    return name.lower().endswith(_SUFFIXES)


def contents(url: str) -> tuple[dict[str, Packed], dict[str, list[str]]]:
    """The files of an archive by name, and the names of others by the reason to leave them out.

    Raises:
        InputError: its stored bytes cannot be read.
    """
    files: dict[str, Packed] = {}
    left_out = defaultdict[str, list[str]](list)
    listing = _of_zip if url.lower().endswith(".zip") else _of_tar
    start = b""
    with open_stored(url) as file:
        try:
            start = file.read(_BLOCK)
            size = file.seek(0, 2)
            file.seek(0)
            for each, reason in listing(file):
                # a name that leads up or to a root stays in the archive
                packed = each._replace(name=posixpath.normpath(f"/{each.name}").lstrip("/"))
                inner = unpacked_name(packed.name.lower())[0]
                why = reason or (NESTED if inner.endswith((*_SUFFIXES, *TARS)) else "")
                if not why and packed.begin + packed.size > size:
                    why = LOST
                if not why and packed.name in files:  # the last stays, as in a folder
                    left_out["followed by another of the name"].append(packed.name)
                if why:
                    left_out[why].append(packed.name)
                elif packed.name:
                    files[packed.name] = packed
        except _ERRORS as e:
            compressed = listing is _of_tar and start.startswith(tuple(MAGIC))
            rest = f"all behind the first {len(files):,} ({first_line(e)})"
            left_out[NESTED if compressed else LOST].append(rest)
        except Exception as e:
            raise_unreadable(url, e)
    # files that share bytes would unpack to any size
    end = 0
    for packed in sorted(files.values(), key=lambda each: each.begin):
        if packed.size and packed.begin < end:
            left_out[LOST].append(files.pop(packed.name).name)
        end = max(end, packed.begin + packed.size)
    if not (files or left_out):
        left_out[LOST].append("all (it lists no file)")
    return files, left_out


_Listed = Iterator[tuple[Packed, str]]  # with the reason why it is left out, if it is


def _of_zip(file: BinaryIO) -> _Listed:
    for info in zipfile.ZipFile(file).infolist():
        if info.is_dir():
            continue
        name = info.filename.replace("\\", "/")  # of some programs for Windows
        begin = info.header_offset
        reason = ""
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            reason = _LINK
        elif info.flag_bits & 1:
            reason = ENCRYPTED
        elif info.compress_type not in _METHODS:
            reason = METHOD
        else:
            file.seek(begin)
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or not header.startswith(b"PK\3\4"):
                reason = LOST
            else:
                begin += _HEADER.size + sum(_HEADER.unpack(header)[1:])
        packing = _METHODS.get(info.compress_type, "")
        yield Packed(name, begin, info.compress_size, packing), reason


def _of_tar(file: BinaryIO) -> _Listed:
    with tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as tar:
        for info in tar:
            if info.size < 0:
                raise tarfile.ReadError("a file of less than 0 bytes")
            plain = info.isreg() and not info.issparse()
            if not info.isdir():
                yield Packed(info.name, info.offset_data, info.size), "" if plain else _LINK
        # it stops at anything that is no header
        file.seek(tar.offset)
        if (mark := file.read(_BLOCK)).strip(b"\0") or not mark:
            raise tarfile.ReadError("it ends without its end mark")
