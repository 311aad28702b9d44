"""The command `compose`: builds one corpus from sources in several languages."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import Machine
from corpusfit import text as corpus
from corpusfit.contracts import bad_setting, write_bytes
from corpusfit.core.artifacts import is_local, names_in, read_arrays, read_many, writing
from corpusfit.core.errors import changed_input
from corpusfit.core.manifest import (
    Finished,
    locked,
    source_as_dict,
    source_identity,
    versions,
    warn_if_disk_is_small,
)
from corpusfit.core.types import Document, Shard, Source, file_of, in_file
from corpusfit.scoring import registry
from corpusfit.text import rows
from corpusfit.text.context import Run
from corpusfit_papers.mixing.amounts import Pool, Share, Taking, decide
from corpusfit_papers.mixing.plan import KINDS, RANDOM, SENTENCES, CompositionPlan
from corpusfit_papers.mixing.surveying import (
    LOOK,
    Cleaning,
    ComposeContext,
    ComposeFolder,
    Places,
    by_chance,
    headers,
    pool,
    relevant,
    seen_of,
    surveyed,
    surveyed_path,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Documents, sentences and word pieces by the numbers of source and language.
Amounts = Mapping[tuple[int, int], tuple[int, int, int]]
_COUNTED = ("documents", "sentences", "tokens")
_COMPRESSED = 0.4  # stored bytes per character of text, roughly
_LEVEL = 3  # of compression


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
        # first pass: clean every document, and store sizes and hashes instead of text
        read = surveyed(context)
        places, texts = pool(context, read["shards"], relevant)
        selection, share = _decided(context, texts)
        warn_if_disk_is_small(folder, context.size * share, running.progress)
        # second pass: clean again, and write what was decided
        amounts = _write(context, places, selection)
        with writing(out / "rejects.jsonl") as rejects:
            for number, seen in headers(context, read["shards"]):
                name = context.recipe.sources[number].name
                files = context.names[number]
                for row, byte, reason in seen["rejects"]:
                    file = f"{name}/{files[seen['file'] + file_of(row)]}"
                    line = {"source": file, "row": in_file(row), "byte": byte, "reason": reason}
                    rejects.write(orjson.dumps(line) + b"\n")
        recipe = context.recipe
        languages = _by_language(recipe, selection.shares, amounts)
        column = "sentences" if recipe.unit == SENTENCES else "tokens"
        selected_amount = sum(row[column] for row in languages)
        manifest = {
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
            "budget": {"asked": recipe.budget, "taken": selected_amount, "unit": recipe.unit},
            "languages": languages,
            "kinds": _by_kind(recipe, amounts),
            "warnings": context.warnings,
            "seconds": context.seconds,
            "workers": running.engine.workers,
        }
        folder.finish(manifest)
    return Composition(out, json.loads((out / "manifest.json").read_text("utf-8")))


def estimate_composition(recipe: CompositionPlan, *, machine: Machine) -> dict[str, Any]:
    """Estimate `compose`: reads all texts, scores none and writes nothing."""
    _check_methods(recipe)
    with machine.running() as running:
        context = _open(recipe, ComposeFolder(running.work), running)
        # first pass: clean every document, and store sizes and hashes instead of text
        read = surveyed(context)
        _, texts = pool(context, read["shards"], by_chance)
        selection, share = _decided(context, texts)
        characters = sum(c["characters"] for c in read["counts"].values())
        return {
            "languages": _by_language(recipe, selection.shares, {}),
            "counts": read["counts"],
            "documents": int((selection.amounts > 0).sum()),
            "taken": sum(s.total for s in selection.shares),
            "unit": recipe.unit,
            "seconds": round(context.seconds[LOOK] * (1 + share), 1),
            "disk_mb": round(characters * share * _COMPRESSED / 1e6, 1),
            "warnings": context.warnings,
        }


def _check_methods(recipe: CompositionPlan) -> None:
    """Raise `UnknownMethodError` for a source whose `choose` is not a method."""
    for source in recipe.sources:
        if source.choose != RANDOM:
            registry.build(source.choose, {})


def _open(recipe: CompositionPlan, folder: ComposeFolder, running: Run) -> ComposeContext:
    """Find the files of the sources."""
    sources: list[list[Source]] = []
    targets: dict[str, str] = {}
    for source in recipe.sources:
        files = running.find(source.path, source.read, f"source {source.name}: path")
        if corpus.is_parallel(files) and corpus.sides(files)[1] == source.language:
            allowed = f"pairs whose first text is in {source.language}, which is read"
            cure = "Name their files in the other order, as pair:FILE.en,FILE.de."
            patterns = ", ".join(source.path)
            raise bad_setting(f"source {source.name!r}: path", allowed, patterns, cure)
        for file in files if source.page and source.language_field else ():
            if not corpus.load_format(file.format).cut_by_text:
                raise bad_setting(
                    f"source {source.name!r}: page",
                    f"left out with language_field for {file.format} files",
                    source.page,
                    "Their shards are cut by all that is read.",
                )
        sources.append(files)
        if source.target:
            wanted = running.find(source.target, source.read, f"source {source.name}: target")
            targets |= {f"{source.name}/{k}": v for k, v in source_identity(wanted).items()}
    notes = list(running.warnings)
    return ComposeContext(recipe, running, folder, sources, targets, warnings=notes)


def _identity(context: ComposeContext) -> dict[str, Any]:
    """What must be the same for a composition to be resumed."""
    recipe = dataclasses.asdict(context.recipe)
    del recipe["sources"]
    survey = seen_of(context)
    files = {
        f"{name}/{file}": fingerprint
        for name, source in survey["sources"].items()
        for file, fingerprint in source.pop("files").items()
    }
    recipe["sources"] = {
        source.name: {
            **survey["sources"][source.name],
            "kind": source.kind,
            "choose": source.choose,
            "embedder": source.embedder,
        }
        for source in context.recipe.sources
    }
    return {
        "command": "compose",
        "recipe": recipe,
        "order": survey["order"],
        "versions": survey["versions"],
        "corpus": files,
        "target": context.targets,
    }


def _decided(context: ComposeContext, texts: Pool) -> tuple[Taking, float]:
    """What is taken, also as a share of all texts' word pieces or sentences, at most 1."""
    selection = decide(texts, context.recipe)
    for note in selection.notes:
        context.warn(note)
    return selection, min(1.0, float(selection.amounts.sum() / max(1, texts.size.sum())))


def _write(context: ComposeContext, places: Places, selection: Taking) -> Amounts:
    """Write what is taken of every unwritten shard; returns the amounts of all shards."""
    folder = context.folder
    begin = 0
    amounts: dict[tuple[int, int], NDArray[np.int64]] = {}
    for number, index, n in places:
        if selection.amounts[begin : begin + n].any():
            amounts[number, index] = selection.amounts[begin : begin + n]
        begin += n
    for path in (folder.composed, folder.written):
        if is_local(path):
            path.mkdir(parents=True, exist_ok=True)
    # a mark is written after the text, so a shard without one is written again
    done = names_in(folder.written)
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
    written: dict[tuple[int, int], NDArray[np.int64]] = {}
    marks = read_many([mark_path(folder.written, *at) for at in amounts])
    for (number, _), mark in zip(amounts, marks, strict=True):
        for language, sums in json.loads(mark).items():
            at = number, int(language)
            written[at] = written.get(at, np.zeros(3, np.int64)) + np.array(sums, np.int64)
    return {at: (int(v[0]), int(v[1]), int(v[2])) for at, v in sorted(written.items())}


def _by_language(
    recipe: CompositionPlan, shares: Sequence[Share], amounts: Amounts
) -> list[dict[str, Any]]:
    """One row per language: its `Share`, its total, and the amounts by source.

    Reference: mDAPT, Tables 8 and 9.
    """
    rows = []
    for number, share in enumerate(shares):
        by_source = {
            recipe.sources[s].name: dict(zip(_COUNTED, counts, strict=True))
            for (s, language), counts in sorted(amounts.items())
            if language == number
        }
        sums = {name: sum(counts[name] for counts in by_source.values()) for name in _COUNTED}
        rows.append(
            {**dataclasses.asdict(share), "total": share.total, "sources": by_source, **sums}
        )
    return rows


def _by_kind(recipe: CompositionPlan, amounts: Amounts) -> list[dict[str, Any]]:
    """One row per kind of text: languages, documents, sentences, tokens (mDAPT, Table 1)."""
    rows = []
    for kind in KINDS:
        of_kind = {k: v for k, v in amounts.items() if recipe.sources[k[0]].kind == kind}
        sums = {name: sum(v[i] for v in of_kind.values()) for i, name in enumerate(_COUNTED)}
        languages = len({language for (_, language), v in of_kind.items() if v[1]})
        rows.append({"kind": kind, "languages": languages, **sums})
    return rows


def composed_path(folder: Path, source: int, shard: int) -> Path:
    """File of the text taken from a source's shard."""
    return folder / f"part-{source:03d}-{shard:05d}.jsonl.zst"


def mark_path(folder: Path, source: int, shard: int) -> Path:
    """Completion mark of a source's shard, with the amounts taken."""
    return folder / f"part-{source:03d}-{shard:05d}.json"


@dataclass(frozen=True)
class WriteComposed(Cleaning):
    """Write an amount of each surveyed document of a shard, int64 [n]."""

    unit: str  # unit of the amounts
    folder: Path  # folder of the survey
    out: Path  # folder of the text
    done: Path  # folder of the marks

    def __call__(self, piece: tuple[int, Shard, NDArray[np.int64]]) -> int:
        """Write; returns the number of documents."""
        # leaves a mark: documents, sentences and word pieces, by number of the language
        number, shard, amounts = piece
        source = self.sources[number]
        survey, _ = read_arrays(surveyed_path(self.folder, number, shard.index))
        wanted = np.flatnonzero(amounts)
        documents = {d.row: d for d in rows(shard, source.read) if isinstance(d, Document)}
        picked = survey["row"][wanted].tolist()
        files = [self.names[number][shard.source + file_of(row)] for row in picked]
        # the amounts fit only the text that was surveyed
        for row, file in zip(picked, files, strict=True):
            if row not in documents:
                raise changed_input(file, "`overwrite`")
        languages = [self.languages[i] for i in survey["language"][wanted].tolist()]
        cleaned = self.clean(number, [documents[row].text for row in picked], languages)
        counts, pieces = cleaned.sums(len(picked))
        for name, sums in (("sentences", counts), ("pieces", pieces)):
            unlike = np.flatnonzero(sums != survey[name][wanted])
            if len(unlike):
                raise changed_input(files[unlike[0]], "`overwrite`")
        texts = cleaned.texts.to_pylist()
        begins = np.cumsum(counts) - counts
        sizes = counts if self.unit == SENTENCES else pieces
        totals: dict[int, list[int]] = {}
        buffer = io.BytesIO()
        for i, (row, code) in enumerate(zip(picked, languages, strict=True)):
            begin = int(begins[i])
            n = int(counts[i])
            times, rest = divmod(int(amounts[wanted[i]]), int(sizes[i]))
            parts = [(n, int(pieces[i]))] * times
            if rest:  # cut the document to the amount
                through = np.cumsum(cleaned.pieces[begin : begin + n], dtype=np.int64)
                k = rest
                if self.unit != SENTENCES:
                    k = int(np.searchsorted(through, rest, side="right"))
                parts += [(k, int(through[k - 1]))] if k else []
            for k, tokens in parts:
                line: dict[str, Any] = {"text": "\n".join(texts[begin : begin + k])}
                line |= {"language": code, "kind": source.kind}
                line |= {"source": f"{source.name}/{files[i]}", "row": in_file(row)}
                buffer.write(orjson.dumps(line) + b"\n")
                total = totals.setdefault(self.languages.index(code), [0, 0, 0])
                for j, more in enumerate((1, k, tokens)):
                    total[j] += more
        if buffer.tell():
            data = zstd.compress(buffer.getvalue(), _LEVEL)
            write_bytes(composed_path(self.out, number, shard.index), data)
        mark = orjson.dumps({str(language): total for language, total in totals.items()})
        write_bytes(mark_path(self.done, number, shard.index), mark)
        return sum(total[0] for total in totals.values())
