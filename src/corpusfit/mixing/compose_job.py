"""Jobs that compose: survey the documents of a shard, and write those that are taken."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash
import zstandard
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays, write_bytes
from corpusfit.core.engine import Job, PlainJob
from corpusfit.core.errors import ChangedInputError, UsageError, changed_input
from corpusfit.core.languages import code_of, identifier
from corpusfit.core.types import Document, Shard
from corpusfit.mixing.clean import Sentences, clean, without_markup
from corpusfit.mixing.plan import SENTENCES, TextSource
from corpusfit.text import rows
from corpusfit.text.same_text import exact_key

_LEVEL = 3
_BEGINNING = 4000  # characters, of which the identifier sees the first without markup
_LABEL = 40  # characters of a label that is no language code, for the warning


def surveyed_path(folder: Path, source: int, shard: int) -> Path:
    """File of the survey of a source's shard."""
    return folder / f"part-{source:03d}-{shard:05d}.safetensors"


def composed_path(folder: Path, source: int, shard: int) -> Path:
    """File of the text taken from a source's shard."""
    return folder / f"part-{source:03d}-{shard:05d}.jsonl.zst"


def mark_path(folder: Path, source: int, shard: int) -> Path:
    """Completion mark of a source's shard, with the amounts taken."""
    return folder / f"part-{source:03d}-{shard:05d}.json"


@dataclass(frozen=True)
class _Cleaning:
    """How documents of a recipe's sources are cleaned."""

    sources: tuple[TextSource, ...]
    names: tuple[tuple[str, ...], ...]
    languages: tuple[str, ...]
    longest: int

    def clean(self, number: int, texts: list[str], languages: list[str]) -> Sentences:
        """The sentences of a source's documents; none for documents in other languages."""
        codes = [code if code in self.languages else "" for code in languages]
        return clean(texts, codes, self.longest, transliterated=self.sources[number].transliterated)


@dataclass(frozen=True)
class SurveyTexts(_Cleaning, Job[tuple[int, Shard], int]):
    """Survey the documents of a source's shard; returns the number with sentences.

    Attributes:
        folder: folder of the survey: of each document with sentences its row, language, numbers of
            sentences and word pieces, and hashes of its text and its page (30 bytes in all).
    """

    folder: Path

    def start(self) -> Callable[[tuple[int, Shard]], int]:
        """Load the language identifier, unless every source has a known language."""
        identify = None if all(s.language for s in self.sources) else identifier()

        return lambda piece: self._work(*piece, identify)

    def _work(self, number: int, shard: Shard, identify: Callable[[str], str] | None) -> int:
        source = self.sources[number]
        documents, rejects = [], []
        for row in rows(shard, source.read):
            if isinstance(row, Document):
                documents.append(row)
            else:
                rejects.append((row.row, row.byte, row.reason))
        counts: Counter[str] = Counter(documents=len(documents), rejected=len(rejects))
        counts["characters"] = sum(len(d.text) for d in documents)
        unread: Counter[str] = Counter()
        languages = self._languages(source, shard, documents, identify, counts, unread)
        found = self.clean(number, [d.text for d in documents], languages)
        sentences, pieces = found.sums(len(documents))
        used = np.flatnonzero(sentences)
        others = Counter(code or "unknown" for code in languages if code not in self.languages)
        counts["in_other_languages"] = others.total()
        counts["empty"] = len(documents) - others.total() - len(used)
        columns: dict[str, NDArray[Any]] = {
            "row": np.array([documents[i].row for i in used], np.int64),
            "language": np.array([self.languages.index(languages[i]) for i in used], np.int16),
            "sentences": sentences[used].astype(np.int32),
            "pieces": pieces[used].astype(np.int32),
            "text": np.fromiter(map(exact_key, _joined(found, len(documents), used)), np.uint64),
            "page": _pages([documents[i] for i in used] if source.page else [], len(used)),
        }
        seen = {
            "file": shard.source,
            "rejects": rejects,
            "counts": {**counts, **found.counts},
            "others": dict(others),
            "unread": dict(unread),
        }
        write_arrays(surveyed_path(self.folder, number, shard.index), columns, seen)
        return len(used)

    def _languages(
        self,
        source: TextSource,
        shard: Shard,
        documents: list[Document],
        identify: Callable[[str], str] | None,
        counts: Counter[str],
        unread: Counter[str],
    ) -> list[str]:
        """The code of each document's language: of the source, of the row, or identified.

        Labels that are no language are counted in `unread`.
        """
        if source.language:
            return [source.language] * len(documents)
        stated: dict[int, str] = {}
        if source.language_field:
            labelled = documents
            if source.page:  # the id was the page: read again, with the language as the id
                read = dataclasses.replace(source.read, id_field=source.language_field)
                labelled = [d for d in rows(shard, read) if isinstance(d, Document)]
            for document in labelled:
                label = document.id if isinstance(document.id, str) else ""
                try:
                    stated[document.row] = code_of(label)
                except UsageError:
                    unread.update([label[:_LABEL]] if label.strip() else ())
        assert identify is not None  # noqa: S101
        counts["identified"] = len(documents) - len(stated)
        return [
            stated.get(d.row) or identify(without_markup(d.text[:_BEGINNING])) for d in documents
        ]


def _joined(found: Sentences, n: int, used: NDArray[np.int64]) -> list[bytes]:
    """The texts (UTF-8) of some of n documents: their sentences, one per line."""
    ends = np.cumsum(np.bincount(found.owner, minlength=n))
    begins = np.concatenate(([0], ends[:-1]))
    texts = found.texts.to_pylist()
    return ["\n".join(texts[begins[i] : ends[i]]).encode() for i in used.tolist()]


def _pages(documents: list[Document], n: int) -> NDArray[np.uint64]:
    """uint64 [n]: hashes of the documents' pages; 0 for none."""
    if not documents:
        return np.zeros(n, np.uint64)
    named = (str(d.id).strip() if d.id is not None else "" for d in documents)
    keys = (xxhash.xxh3_64_intdigest(name.encode()) | 1 if name else 0 for name in named)
    return np.fromiter(keys, np.uint64, n)


@dataclass(frozen=True)
class WriteComposed(_Cleaning, PlainJob[tuple[int, Shard, NDArray[np.int64]], int]):
    """Write an amount of each surveyed document of a shard, int64 [n].

    Returns the number of documents, and leaves a mark: the number of documents, sentences and word
    pieces, by number of the language.

    Attributes:
        unit: unit of the amounts.
        folder: folder of the survey.
        out: folder of the text.
        done: folder of the marks.
    """

    unit: str
    folder: Path
    out: Path
    done: Path

    def _work(self, piece: tuple[int, Shard, NDArray[np.int64]]) -> int:
        number, shard, amounts = piece
        source = self.sources[number]
        seen, _ = read_arrays(surveyed_path(self.folder, number, shard.index))
        wanted = np.flatnonzero(amounts)
        documents = {d.row: d for d in rows(shard, source.read) if isinstance(d, Document)}
        picked = seen["row"][wanted].tolist()
        if any(row not in documents for row in picked):
            raise self._changed(number, shard)
        numbers = seen["language"][wanted].tolist()
        found = self.clean(
            number, [documents[r].text for r in picked], [self.languages[i] for i in numbers]
        )
        sentences, pieces = found.sums(len(picked))
        if not (
            np.array_equal(sentences, seen["sentences"][wanted])
            and np.array_equal(pieces, seen["pieces"][wanted])
        ):
            raise self._changed(number, shard)
        file = self.names[number][shard.source]
        about = {"kind": source.kind, "source": f"{source.name}/{file}"}
        return self._written(number, shard.index, found, picked, numbers, amounts[wanted], about)

    def _written(
        self,
        number: int,
        shard: int,
        found: Sentences,
        picked: list[int],
        numbers: list[int],
        amounts: NDArray[np.int64],
        about: dict[str, Any],
    ) -> int:
        """Write the documents' lines, then the mark."""
        counts, pieces = found.sums(len(picked))
        texts, begins = found.texts.to_pylist(), np.cumsum(counts) - counts
        sizes = counts if self.unit == SENTENCES else pieces
        totals: dict[int, list[int]] = {}
        buffer = io.BytesIO()
        for place, (row, language) in enumerate(zip(picked, numbers, strict=True)):
            begin, n = int(begins[place]), int(counts[place])
            times, rest = divmod(int(amounts[place]), int(sizes[place]))
            parts = [(n, int(pieces[place]))] * times
            if rest:
                parts += self._part(found.pieces[begin : begin + n], rest)
            for k, tokens in parts:
                line: dict[str, Any] = {"text": "\n".join(texts[begin : begin + k])}
                line |= {"language": self.languages[language], **about, "row": row}
                buffer.write(orjson.dumps(line) + b"\n")
                sums = totals.setdefault(language, [0, 0, 0])
                for i, more in enumerate((1, k, tokens)):
                    sums[i] += more
        if buffer.tell():
            data = zstandard.ZstdCompressor(level=_LEVEL).compress(buffer.getvalue())
            write_bytes(composed_path(self.out, number, shard), data)
        mark = orjson.dumps({str(language): sums for language, sums in totals.items()})
        write_bytes(mark_path(self.done, number, shard), mark)
        return sum(sums[0] for sums in totals.values())

    def _part(self, pieces: NDArray[np.int32], amount: int) -> list[tuple[int, int]]:
        """Sentences and word pieces of a document's longest beginning within an amount."""
        through = np.cumsum(pieces, dtype=np.int64)
        k = amount
        if self.unit != SENTENCES:
            k = int(np.searchsorted(through, amount, side="right"))
        return [(k, int(through[k - 1]))] if k else []

    def _changed(self, number: int, shard: Shard) -> ChangedInputError:
        return changed_input(self.names[number][shard.source], "`overwrite`")
