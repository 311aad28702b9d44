"""What the papers' tables are measured on: documents, targets, and their vectors.

What: a seeded draw of each source's documents (their beginnings), of each task's texts, and their
embeddings, kept in the user's cache by content.
Why: every table looks at the same documents, so that they can be read beside each other; encoding
is most of the work, and the second run finds it done.
Trade-off: a document is judged by its first words, so that a table takes minutes; a source's file
name is a coarse truth, so figures compare methods, they do not grade them.
"""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.artifacts import read_arrays, write_arrays
from corpusfit.embed import load, prepare
from corpusfit.pipeline.run import default_cache
from corpusfit.plan import EmbedPlan
from corpusfit.types import Paired, Vectors, text_array

ENCODERS = ("minilm", "static")
WORDS = 60
"""Words of a document that are looked at, from its beginning."""

TARGETS = {
    "ChemProt": ("chemprot", "", "bio_"),
    "SciERC": ("scierc", "", "cs_"),
    "ACL-ARC": ("acl_arc", "", "cs_"),
    "SST-2": ("sst2", "", "reviews_"),
    "AG News World": ("ag_news", "World", "news_"),
    "AG News Business": ("ag_news", "Business", "finance_"),
    "Financial PhraseBank": ("financial_phrasebank", "", "finance_"),
}
"""Task, label if only texts of one are taken, and how the files of the true domain begin."""


@dataclass(frozen=True)
class Setting:
    """What a run of the tables was asked for; it travels to every worker.

    Attributes:
        tasks: TASK/{train,dev,test}.jsonl.zst, rows with `text` and `label`.
        pile: DOMAIN_*.jsonl(.zst), rows with `text`.
        parallel: DOMAIN/dev.en, a sentence a line.
        documents: of each source, at most.
        target: texts of a target, at most.
        background: documents that a method is fitted on, at most.
        seeds: how many.
        finetune: also what fine-tunes an encoder for every target, minutes each on a CPU.
    """

    tasks: Path
    pile: Path
    parallel: Path
    documents: int
    target: int
    background: int
    seeds: int
    finetune: bool


def drawn(n: int, most: int, seed: int) -> NDArray[np.int64]:
    """Places of at most so many of n, drawn by the seed, increasing."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def first_words(text: str, most: int = WORDS) -> str:
    """The beginning of a text, its words one blank apart."""
    return " ".join(text.split()[:most])


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines, packed or not."""
    with path.open("rb") as f:
        plain = zstandard.ZstdDecompressor().stream_reader(f) if path.suffix == ".zst" else f
        for line in io.BufferedReader(plain):
            yield orjson.loads(line)


def source_files(s: Setting) -> dict[str, Path]:
    """The pile's files by source, in order."""
    found = sorted(p for p in s.pile.iterdir() if p.name.endswith((".jsonl", ".jsonl.zst")))
    return {p.name.split(".")[0]: p for p in found}


def source_texts(s: Setting, source: str, words: int = WORDS) -> list[str]:
    """The beginnings of the documents of a source that all tables look at."""
    texts = _whole(source_files(s)[source])
    return [first_words(texts[i], words) for i in drawn(len(texts), s.documents, 0)]


def other_texts(s: Setting, source: str, most: int) -> list[str]:
    """The beginnings of documents of a source that no table looks at."""
    texts = _whole(source_files(s)[source])
    order = np.random.default_rng(0).permutation(len(texts))
    return [first_words(texts[i]) for i in np.sort(order[s.documents : s.documents + most])]


def _whole(path: Path) -> list[str]:
    return [row["text"] for row in rows(path) if row["text"].strip()]


@functools.cache
def documents(s: Setting) -> tuple[list[str], NDArray[np.str_]]:
    """The n documents and the source of each, [n]."""
    by_source = {source: source_texts(s, source) for source in source_files(s)}
    names = [source for source, texts in by_source.items() for _ in texts]
    return [text for texts in by_source.values() for text in texts], np.array(names)


@functools.cache
def units(s: Setting, embedder: str) -> Paired:
    """The n documents as every method reads them; without an embedder their vectors are empty."""
    texts, sources = documents(s)
    places = [np.flatnonzero(sources == source) for source in source_files(s)]
    parts = [paired([texts[i] for i in at], embedder).vectors for at in places]
    return Paired(text_array(texts), np.concatenate(parts))


def inside(s: Setting, prefix: str) -> NDArray[np.bool_]:
    """Whether each document is of a domain, bool [n]."""
    return np.char.startswith(documents(s)[1], prefix)


@functools.cache
def task_rows(s: Setting, task: str, label: str = "", part: str = "train") -> dict[str, Any]:
    """Different texts of a task (of one label, if given), normalised as a run does, with labels."""
    raw: dict[str, Any] = {}
    for row in rows(s.tasks / task / f"{part}.jsonl.zst"):
        if not label or row["label"] == label:
            raw.setdefault(row["text"], row["label"])
    found: dict[str, Any] = {}
    for text, its in raw.items():
        found.setdefault(corpus.normalise(text), its)
    found.pop("", None)
    return found


def target_texts(s: Setting, name: str, seed: int) -> list[str]:
    """The texts of a target that a seed draws."""
    task, label, _ = TARGETS[name]
    texts = list(task_rows(s, task, label))
    return [texts[i] for i in drawn(len(texts), s.target, seed)]


def target(s: Setting, name: str, seed: int, embedder: str) -> Paired:
    """The same as methods read them."""
    return paired(target_texts(s, name, seed), embedder)


def paired(texts: list[str], embedder: str) -> Paired:
    """Texts with their vectors; without an embedder [n, 0]."""
    empty = np.empty((len(texts), 0), np.float32)
    return Paired(text_array(texts), vectors(texts, embedder) if embedder else empty)


def joined(first: Paired, second: Paired) -> Paired:
    """One after the other."""
    texts = [*first.texts.to_pylist(), *second.texts.to_pylist()]
    return Paired(text_array(texts), np.concatenate([first.vectors, second.vectors]))


def vectors(texts: list[str], embedder: str) -> Vectors:
    """Embeddings, float32 [n, d], encoded once and then found in the cache."""
    kept = vectors_file(texts, embedder)
    if not kept.exists():
        encoded = _encoder(embedder).encode(texts)
        write_arrays(kept, {"vectors": encoded}, {"embedder": embedder})
    found: Vectors = read_arrays(kept)[0]["vectors"]
    return found


def vectors_file(texts: list[str], embedder: str) -> Path:
    """Where they are kept: named by the encoder's fingerprint and the texts."""
    content = hashlib.sha256(orjson.dumps([_fingerprint(embedder), texts])).hexdigest()
    return default_cache() / "papers" / f"{content}.safetensors"


@functools.cache
def _fingerprint(embedder: str) -> str:
    return prepare(EmbedPlan(embedder=embedder), default_cache())


@functools.cache
def _encoder(embedder: str) -> Any:
    return load(EmbedPlan(embedder=embedder), default_cache())
