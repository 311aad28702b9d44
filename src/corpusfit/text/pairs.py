"""Aligned pairs: what their two formats share, from the names of inputs to the rows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import bad_setting, importing
from corpusfit.core.languages import code_of, count_words
from corpusfit.core.plan import SECOND, ReadPlan
from corpusfit.core.types import Document, Reject, Source
from corpusfit.text import rejects
from corpusfit.text.contract import SIDES, Named
from corpusfit.text.cutting import BOM, Chunks, Lines, cut, lines_of
from corpusfit.text.fields import Row, from_value
from corpusfit.text.files import is_url
from corpusfit.text.unpack import COMPRESSIONS, unpacked_name

_ARCHIVE = "|".join(COMPRESSIONS)
_TSV = re.compile(rf"(.+\.tsv(?:\.(?:{_ARCHIVE}))?)(?::([^,:]+),([^,:]+))?", re.IGNORECASE)
_FORMS = (
    "pair:TEXTS,TRANSLATIONS (two files, aligned by lines), pair:FILE.tsv (its first two columns) "
    "or pair:FILE.tsv:NAME,NAME (two columns of its header)"
)
_NAME = re.compile(r"[\w-]+")


class Pairs(Named):
    """A format of aligned pairs; the form of an input decides which."""

    prefix = "pair:"
    parallel = True

    def find(self, input_name: str, setting: str) -> Source:
        """Parse an input into a source without name, size and fingerprint."""
        return self._parsed(input_name, setting, Path())[0]

    def located(self, input_name: str, home: Path) -> str:
        """The same input with absolute paths; raises as `find` does."""
        source, mark = self._parsed(input_name, "The input", home)
        return self.prefix + mark.join(filter(None, (source.url, source.translation)))

    def fingerprint(self, source: Source, digests: Sequence[str]) -> str:
        """The fingerprints of the files, and the names of the columns, combined."""
        named = "" if source.translation in self.files(source) else source.translation
        return hashlib.blake2b("\n".join([named, *digests]).encode(), digest_size=16).hexdigest()

    def _parsed(self, input_name: str, setting: str, home: Path) -> tuple[Source, str]:
        """The source, and the mark between its two halves in an input."""
        rest = input_name.removeprefix(self.prefix)
        tsv = _TSV.fullmatch(rest)
        if tsv:
            named = f"{tsv[2]},{tsv[3]}" if tsv[2] else ""
            url = _absolute(tsv[1], home)
            return Source("", url, "columns", unpacked_name(url)[1], 0, "", translation=named), ":"
        files = _two_files(rest, home)
        if files is None:
            raise bad_setting(setting, _FORMS, input_name)
        first, second = (_absolute(file, home) for file in files)
        return Source("", first, "moses", unpacked_name(first)[1], 0, "", translation=second), ","


def side_names(*names: str) -> tuple[str, str]:
    """The names of the two sides; `text` and `translation` if they do not suit file names."""
    fine = len(set(names)) == 2 and all(map(_NAME.fullmatch, names))
    return (names[0], names[1]) if fine else SIDES


def _two_files(rest: str, home: Path) -> tuple[str, str] | None:
    cuts = [(rest[: m.start()], rest[m.end() :]) for m in re.finditer(",", rest)]
    if len(cuts) > 1:
        cuts = [cut for cut in cuts if all(Path(_absolute(file, home)).is_file() for file in cut)]
    return cuts[0] if len(cuts) == 1 and all(cuts[0]) else None


def _absolute(file: str, home: Path) -> str:
    """A file's absolute path, or its URL."""
    return file if is_url(file) else str((home / user_path(file)).absolute())


class LineReader:
    """The lines of a stream, a few at a time.

    Args:
        stream: the unpacked file.
        plan: the row limit.
    """

    def __init__(self, stream: Chunks, plan: ReadPlan) -> None:
        self._blocks = cut(stream, Lines(), plan)
        self._lines: list[bytes] = []
        self._at = 0
        self._reasons: list[str] = []

    def take(self, most: int) -> tuple[list[bytes], str]:
        """The next lines, and the reject reason of the line after them, if it has one."""
        while self._at == len(self._lines) and not self._reasons:
            block = next(self._blocks, None)
            if block is None:
                return [], ""
            self._lines, self._at = lines_of(block.data), 0
            self._reasons = [reject.reason for reject in block.rejects]
        taken = self._lines[self._at : self._at + most]
        self._at += len(taken)
        reason = ""
        if self._reasons and self._at == len(self._lines) and len(taken) < most:
            reason = self._reasons.pop(0)
        return taken, reason


def pair_of(row: int, byte: int, text: bytes, translation: bytes, plan: ReadPlan) -> Row:
    """Make a row of two raw lines; both sides must be usable, and in the plan's limits.

    Its text is the plan's side, the first one if that is not decided.

    Reference: Koehn et al. (2007), Moses, for the limits (`clean-corpus-n`) and the punctuation.
    """
    if byte == 0:
        text, translation = text.removeprefix(BOM), translation.removeprefix(BOM)
    if not text.strip() and not translation.strip():
        return Reject(row, byte, rejects.EMPTY_LINE)
    found, other = _side(row, byte, text), _side(row, byte, translation)
    if isinstance(found, Reject):
        return found
    if isinstance(other, Reject):
        return replace(other, reason=rejects.in_translation(other.reason))
    sides = found.text, other.text
    if plan.normalise:
        languages = plan.normalise.split("-")
        sides = punctuation(languages[0])(sides[0]), punctuation(languages[1])(sides[1])
    if plan.max_words or plan.max_length_ratio:
        fewer, more = sorted(map(count_words, sides))
        if plan.max_words and more > plan.max_words:
            return Reject(row, byte, rejects.too_many_words(plan))
        if plan.max_length_ratio and more > plan.max_length_ratio * fewer:
            return Reject(row, byte, rejects.uneven(plan))
    if plan.side == SECOND:
        sides = sides[1], sides[0]
    return Document(row, byte, sides[0], None, sides[1])


@cache
def punctuation(language: str) -> Callable[[str], str]:
    """The function that normalises the punctuation of a text of a language.

    Reference: `normalize-punctuation.perl` of Moses, as `sacremoses` has it.
    """
    with importing("Normalising punctuation", "languages"):
        from sacremoses import MosesPunctNormalizer
    normalise: Callable[[str], str] = MosesPunctNormalizer(lang=code_of(language)).normalize
    return lambda text: normalise(text) or text


def _side(row: int, byte: int, line: bytes) -> Document | Reject:
    try:
        return from_value(row, byte, line.removesuffix(b"\r").decode())
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)
