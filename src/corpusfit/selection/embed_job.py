"""Jobs that encode: a shard of the corpus into the vector store, or a few texts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Job, counting
from corpusfit.core.manifest import digest
from corpusfit.core.plan import CutPlan, EmbedPlan, ReadPlan
from corpusfit.core.types import Shard, Vectors
from corpusfit.embed import load, prepare, wants_gpu
from corpusfit.embed.store import VectorStore
from corpusfit.text.reading import Tally, read_units


@dataclass(frozen=True)
class EmbedShards(Job[Shard, tuple[int, Tally]]):
    """Read, cut and encode a shard into the store; returns its number.

    Batches are cut from the shard's own units, so that its vectors do not depend on the worker.
    """

    read: ReadPlan
    cut: CutPlan
    embed: EmbedPlan
    cache: Path
    store: Path
    names: tuple[str, ...]

    @property
    def encodes(self) -> bool:
        """Whether the embedder is a network."""
        return wants_gpu(self.embed)

    def start(self) -> Callable[[Shard], tuple[int, Tally]]:
        """Load the encoder."""
        encoder, store = load(self.embed, self.cache), VectorStore(self.store)

        def work(shard: Shard) -> tuple[int, Tally]:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            vectors = encoder.encode(texts, counting(len(texts)))
            store.write(shard.index, units, vectors, tally.as_dict())
            return shard.index, tally

        return work


@dataclass(frozen=True)
class EmbedTexts(Job[tuple[int, list[str]], tuple[int, Vectors]]):
    """Encode numbered batches of texts.

    Attributes:
        kept: whether the cache keeps each batch, by its texts, for commands to come and for this
            one if it is killed.
    """

    embed: EmbedPlan
    cache: Path
    kept: bool = False

    @property
    def encodes(self) -> bool:
        """Whether the embedder is a network."""
        return wants_gpu(self.embed)

    def start(self) -> Callable[[tuple[int, list[str]]], tuple[int, Vectors]]:
        """Load the encoder when the first batch needs it."""
        encoder = functools.cache(lambda: load(self.embed, self.cache))
        fingerprint = prepare(self.embed, self.cache) if self.kept else ""

        def encoded(texts: list[str]) -> Vectors:
            return encoder().encode(texts, counting(len(texts)))

        def work(piece: tuple[int, list[str]]) -> tuple[int, Vectors]:
            number, texts = piece
            if not self.kept:
                return number, encoded(texts)
            path = self.cache / "samples" / f"{digest([fingerprint, texts])}.safetensors"
            if not path.exists():
                write_arrays(path, {"vectors": encoded(texts)}, {})
            vectors: Vectors = read_arrays(path)[0]["vectors"]
            return number, vectors

        return work
