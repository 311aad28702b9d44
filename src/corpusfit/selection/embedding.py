"""Embeds a corpus or a sample of it, and assigns the corpus's segments to clusters."""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.artifacts import names_in, read_arrays, remove, write_arrays, write_bytes
from corpusfit.core.engine import Job, counting
from corpusfit.core.errors import ChangedInputError, InputError, changed_input
from corpusfit.core.manifest import digest, read_kept, source_identity
from corpusfit.core.plan import CutPlan, EmbedPlan, ReadPlan
from corpusfit.core.types import Shard, Vectors
from corpusfit.embed import (
    Encoder,
    commit,
    feeds,
    has_network,
    is_of_hub,
    load,
    prepare,
    wants_gpu,
)
from corpusfit.embed.store import VectorStore
from corpusfit.scoring.clusters import Assign, assigned_path
from corpusfit.selection.fit import Sample
from corpusfit.text.context import Run, at_commit
from corpusfit.text.input import Input
from corpusfit.text.reading import Reasons, Tally, read_units

RECIPE = 4
"""Raised when reading or cutting changes, so that older embeddings are not reused."""
_BATCH = 128


def open_encoder(plan: EmbedPlan) -> Encoder:
    """The encoder of a plan in this process; a model of the hub is downloaded."""
    prepare(plan)
    if is_of_hub(plan.embedder):
        plan = at_commit(plan, {plan.embedder: commit(plan.embedder)})
    return load(plan)


def embed_corpus(
    run: Run, texts: Input, cut: CutPlan, embed: EmbedPlan, encoder: str | None
) -> tuple[Path, list[int]]:
    """Encode what is not in the store yet; returns the store and the number of units by shard."""
    # The store is in the cache, by content, so that other runs and methods find it.
    identity = {
        "recipe": [RECIPE, unicodedata.unidata_version],
        "sources": source_identity(texts.sources),
        "read": texts.read.identity(),
        "cut": [cut.unit, cut.most],
        "encoder": encoder,
        **corpus.layout(texts.sources, texts.read),
    }
    folder = run.cache / "embeddings" / digest(identity)
    store = VectorStore(folder)
    complete = folder / "complete.json"
    counts: list[int] | None = read_kept(complete, lambda value: {int} == set(map(type, value)))
    if counts is not None and store.finished().issuperset(range(len(counts))):
        return folder, counts
    # vectors of files that changed since they were fingerprinted would poison the cache, also
    # those of an interrupted run
    states = folder / "states.json"
    now = json.dumps([source.state for source in texts.sources])
    if not states.exists() or states.read_text("utf-8") != now:
        remove(folder)
        write_bytes(states, now.encode())
    job = EmbedShards(texts.read, cut, embed, folder, texts.names)
    rejected = Reasons()
    units = {}
    try:
        for shard, tally in run.over_shards("embed", texts, job, store.finished().__contains__):
            units[shard] = tally.units
            rejected.add(tally.rejects.counts())
            run.progress.advance(0, tally.units)
        if changed := corpus.changed(texts.sources, everywhere=True):
            raise changed_input(changed.name)
    except (InputError, ChangedInputError):
        remove(folder)
        raise
    # shards that an interrupted run has stored
    for shard in range(run.shard_count):
        if shard not in units:
            tally = Tally.stored(store.tally(shard))
            units[shard] = tally.units
            rejected.add(tally.rejects.counts())
    if not sum(units.values()):
        raise texts.nothing_read(rejected)
    counts = [units[i] for i in range(run.shard_count)]
    write_bytes(complete, json.dumps(counts).encode())
    write_bytes(folder / "about.json", json.dumps(identity, indent=1).encode())
    return folder, counts


def add_vectors(run: Run, sample: Sample, embed: EmbedPlan) -> None:
    """Encode a sample's texts; the vectors go beside these."""
    texts = sample.read_texts()
    pieces = [(i, texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
    job = EmbedTexts(embed, run.cache if has_network(embed.embedder) else None)
    vectors_of = dict(run.over(f"embed {sample.name}", job, pieces))
    vectors = np.concatenate([vectors_of[i] for i, _ in pieces])
    write_arrays(sample.vectors, {"vectors": vectors}, {})


def assign(
    run: Run,
    texts: Input,
    cut: CutPlan,
    embed: EmbedPlan,
    encoder: str | None,
    domains: Path,
    out: Path,
) -> int:
    """Write the shares of each cluster in every segment of the corpus, as `part-N.parquet`."""
    store, counts = embed_corpus(run, texts, cut, embed, encoder)
    job = Assign(domains, store, texts.names, cut.gamma, out)
    done = names_in(out)
    missing = [i for i in range(len(counts)) if assigned_path(out, i).name not in done]
    for _ in run.over("assign", job, missing):
        pass
    return len(counts)


@dataclass(frozen=True)
class EmbedShards(Job[Shard, tuple[int, Tally]]):
    """Read, cut and encode a shard into the store; returns its number.

    Batches are cut from the shard's own units, so that its vectors do not depend on the worker.
    """

    read: ReadPlan
    cut: CutPlan
    embed: EmbedPlan
    store: Path
    names: tuple[str, ...]

    @property
    def encodes(self) -> bool:
        return wants_gpu(self.embed)

    @property
    def devices(self) -> Callable[[], tuple[str, ...]] | None:
        return feeds(self.embed)

    def start(self) -> Callable[[Shard], tuple[int, Tally]]:
        encoder = load(self.embed)
        store = VectorStore(self.store)

        def work(shard: Shard) -> tuple[int, Tally]:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            vectors = encoder.encode(texts, counting(len(texts)))
            store.write(shard.index, units, vectors, tally.as_dict())
            return shard.index, tally

        return work


@dataclass(frozen=True)
class EmbedTexts(Job[tuple[int, list[str]], tuple[int, Vectors]]):
    """Encode numbered batches of texts."""

    embed: EmbedPlan
    # where each batch is kept, by its texts, for commands to come and for this one if it is killed
    cache: Path | None = None

    @property
    def encodes(self) -> bool:
        return wants_gpu(self.embed)

    @property
    def devices(self) -> Callable[[], tuple[str, ...]] | None:
        return feeds(self.embed)

    def start(self) -> Callable[[tuple[int, list[str]]], tuple[int, Vectors]]:
        encoder = functools.cache(lambda: load(self.embed))
        fingerprint = prepare(self.embed) if self.cache is not None else ""

        def encoded(texts: list[str]) -> Vectors:
            return encoder().encode(texts, counting(len(texts)))

        def work(piece: tuple[int, list[str]]) -> tuple[int, Vectors]:
            number, texts = piece
            if self.cache is None:
                return number, encoded(texts)
            path = self.cache / "samples" / f"{digest([fingerprint, texts])}.safetensors"
            if not path.exists():
                write_arrays(path, {"vectors": encoded(texts)}, {})
            vectors: Vectors = read_arrays(path)[0]["vectors"]
            return number, vectors

        return work
