"""Documents, targets and vectors behind the papers' tables, drawn with a seed and cached.

Every table uses the same documents. A document is represented by its first words, so that a table
takes minutes; file names are approximate domains, so the results compare methods.
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

from corpusfit import text as corpus
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import Paired, Vectors, text_array
from corpusfit.embed import load, prepare
from corpusfit.text.context import default_cache

ENCODERS = ("minilm", "static")
WORDS = 60
"""First words of a document that represent it."""

TARGETS = {
    "ChemProt": ("chemprot", "", "bio_"),
    "SciERC": ("scierc", "", "cs_"),
    "ACL-ARC": ("acl_arc", "", "cs_"),
    "SST-2": ("sst2", "", "reviews_"),
    "AG News World": ("ag_news", "World", "news_"),
    "AG News Business": ("ag_news", "Business", "finance_"),
    "Financial PhraseBank": ("financial_phrasebank", "", "finance_"),
}
"""Task, label if only its texts are used, and prefixes of the files of the true domain."""


@dataclass(frozen=True)
class Setting:
    """What a run of the tables was asked for; it travels to every worker.

    Attributes:
        tasks: TASK/{train,dev,test}.jsonl.zst, rows with `text` and `label`.
        pile: DOMAIN_*.jsonl(.zst), rows with `text`.
        parallel: DOMAIN/dev.en, one sentence per line.
        documents: most documents of each source.
        target: most texts of a target.
        background: most documents to fit a method on.
        seeds: number of seeds.
        finetune: whether to fine-tune an encoder for every target, minutes each on a CPU.
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
    """Sorted indices of at most the given number of n, drawn with the seed."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def first_words(text: str, most: int = WORDS) -> str:
    """The beginning of a text, words separated by single spaces."""
    return " ".join(text.split()[:most])


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines, plain or compressed."""
    with path.open("rb") as f:
        plain = zstandard.ZstdDecompressor().stream_reader(f) if path.suffix == ".zst" else f
        for line in io.BufferedReader(plain):
            yield orjson.loads(line)


def source_files(s: Setting) -> dict[str, Path]:
    """The pile's files by source, in order."""
    found = sorted(p for p in s.pile.iterdir() if p.name.endswith((".jsonl", ".jsonl.zst")))
    return {p.name.split(".")[0]: p for p in found}


def source_texts(s: Setting, source: str, words: int = WORDS) -> list[str]:
    """The beginnings of the documents of a source that all tables use."""
    texts = _whole(source_files(s)[source])
    return [first_words(texts[i], words) for i in drawn(len(texts), s.documents, 0)]


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
    """Distinct texts of a task (of one label, if given), normalized as in a run, with labels."""
    raw: dict[str, Any] = {}
    for row in rows(s.tasks / task / f"{part}.jsonl.zst"):
        if not label or row["label"] == label:
            raw.setdefault(row["text"], row["label"])
    found: dict[str, Any] = {}
    for text, its in raw.items():
        found.setdefault(corpus.normalize(text), its)
    found.pop("", None)
    return found


def target_texts(s: Setting, name: str, seed: int) -> list[str]:
    """The texts of a target, drawn with a seed."""
    task, label, _ = TARGETS[name]
    texts = list(task_rows(s, task, label))
    return [texts[i] for i in drawn(len(texts), s.target, seed)]


def target(s: Setting, name: str, seed: int, embedder: str) -> Paired:
    """The same as input of methods."""
    return paired(target_texts(s, name, seed), embedder)


def paired(texts: list[str], embedder: str) -> Paired:
    """Texts with their vectors; without an embedder [n, 0]."""
    empty = np.empty((len(texts), 0), np.float32)
    return Paired(text_array(texts), vectors(texts, embedder) if embedder else empty)


def joined(first: Paired, second: Paired) -> Paired:
    """Concatenated inputs."""
    texts = [*first.texts.to_pylist(), *second.texts.to_pylist()]
    return Paired(text_array(texts), np.concatenate([first.vectors, second.vectors]))


def vectors(texts: list[str], embedder: str | EmbedPlan) -> Vectors:
    """Embeddings, float32 [n, d], encoded once and then found in the cache."""
    plan = EmbedPlan(embedder=embedder) if isinstance(embedder, str) else embedder
    kept = vectors_file(texts, plan)
    if not kept.exists():
        encoded = _encoder(plan).encode(texts)
        write_arrays(kept, {"vectors": encoded}, {"embedder": plan.embedder})
    found: Vectors = read_arrays(kept)[0]["vectors"]
    return found


def vectors_file(texts: list[str], plan: EmbedPlan) -> Path:
    """Path of the cached vectors, named by the encoder's fingerprint and the texts."""
    content = hashlib.sha256(orjson.dumps([_fingerprint(plan), texts])).hexdigest()
    return default_cache() / "papers" / f"{content}.safetensors"


@functools.cache
def _fingerprint(plan: EmbedPlan) -> str:
    return prepare(plan)


@functools.cache
def _encoder(plan: EmbedPlan) -> Any:
    return load(plan)
