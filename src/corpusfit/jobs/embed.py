"""Jobs that encode: a shard of the corpus into the vector store, or a few texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpusfit.embed import load, wants_gpu
from corpusfit.embed.store import VectorStore
from corpusfit.engine import Job, counting
from corpusfit.jobs.reading import Tally, read_units
from corpusfit.plan import CutPlan, EmbedPlan, ReadPlan
from corpusfit.types import Shard, Vectors


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
    """Encode numbered batches of texts."""

    embed: EmbedPlan
    cache: Path

    @property
    def encodes(self) -> bool:
        """Whether the embedder is a network."""
        return wants_gpu(self.embed)

    def start(self) -> Callable[[tuple[int, list[str]]], tuple[int, Vectors]]:
        """Load the encoder."""
        encoder = load(self.embed, self.cache)
        return lambda piece: (piece[0], encoder.encode(piece[1], counting(len(piece[1]))))
