"""What every format gives: examples whose labels are still words; and a stored text, whole.

What: `Labelled`, and `whole_text`, which unpacks and decodes one file.
Why: numbers of labels are known only when all splits were read.
Trade-off: none of note.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpusfit.corpus.unpack import COMPRESSIONS, Stream
from corpusfit.errors import InputError
from corpusfit.plan import ReadPlan
from corpusfit.types import Source


@dataclass(frozen=True, eq=False)
class Labelled:
    """n examples of one split.

    Attributes:
        pieces: of each example, its one text or its words.
        labels: of each example, each piece's label.
        notes: what is odd, a sentence each.
    """

    pieces: list[list[str]]
    labels: list[list[str]]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pieces)


def whole_text(path: Path) -> str:
    """A stored file as text; line ends and a byte order mark stay as they are.

    Raises:
        InputError: it cannot be read or unpacked to its end, or is not UTF-8.
    """
    last = path.suffix[1:].lower()
    source = Source(path.name, str(path), "", last if last in COMPRESSIONS else "", 0, "")
    stream = Stream(source, ReadPlan())
    data = b"".join(stream)
    if stream.problem:
        raise InputError(f"{path} cannot be read to its end: {stream.problem}.")
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise InputError(f"{path}, line {line}: must be UTF-8, and is not. Save it so.") from e
