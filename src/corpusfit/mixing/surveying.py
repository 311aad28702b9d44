"""Surveys the sources of a composition: the columns and the order that `compose` decides by."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, listed, read_arrays, remove, write_bytes
from corpusfit.core.errors import EmptyInputError
from corpusfit.core.manifest import digest, source_identity, versions
from corpusfit.core.plan import SECOND, CutPlan, EmbedPlan, MethodPlan, Plan
from corpusfit.core.types import FILE_BITS, Shard, Source
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.mixing.compose_job import SurveyTexts, surveyed_path
from corpusfit.mixing.folder import ComposeFolder
from corpusfit.mixing.plan import RANDOM, SENTENCES, CompositionPlan
from corpusfit.mixing.selection import Pool, quantiles
from corpusfit.scoring import table
from corpusfit.selection.commands import score
from corpusfit.text import cures
from corpusfit.text.context import RunContext
from corpusfit.text.reading import Reasons
from corpusfit.text.same_text import FORM

LOOK = "look at texts"
"""Stage name of the first pass over the sources."""

_ONE_SEGMENT = 1 << 40
"""Units per segment, so that a document has one score: the mean of its units'."""

_SEEN_BY = (*("language", "language_field", "text_field", "txt", "page"), "transliterated")
"""Settings of a source that change its survey."""

Columns = list[dict[str, NDArray[Any]]]
"""The survey of a source, shard by shard."""


@dataclass
class ComposeContext:
    """A running composition."""

    recipe: CompositionPlan
    running: RunContext
    folder: ComposeFolder
    sources: list[list[Source]]
    targets: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
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
        found = {"sources": recipe.sources, "names": self.names, "languages": recipe.languages}
        return {**found, "longest": recipe.longest, "folder": self.folder.surveyed}

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
        """Every shard with the number of its source, weighed as by `shards_of`."""
        for number, files in enumerate(self.sources):
            for shard in self.running.shards_of(files, self.recipe.sources[number].read):
                yield number, shard


def surveyed(context: ComposeContext) -> dict[str, Any]:
    """Survey all texts; returns each source's number of shards and its counts."""
    folder, wanted = context.folder, digest(seen_of(context))
    if not folder.surveyed_as.exists() or folder.surveyed_as.read_text("utf-8") != wanted:
        folder.counted.unlink(missing_ok=True)
        remove(folder.surveyed)
        write_bytes(folder.surveyed_as, wanted.encode())
    if folder.counted.exists():
        shards = json.loads(folder.counted.read_bytes())
        return {"shards": shards, "counts": _counted(context, shards)}
    done, shards = listed(folder.surveyed), [0] * len(context.sources)
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
    for source, found in zip(recipe.sources, context.sources, strict=True):
        plain = {name: getattr(source, name) for name in _SEEN_BY}
        plain |= {"side": SECOND} if source.side == SECOND else {}  # older runs lack it
        sources[source.name] = {**plain, "files": source_identity(found)}
    used = ("corpusfit", "sentencex", "py3langid", "langcodes")
    known = {name: version for name, version in versions().items() if name in used}
    order = [source.name for source in recipe.sources]
    seen = {"sources": sources, "order": order, "versions": known}
    more = {"languages": list(recipe.languages), "longest": recipe.longest, "same_text": FORM}
    return {**seen, **more}


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
    reasons = [Reasons() for _ in shards]
    losses = [cures.Losses() for _ in shards]
    for number, seen in headers(context, shards):
        total[number].update(seen["counts"])
        others[number].update(seen["others"])
        unread[number].update(seen["unread"])
        reasons[number].add(seen["rejects"])
        rejected = (reason for *_, reason in seen["rejects"])
        losses[number].add(
            context.names[number][seen["file"]], seen["counts"]["documents"], rejected
        )
    found = {}
    for number, source in enumerate(context.recipe.sources):
        counts, why = total[number], reasons[number]
        cure = losses[number].cure(context.sources[number], source.read)
        cure = "" if "<read." in cure else cure  # a recipe has no such setting
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
        found[source.name] = {
            "rows": counts["documents"] + counts["rejected"],
            **counts,
            "reasons": dict(why.counts.most_common()),
            "others": dict(others[number].most_common()),
        }
    return found


Places = list[tuple[int, int, int]]
"""Source, shard and number of its surveyed documents, in reading order."""


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
    """Order keys by relevance (rank of the score within the language), unless `choose` is random.

    Relevance is a run of `score` over the source, in a folder of its own that can be resumed.
    """
    source = context.recipe.sources[number]
    if source.choose == RANDOM:
        return by_chance(context, number, columns)
    folder = context.folder.relevance / f"{number:03d}"
    embed = EmbedPlan(source.embedder) if source.embedder else EmbedPlan()
    plan = Plan(
        read=source.read,
        cut=CutPlan(gamma=_ONE_SEGMENT),
        embed=embed,
        method=MethodPlan(source.choose),
        seed=context.recipe.seed,
    )
    began = time.perf_counter()
    score(plan, source.target, source.path, folder, machine=context.running.machine, overwrite=True)
    scores = _scores_of(context, number, folder / "scores", columns)
    context.seconds[f"score {source.name}"] = round(time.perf_counter() - began, 3)
    languages = np.concatenate([c["language"] for c in columns])
    groups = [np.flatnonzero(languages == k) for k in range(len(context.recipe.languages))]
    ranks = quantiles(-np.concatenate(scores).astype(np.float64), groups)
    return np.split(ranks, np.cumsum([len(c["row"]) for c in columns])[:-1])


def _scores_of(
    context: ComposeContext, number: int, folder: Path, columns: Columns
) -> list[NDArray[np.float32]]:
    """Scores of a source's surveyed documents by shard: float32 [n] each.

    Parts of the scores hold small files together; in both, files and rows are in order.
    """
    names = [source.name for source in context.sources[number]]
    parts = [folder / name for name in sorted(listed(folder))]
    scored = np.concatenate([table.read_rows(part, names) for part in parts])
    scores = np.concatenate([table.read_columns(part, "score")[0] for part in parts])
    found = []
    for index, seen in enumerate(columns):
        _, header = read_arrays(surveyed_path(context.folder.surveyed, number, index), ())
        file = header["file"] if len(names) > 1 else 0
        at = np.searchsorted(scored, (file << FILE_BITS) + seen["row"].astype(np.int64))
        found.append(np.asarray(scores[at], np.float32))
    return found
