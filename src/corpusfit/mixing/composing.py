"""The command `compose`: builds one corpus from sources in several languages."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import is_local, listed, read_many, writing
from corpusfit.core.errors import bad_setting
from corpusfit.core.lock import locked
from corpusfit.core.manifest import Finished, source_as_dict, source_identity, versions
from corpusfit.core.plan import AUTO, FIRST
from corpusfit.core.room import warn_without_room
from corpusfit.core.types import Source
from corpusfit.mixing.compose_job import WriteComposed, mark_path
from corpusfit.mixing.folder import ComposeFolder
from corpusfit.mixing.plan import RANDOM, SENTENCES, CompositionPlan, TextSource
from corpusfit.mixing.selection import Pool, Taking, decide
from corpusfit.mixing.summary import Amounts, by_kind, by_language
from corpusfit.mixing.surveying import (
    LOOK,
    ComposeContext,
    Places,
    by_chance,
    headers,
    pool,
    relevant,
    seen_of,
    surveyed,
)
from corpusfit.scoring import registry
from corpusfit.text.context import Machine, RunContext
from corpusfit.text.pair_languages import sampled, with_side


class Composition(Finished):
    """A finished composition; the text is in the folder's `composed/`."""


def compose(
    recipe: CompositionPlan, out: Path, *, machine: Machine, overwrite: bool = False
) -> Composition:
    """Compose a corpus.

    Text is read and cleaned twice: how much of a language is taken depends on all languages. In
    between, memory holds about a hundred bytes per document and no text.

    Reference: mDAPT, sections 3.1 and 3.2.
    """
    folder = ComposeFolder(out)
    folder.claim()
    _check_methods(recipe)
    with contextlib.ExitStack() as stack, machine.running(folder.work) as running:
        context = _open(recipe, folder, running)
        stack.enter_context(locked(folder.work, "compose", make=True))
        folder.begin(_identity(context), overwrite=overwrite)
        running.engine.require_shared(folder.work, "`out`")
        done = folder.finished()
        if done is not None:
            return Composition(out, done)
        read = surveyed(context)
        places, texts = pool(context, read["shards"], relevant)
        selection = _decided(context, texts)
        warn_without_room(folder, context.size * _share(selection, texts), running.progress)
        amounts = _write(context, places, selection)
        _write_rejects(context, read["shards"])
        folder.finish(_manifest(context, read, selection, amounts))
    return Composition(out, json.loads((out / "manifest.json").read_text("utf-8")))


def estimate_composition(recipe: CompositionPlan, *, machine: Machine) -> dict[str, Any]:
    """Estimate `compose`: reads all texts, scores none and writes nothing."""
    _check_methods(recipe)
    with machine.running() as running:
        context = _open(recipe, ComposeFolder(running.work), running)
        read = surveyed(context)
        _, texts = pool(context, read["shards"], by_chance)
        selection = _decided(context, texts)
        share = _share(selection, texts)
        characters = sum(c["characters"] for c in read["counts"].values())
        return {
            "languages": by_language(recipe, selection.shares, {}),
            "counts": read["counts"],
            "documents": int((selection.amounts > 0).sum()),
            "taken": sum(s.total for s in selection.shares),
            "unit": recipe.unit,
            "seconds": round(context.seconds[LOOK] * (1 + share), 1),
            "disk_mb": round(characters * share * _COMPRESSED / 1e6, 1),
            "warnings": context.warnings,
        }


_COMPRESSED = 0.4
"""Stored bytes per character of text, roughly."""


def _check_methods(recipe: CompositionPlan) -> None:
    """Raise `UnknownMethodError` for a source whose `choose` is not a method."""
    for source in recipe.sources:
        if source.choose not in (RANDOM, "auto"):
            registry.build(source.choose, {})


def _open(recipe: CompositionPlan, folder: ComposeFolder, running: RunContext) -> ComposeContext:
    sources: list[list[Source]] = []
    targets: dict[str, str] = {}
    with_sides: list[TextSource] = []
    for number, source in enumerate(recipe.sources):
        here = running.at(folder.work / f"input-{number}")
        found = here.find(source.path, source.read, f"source {source.name}: path")
        read, texts = source.read, sampled(found, source.read)
        if read.side == AUTO and texts.sides:
            named = all(source.language in names for names in texts.sides)
            read = dataclasses.replace(read, side=source.language if named else FIRST)
        read = with_side(read, "", running.progress.note, texts)
        with_sides.append(dataclasses.replace(source, side=read.side))
        if source.page and source.language_field:
            _require_two_columns(source, found)
        sources.append(found)
        if source.target:
            wanted = here.find(source.target, source.read, f"source {source.name}: target")
            targets |= {f"{source.name}/{k}": v for k, v in source_identity(wanted).items()}
    recipe = dataclasses.replace(recipe, sources=tuple(with_sides))
    notes = list(running.passed_over)
    return ComposeContext(recipe, running, folder, sources, targets, warnings=notes)


def _require_two_columns(source: TextSource, files: list[Source]) -> None:
    """Raise `UsageError` if a page and a language cannot both be read."""
    for file in files:
        if not corpus.load_format(file.format).all_fields:
            raise bad_setting(
                f"source {source.name!r}: page",
                f"left out with language_field for {file.format} files",
                source.page,
                f"The {file.format} reader reads one field besides the text.",
            )


def _identity(context: ComposeContext) -> dict[str, Any]:
    """What must be the same for a composition to be resumed."""
    recipe = dataclasses.asdict(context.recipe)
    del recipe["sources"]
    sources = {
        source.name: {"kind": source.kind, "choose": source.choose, "embedder": source.embedder}
        for source in context.recipe.sources
    }
    seen = seen_of(context)
    files = {
        f"{name}/{file}": fingerprint
        for name, source in seen["sources"].items()
        for file, fingerprint in source.pop("files").items()
    }
    named = {name: {**seen["sources"][name], **source} for name, source in sources.items()}
    identity = {"command": "compose", "recipe": {**recipe, "sources": named}}
    identity |= {"order": seen["order"], "versions": seen["versions"]}
    return {**identity, "corpus": files, "target": context.targets}


def _share(selection: Taking, texts: Pool) -> float:
    """What is taken, as a share of all texts' word pieces or sentences, at most 1."""
    return min(1.0, float(selection.amounts.sum() / max(1, texts.size.sum())))


def _decided(context: ComposeContext, texts: Pool) -> Taking:
    """Decide what is taken, and warn of the notes."""
    selection = decide(texts, context.recipe)
    for note in selection.notes:
        context.warn(note)
    return selection


def _write(context: ComposeContext, places: Places, selection: Taking) -> Amounts:
    """Write what is taken of every unwritten shard; returns the amounts of all shards."""
    folder, begin = context.folder, 0
    amounts: dict[tuple[int, int], NDArray[np.int64]] = {}
    for number, index, n in places:
        if selection.amounts[begin : begin + n].any():
            amounts[number, index] = selection.amounts[begin : begin + n]
        begin += n
    for path in (folder.composed, folder.written):
        if is_local(path):
            path.mkdir(parents=True, exist_ok=True)
    done = listed(folder.written)
    missing = {at for at in amounts if mark_path(folder.written, *at).name not in done}
    pieces = (
        (number, shard, amounts[number, shard.index])
        for number, shard in (context.shards() if missing else ())
        if (number, shard.index) in missing
    )
    job = WriteComposed(
        **context.cleaning(), unit=context.recipe.unit, out=folder.composed, done=folder.written
    )
    with context.stage("write"):
        for documents in context.running.map(job, pieces):
            context.running.progress.advance(0, documents)
    return _written_amounts(folder, list(amounts))


def _written_amounts(folder: ComposeFolder, written: list[tuple[int, int]]) -> Amounts:
    amounts: dict[tuple[int, int], NDArray[np.int64]] = {}
    marks = read_many([mark_path(folder.written, *at) for at in written])
    for (number, _), mark in zip(written, marks, strict=True):
        for language, sums in json.loads(mark).items():
            at = number, int(language)
            amounts[at] = amounts.get(at, np.zeros(3, np.int64)) + np.array(sums, np.int64)
    return {at: (int(v[0]), int(v[1]), int(v[2])) for at, v in sorted(amounts.items())}


def _write_rejects(context: ComposeContext, shards: list[int]) -> None:
    with writing(context.folder.path / "rejects.jsonl") as out:
        for number, seen in headers(context, shards):
            name = context.recipe.sources[number].name
            file = context.names[number][seen["file"]]
            for row, byte, reason in seen["rejects"]:
                line = {"source": f"{name}/{file}", "row": row, "byte": byte, "reason": reason}
                out.write(orjson.dumps(line) + b"\n")


def _manifest(
    context: ComposeContext, read: dict[str, Any], selection: Taking, amounts: Amounts
) -> dict[str, Any]:
    recipe, languages = context.recipe, by_language(context.recipe, selection.shares, amounts)
    taken = sum(row["sentences" if recipe.unit == SENTENCES else "tokens"] for row in languages)
    return {
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "command": "compose",
        "recipe": dataclasses.asdict(recipe),
        "corpus": {
            source.name: [source_as_dict(file) for file in files]
            for source, files in zip(recipe.sources, context.sources, strict=True)
        },
        "counts": read["counts"],
        "copies": {"same_language": selection.copies, "other_language": selection.elsewhere},
        "budget": {"asked": recipe.budget, "taken": taken, "unit": recipe.unit},
        "languages": languages,
        "kinds": by_kind(recipe, amounts),
        "warnings": context.warnings,
        "seconds": context.seconds,
        "workers": context.running.engine.workers,
    }
