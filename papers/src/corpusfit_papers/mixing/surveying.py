"""Survey the sources of a composition: the columns and the order that `compose` decides by."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit import Plan
from corpusfit.contracts import EmbedPlan, UsageError, place_keys, word_form, write_bytes
from corpusfit.core.artifacts import is_local, names_in, read_arrays, remove, write_arrays
from corpusfit.core.engine import Job
from corpusfit.core.errors import EmptyInputError
from corpusfit.core.languages import identifier
from corpusfit.core.manifest import OutFolder, digest, source_identity, versions
from corpusfit.core.plan import CutPlan, MethodPlan
from corpusfit.core.types import FILE_BITS, Document, Shard, Source, buffers, file_of, text_array
from corpusfit.kernels.chance import uniform
from corpusfit.scoring import table
from corpusfit.selection.commands import select
from corpusfit.text import cures, layout, packed, rows
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons, Rejects
from corpusfit.text.same_text import FORM, exact_keys
from corpusfit_papers.mixing.amounts import Pool, quantiles
from corpusfit_papers.mixing.clean import Sentences, clean, without_markup
from corpusfit_papers.mixing.languages import code_of
from corpusfit_papers.mixing.plan import RANDOM, SENTENCES, CompositionPlan, TextSource

_BEGINNING = 4000  # characters to remove markup from, for the language identifier
_LABEL = 40  # characters of a label that is not a language code, for the warning
LOOK = "look at texts"  # Stage name of the first pass over the sources
# Units per segment, so that a document has one score: the mean of its units'.
_ONE_SEGMENT = 1 << 40
# Settings of a source that change its survey.
_SEEN_BY = (*("language", "language_field", "text_field", "txt", "page"), "transliterated")
Columns = list[dict[str, NDArray[Any]]]  # The survey of a source, shard by shard
# Source, shard and number of its surveyed documents, in reading order.
Places = list[tuple[int, int, int]]


class ComposeFolder(OutFolder):
    """A composition's folder: the text, and the survey of the sources."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.composed = path / "composed"
        self.surveyed = self.work / "surveyed"
        self.counted = self.work / "surveyed.json"
        self.surveyed_as = self.work / "surveyed.txt"
        self.relevance = self.work / "relevance"
        self.written = self.work / "written"

    def _has_work(self) -> bool:
        return self.written.is_dir()

    def _clear(self) -> None:
        """Delete all but the survey of the sources, which has an identity of its own."""
        super()._clear()
        remove(self.written, self.composed, self.path / "rejects.jsonl")


@dataclass
class ComposeContext:
    """A running composition."""

    recipe: CompositionPlan
    running: Run
    folder: ComposeFolder
    sources: list[list[Source]]
    targets: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @functools.cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the files, by source."""
        return tuple(tuple(file.name for file in files) for files in self.sources)

    @property
    def size(self) -> int:
        """Stored bytes of all sources."""
        return sum(file.size for files in self.sources for file in files)

    def cleaning(self) -> dict[str, Any]:
        """The common arguments of both jobs."""
        recipe = self.recipe
        return {
            "sources": recipe.sources,
            "names": self.names,
            "languages": recipe.languages,
            "longest": recipe.longest,
            "folder": self.folder.surveyed,
        }

    def warn(self, message: str) -> None:
        """Show a warning, and store it for the manifest, with paths of settings."""
        self.warnings.append(message)
        self.running.progress.warn(message)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a pass over the sources and show its progress by stored bytes."""
        began = time.perf_counter()
        with self.running.progress.showing(name, self.size, "documents"):
            yield
        self.seconds[name] = round(time.perf_counter() - began, 3)

    def shards(self) -> Iterator[tuple[int, Shard]]:
        """Every shard with the number of its source, with small files packed together."""
        for number, files in enumerate(self.sources):
            read = self.recipe.sources[number].read
            for shard in self.running.shards_of(files, read, packed):
                yield number, shard


def surveyed_path(folder: Path, source: int, shard: int) -> Path:
    """File of the survey of a source's shard."""
    return folder / f"part-{source:03d}-{shard:05d}.safetensors"


@dataclass(frozen=True)
class Cleaning:
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
class SurveyTexts(Cleaning, Job[tuple[int, Shard], int]):
    """Survey the documents of a source's shard; returns the number with sentences."""

    # folder of the survey: of each document with sentences its row, language, numbers of sentences
    # and word pieces, and hashes of its text and its page (30 bytes in all)
    folder: Path

    def start(self) -> Callable[[tuple[int, Shard]], int]:
        """Load the language identifier, unless every source has a known language."""
        identify = None if all(s.language for s in self.sources) else identifier()

        return lambda piece: self._work(*piece, identify)

    def _work(self, number: int, shard: Shard, identify: Callable[[str], str] | None) -> int:
        source = self.sources[number]
        documents = []
        rejects = Rejects()
        for row in rows(shard, source.read):
            if isinstance(row, Document):
                documents.append(row)
            else:
                rejects.append(row.row, row.byte, row.reason)
        counts: Counter[str] = Counter(documents=len(documents), rejected=len(rejects))
        counts["characters"] = sum(len(d.text) for d in documents)
        unread: Counter[str] = Counter()
        languages = self._languages(source, shard, documents, identify, counts, unread)
        cleaned = self.clean(number, [d.text for d in documents], languages)
        sentences, pieces = cleaned.sums(len(documents))
        used = np.flatnonzero(sentences)
        lines = cleaned.texts.to_pylist()
        ends = np.cumsum(sentences)
        texts = ("\n".join(lines[ends[i] - sentences[i] : ends[i]]) for i in used.tolist())
        pages = np.zeros(len(used), np.uint64)  # 0 for none
        if source.page:
            for i, document in enumerate(documents[i] for i in used.tolist()):
                name = "" if document.id is None else word_form(str(document.id).strip())
                pages[i] = xxhash.xxh3_64_intdigest(name.encode()) | 1 if name else 0
        others = Counter(code or "unknown" for code in languages if code not in self.languages)
        counts["in_other_languages"] = others.total()
        counts["empty"] = len(documents) - others.total() - len(used)
        columns: dict[str, NDArray[Any]] = {
            "row": np.array([documents[i].row for i in used], np.int64),
            "language": np.array([self.languages.index(languages[i]) for i in used], np.int16),
            "sentences": sentences[used].astype(np.int32),
            "pieces": pieces[used].astype(np.int32),
            "text": exact_keys(*buffers(text_array(list(texts)))),
            "page": pages,
        }
        seen = {
            "file": shard.source,
            "rejects": rejects.as_list(),
            "counts": {**counts, **cleaned.counts},
            "others": dict(others),
            "unread": dict(unread),
            "paged": int((pages > 0).sum()),
        }
        if shard.parts:  # documents by file, for advice on a file with many rejects
            seen["files"] = Counter(file_of(d.row) for d in documents) if rejects else {}
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
        """The code of each document's language: of the source, of the row, or identified."""
        # Labels that are not languages are counted in `unread`.
        if source.language:
            return [source.language] * len(documents)
        stated: dict[int, str] = {}
        if source.language_field:
            labeled = documents
            # the id was the page, so the rows are read again with the language as the id
            if source.page:
                read = dataclasses.replace(source.read, id_field=source.language_field)
                labeled = [d for d in rows(shard, read) if isinstance(d, Document)]
            for document in labeled:
                label = document.id if isinstance(document.id, str) else ""
                try:
                    stated[document.row] = code_of(label)
                except UsageError:
                    unread.update([label[:_LABEL]] if label.strip() else ())
        assert identify is not None  # noqa: S101
        counts["identified"] = len(documents) - len(stated)

        def identified(document: Document) -> str:
            code = identify(without_markup(document.text[:_BEGINNING]))
            return code_of(code) if code else ""

        return [stated.get(d.row) or identified(d) for d in documents]


def surveyed(context: ComposeContext) -> dict[str, Any]:
    """Survey all texts; returns each source's number of shards and its counts."""
    folder = context.folder
    wanted = digest(seen_of(context))
    if not folder.surveyed_as.exists() or folder.surveyed_as.read_text("utf-8") != wanted:
        folder.counted.unlink(missing_ok=True)
        remove(folder.surveyed)
        write_bytes(folder.surveyed_as, wanted.encode())
    if folder.counted.exists():
        shards = json.loads(folder.counted.read_bytes())
        return {"shards": shards, "counts": _counted(context, shards)}
    # a killed survey goes on with the shards that it lacks
    done = names_in(folder.surveyed)
    shards = [0] * len(context.sources)
    if is_local(folder.surveyed):
        folder.surveyed.mkdir(parents=True, exist_ok=True)

    def missing() -> Iterator[tuple[int, Shard]]:
        for number, shard in context.shards():
            shards[number] = shard.index + 1
            if surveyed_path(folder.surveyed, number, shard.index).name not in done:
                yield number, shard

    with context.stage(LOOK):
        for documents in context.running.map(SurveyTexts(**context.cleaning()), missing()):
            context.running.progress.advance(0, documents)
    counts = _counted(context, shards)
    write_bytes(folder.counted, json.dumps(shards).encode())
    return {"shards": shards, "counts": counts}


def seen_of(context: ComposeContext) -> dict[str, Any]:
    """The identity of the survey: all settings and inputs that can change it."""
    recipe = context.recipe
    sources = {}
    for source, files in zip(recipe.sources, context.sources, strict=True):
        plain = {name: getattr(source, name) for name in _SEEN_BY}
        plain |= layout(files, source.read)
        sources[source.name] = {**plain, "files": source_identity(files)}
    used = ("corpusfit", "sentencex", "py3langid", "langcodes")
    known = {name: version for name, version in versions().items() if name in used}
    return {
        "sources": sources,
        "order": [source.name for source in recipe.sources],
        "versions": known,
        "languages": list(recipe.languages),
        "longest": recipe.longest,
        "same_text": FORM,
    }


def headers(context: ComposeContext, shards: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(source, counts) of every shard."""
    for number, count in enumerate(shards):
        for index in range(count):
            path = surveyed_path(context.folder.surveyed, number, index)
            yield number, read_arrays(path, ())[1]


def _counted(context: ComposeContext, shards: list[int]) -> dict[str, dict[str, Any]]:
    """By source, counts of rows, documents, rejects and cleaning; warns of unusable rows."""
    total = [Counter[str]() for _ in shards]
    others = [Counter[str]() for _ in shards]
    unread = [Counter[str]() for _ in shards]
    paged = [0 for _ in shards]
    reasons = [Reasons() for _ in shards]
    losses = [cures.Losses() for _ in shards]
    for number, seen in headers(context, shards):
        total[number].update(seen["counts"])
        others[number].update(seen["others"])
        unread[number].update(seen["unread"])
        paged[number] += seen["paged"]
        rejects = Rejects.stored(seen["rejects"])
        reasons[number].add(rejects.counts())
        names = context.names[number]
        first = seen["file"]
        for file, documents in seen.get("files", {0: seen["counts"]["documents"]}).items():
            losses[number].add(names[first + int(file)], documents)
        for file, lost in rejects.by_file().items():
            losses[number].add(names[first + file], 0, lost)
    counted = {}
    for number, source in enumerate(context.recipe.sources):
        counts = total[number]
        why = reasons[number]
        cure = losses[number].cure(context.sources[number], source.read)
        cure = "" if "`read." in cure else cure  # a recipe has no such setting
        if not counts["documents"]:
            raise EmptyInputError(
                f"The source {source.name!r} has no usable row ({why}). "
                f"{cure or 'Set its text_field to the text field, or its path to other files.'}"
            )
        if why.counts:
            unused = f"{why.counts.total():,} rows of {source.name} were not used: {why}."
            context.warn(f"{unused} {cure}".rstrip())
        if labels := unread[number]:
            shown = ", ".join(repr(label) for label, _ in labels.most_common(3))
            context.warn(
                f"{labels.total():,} rows of {source.name} have a {source.language_field} that is "
                f"no code of a language ({shown}), so their language is identified."
            )
        if counts["in_other_languages"] == counts["documents"]:
            shown = ", ".join(language for language, _ in others[number].most_common(3))
            context.warn(
                f"No document of {source.name} is in a language of the composition (but {shown})."
            )
        unlabeled = counts.get("identified") == counts["documents"] and not unread[number]
        for setting, none in (("page", not paged[number]), ("language_field", unlabeled)):
            if (name := getattr(source, setting)) and none:
                context.warn(f"No row of {source.name} that is used has the {setting} {name!r}.")
        counted[source.name] = {
            "rows": counts["documents"] + counts["rejected"],
            **counts,
            "reasons": why.as_dict(),
            "others": dict(others[number].most_common()),
        }
    return counted


def pool(
    context: ComposeContext,
    shards: list[int],
    ordering: Callable[[ComposeContext, int, Columns], list[NDArray[np.float64]]],
) -> tuple[Places, Pool]:
    """All surveyed documents as columns, and the shard of each."""
    size = "sentences" if context.recipe.unit == SENTENCES else "pieces"
    places: Places = []
    parts: list[tuple[NDArray[Any], ...]] = []
    for number, count in enumerate(shards):
        columns = []
        for index in range(count):
            path = surveyed_path(context.folder.surveyed, number, index)
            seen, _ = read_arrays(path, ("row", "language", size, "text", "page"))
            places.append((number, index, len(seen["row"])))
            columns.append(seen)
        order = ordering(context, number, columns)
        for seen, keys in zip(columns, order, strict=True):
            source = np.full(len(keys), number, np.int16)
            sizes = seen[size].astype(np.int64)
            parts.append((source, seen["language"], sizes, seen["text"], seen["page"], keys))
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return places, Pool(*whole)


def by_chance(context: ComposeContext, number: int, columns: Columns) -> list[NDArray[np.float64]]:
    """Random order keys of a source's documents, shard by shard."""
    stream = (number + 1) << 40
    seed = context.recipe.seed
    return [uniform(place_keys(seed, stream + i, len(c["row"]))) for i, c in enumerate(columns)]


def relevant(context: ComposeContext, number: int, columns: Columns) -> list[NDArray[np.float64]]:
    """Order keys by rank of the score within the language, unless `choose` is random."""
    # Relevance is a run of `select` over the source, in a folder of its own that can be resumed.
    source = context.recipe.sources[number]
    if source.choose == RANDOM:
        return by_chance(context, number, columns)
    folder = context.folder.relevance / f"{number:03d}"
    embed = EmbedPlan(source.embedder) if source.embedder else EmbedPlan()
    plan = Plan(
        read=source.read,
        cut=CutPlan(pieces=256, gamma=_ONE_SEGMENT),
        embed=embed,
        method=MethodPlan(source.choose),
        seed=context.recipe.seed,
    )
    began = time.perf_counter()
    select(
        plan,
        source.target,
        source.path,
        folder,
        machine=context.running.machine,
        overwrite=True,
        selecting=False,
    )
    # Parts of the scores hold small files together; in both, files and rows are in order.
    names = [file.name for file in context.sources[number]]
    parts = [folder / "scores" / name for name in sorted(names_in(folder / "scores"))]
    scored = np.concatenate([table.read_rows(part, names) for part in parts])
    of_rows = np.concatenate([table.read_columns(part, "score")[0] for part in parts])
    scores = []
    for index, survey in enumerate(columns):
        _, header = read_arrays(surveyed_path(context.folder.surveyed, number, index), ())
        file = header["file"] if len(names) > 1 else 0
        at = np.searchsorted(scored, (file << FILE_BITS) + survey["row"].astype(np.int64))
        scores.append(np.asarray(of_rows[at], np.float32))
    context.seconds[f"score {source.name}"] = round(time.perf_counter() - began, 3)
    languages = np.concatenate([c["language"] for c in columns])
    groups = [np.flatnonzero(languages == k) for k in range(len(context.recipe.languages))]
    ranks = quantiles(-np.concatenate(scores).astype(np.float64), groups)
    return np.split(ranks, np.cumsum([len(c["row"]) for c in columns])[:-1])
