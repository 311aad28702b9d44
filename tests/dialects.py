"""Files as different programs write them, and the check that we read what they mean.

A writer takes texts, draws what a program may choose (line ends, quotes, escapes, archives) and
returns a `File`. To add dialects, write such a function and pass it to `check`; a part that several
formats share is a strategy here.
"""

import bz2
import gzip
import io
import lzma
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import strategies as st

from corpusfit.core.errors import CorpusfitError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.text import documents, find, packed, rows, shards

PIECES = [
    *('"', '""', '\\"', '\\\\"', "\\", "\\\\", "'", ",", ";", "|", "\t", "\n", "\r\n", "\r", " "),
    *("a", "word ", 'he said "no"', "5 %", "C:\\new", "\\n", "\\u0041", "{", "}", "[1]", "#", "//"),
    *("\xe9", "e\u0301", "\u8a9e", "\u0627\u0644", "\U0001f9ec", "\U0001f468\u200d\U0001f52c"),
    *("\xa0", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\x01", "\x1b[0m", "\x7f", "\ufeff"),
    *("\u200b", "\ud7ff", "co\u00adop", "\u2060", "\u200c", "\ufe0f", "\U000e0041"),
    *("\ufb01n", "\uff46", "\U0001d41a", "\u24d0", "\u1d43", "\u17c1\u200b\u1780", "\u0e4d\u0e32"),
]
"""What texts are made of."""


MARK = b"\xef\xbb\xbf"
"""A byte order mark."""


def texts(without: str = "", **counts: int) -> st.SearchStrategy[list[str]]:
    """Texts of these pieces without some characters, not blank, without blanks at their ends."""
    pieces = [piece for piece in PIECES if not set(piece) & set(without)]
    one = st.lists(st.sampled_from(pieces), min_size=1, max_size=6).map("".join)
    usable = one.map(str.strip).filter(lambda text: text.strip("\ufeff") == text != "")
    return st.lists(usable, min_size=counts.get("least", 1), max_size=counts.get("most", 6))


@dataclass(frozen=True)
class File:
    """One input, as a program writes it.

    Attributes:
        files: content by name.
        meant: the texts.
        name: what `find` is given, with `{}` for the folder (default: the only file).
        settings: of the `ReadPlan`.
        known: whether the file itself says how it is to be read; without that, texts may also be
            rejected.
        rejects: rows that are no texts, such as a header that is repeated.
    """

    files: dict[str, bytes]
    meant: Sequence[str]
    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    known: bool = True
    rejects: int = 0


def check(file: File, shard_mb: float = 4.0) -> None:
    """Read the file in every way; each must give the meant texts, in order.

    An unknown dialect may lose texts to rejects, or to an error that names the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, data in file.files.items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_bytes(data)
        plan = ReadPlan(shard_mb=shard_mb, **file.settings)
        name = (file.name or "{}/" + next(iter(file.files))).replace("{}", folder)
        try:
            sources = find([name], plan, role="corpus")
            cut = list(shards(sources, plan))
            found = [row for shard in cut for row in rows(shard, plan)]
            columns = [
                text
                for shard in packed(sources, plan)
                for text in documents(shard, plan)[0].texts.to_pylist()
            ]
        except CorpusfitError as e:
            if file.known or not any(stored in str(e) for stored in file.files):
                raise
            return
    used = [row for row in found if isinstance(row, Document)]
    read, rejected = [row.text for row in used], [row for row in found if row not in used]
    assert columns == read
    if file.known:
        assert (read, len(rejected)) == (list(file.meant), file.rejects)
    else:
        left = iter(file.meant)
        assert all(text in left for text in read)  # a subsequence
        assert rejected or len(read) == len(file.meant)


def _gzip(data: bytes, draw: Any) -> bytes:
    out = io.BytesIO()
    name = draw(st.sampled_from(["", "name.txt"]))
    with gzip.GzipFile(name, "wb", draw(st.integers(0, 9)), out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def _xz(data: bytes, draw: Any) -> bytes:
    return lzma.compress(data, check=draw(st.sampled_from([lzma.CHECK_CRC32, lzma.CHECK_NONE])))


def _zstd(data: bytes, draw: Any) -> bytes:
    stated = draw(st.booleans())
    parameters = zstandard.ZstdCompressionParameters(
        window_log=draw(st.sampled_from([10, 22])),
        write_content_size=stated,
        write_checksum=draw(st.booleans()),
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    if stated and data:
        return packer.compress(data)
    stream = packer.compressobj()
    return stream.compress(data) + stream.flush()


_PACK = {
    "gz": _gzip,
    "xz": _xz,
    "zst": _zstd,
    "bz2": lambda data, draw: bz2.compress(data, draw(st.integers(1, 9))),
}


@st.composite
def archived(draw: Any, name: str, data: bytes) -> tuple[str, bytes]:
    """A file plain or packed: in one member or several, with padding or frames that are skipped."""
    suffix = draw(st.sampled_from(["", "", *_PACK]))
    if not suffix:
        return name, data
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=2)))
    between = [b"", bytes(4), bytes(512)]
    if suffix == "zst":
        between += [b"\x52\x2a\x4d\x18\x03\0\0\0abc"]
    out = b""
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        out += _PACK[suffix](data[begin:end], draw) + draw(st.sampled_from(between))
    return f"{name}.{suffix}", out


@st.composite
def lines(draw: Any, records: Sequence[str], ends: Sequence[str] = ("\n", "\r\n", "\r")) -> bytes:
    """Records with one kind of line end, the last with or without, a byte order mark or none."""
    end, last, mark = draw(st.sampled_from(list(ends))), draw(st.booleans()), draw(st.booleans())
    text = end.join(records) + end * last
    return MARK * mark + text.encode()


@st.composite
def spelled(draw: Any, moment: datetime) -> str:
    """A time, of UTC and in whole minutes, as some program writes it."""
    offset = draw(st.sampled_from([None, None, 0, 60, -300, 330, 345]))
    local = moment + timedelta(minutes=offset or 0)
    dash = draw(st.sampled_from("--/"))
    day = local.strftime(f"%Y{dash}%m{dash}%d")
    if offset is None and local == local.replace(hour=0, minute=0) and draw(st.booleans()):
        return day
    clock = local.strftime("%H:%M") + draw(st.sampled_from(["", ":00", ":00.000", ":00.000000000"]))
    zone = ""
    if offset is not None:
        hours, minutes = divmod(abs(offset), 60)
        sign = "-" if offset < 0 else "+"
        forms = [f"{sign}{hours:02}:{minutes:02}", f"{sign}{hours:02}{minutes:02}"]
        forms += [f"{sign}{hours:02}"] * (not minutes) + ["Z", "z", " UTC"] * (not offset)
        zone = draw(st.sampled_from(forms))
    return day + draw(st.sampled_from(["T", " ", "t"])) + clock + zone


@st.composite
def whole_number(draw: Any, number: int) -> int | float | str:
    """A whole number, as a program writes it that knows it as one, or as a float, or as text."""
    spellings = [number, float(number), str(number), f"{number}.0", f" {number}", f"{number}.00 "]
    return draw(st.sampled_from(spellings))
