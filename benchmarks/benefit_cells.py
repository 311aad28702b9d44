"""One cell of benchmarks/benefit.py: a target, a method and a seed, from texts to the loss.

Inputs are made once in a work folder: the seed's third of the corpus, and each target's texts.
"""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard

import corpusfit
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.types import buffers, text_array
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.kernels.backoff import log_probabilities
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.labeled.formats.conll import read_conll
from corpusfit.ranking.ranking import candidates
from corpusfit.text import normalize
from corpusfit.text.context import Machine
from corpusfit.text.same_text import folded, form_of, text_keys
from peers import PEERS, Peer, peer_of

TARGETS = {
    "acl_arc": "cs_",
    "scierc": "cs_",
    "hyperpartisan": "news_",
    "chemprot": "bio_",
    "sst2": "reviews_",
    "financial_phrasebank": "finance_",
    "ag_news:Business": "finance_",
    "ag_news:Sci/Tech": "news_",
    "ncbi_disease": "bio_",
    "imdb": "reviews_",
}
"""A task, or one label of it, and the prefix of the sources of its domain."""

SHARE = 0.02
ORDER = 3
PARTS = 3
TRAIN = 2_000
DEV = 1_000
HELDOUT = 512
ONE = Machine(workers=1)


@dataclass(frozen=True)
class Work:
    """Where the inputs are made, and what from.

    Attributes:
        data: folder with pile/, tasks/ and ner/.
        model: the model to adapt.
        folder: what is made here is found again by a later run.
        steps: training steps of every cell.
    """

    data: Path
    model: Path
    folder: Path
    steps: int

    def corpus(self, seed: int) -> Path:
        """The seed's third of the corpus: documents of each source with that rest by three."""
        folder = self.folder / f"third-{seed % PARTS}"
        for path in sorted((self.data / "pile").glob("*.jsonl.zst")):
            made = folder / path.name.removesuffix(".zst")
            if not made.exists():
                kept = [s for i, s in enumerate(lines(path)) if i % PARTS == seed % PARTS]
                write_bytes(made, b"".join(kept))
        return folder

    def documents(self, seed: int) -> dict[str, list[str]]:
        """Texts of the seed's corpus by source, one for every row."""
        found = sorted(self.corpus(seed).glob("*.jsonl"))
        return {p.name: texts_of(p) for p in found}

    def facts(self, seed: int) -> dict[str, int]:
        """Words of the seed's corpus, and the number of different words as n-gram models count."""
        words = 0
        known = np.empty(0, np.uint64)
        for texts in self.documents(seed).values():
            words += sum(len(text.split()) for text in texts)
            identities = number_words(*buffers(text_array(texts)), characters(), False)[1]
            known = np.union1d(known, identities)
        return {"words": words, "vocabulary": len(known)}

    def target(self, name: str, seed: int) -> Target:
        """The target's texts; made unless they exist."""
        folder = self.folder / f"{name.replace('/', '_').replace(':', '-')}-{seed}"
        found = Target(folder)
        if not (folder / "facts.json").exists():
            train, dev = (self.different(name, part) for part in ("train", "dev"))
            apart = dev_apart(dev, train)
            drawn = some(apart, DEV, seed)
            clean = self.unseen(drawn, seed)
            facts = {"dev": len(dev), "in_train": len(dev) - len(apart), "evaluated": len(clean)}
            facts |= {"in_corpus": len(drawn) - len(clean), "train": min(TRAIN, len(train))}
            store(found.train, some(train, TRAIN, seed))
            store(found.dev, clean)
            write_bytes(folder / "facts.json", orjson.dumps(facts))
        return found

    def unseen(self, texts: list[str], seed: int) -> list[str]:
        """The texts that no document of the seed's corpus contains."""
        return outside(texts, self.documents(seed))

    def different(self, name: str, part: str) -> list[str]:
        """Different texts of a split; those of dev as printed, without tokenisation and marks."""
        task, _, label = name.partition(":")
        if (sentences := self.data / "ner" / task / f"{part}.conll").exists():
            texts = [" ".join(words) for words in read_conll([str(sentences)], part).pieces]
        else:
            rows = map(orjson.loads, lines(self.data / "tasks" / task / f"{part}.jsonl.zst"))
            texts = [row["text"] for row in rows if not label or row["label"] == label]
        shown = [normalize(text) for text in texts]
        kept = np.sort(np.unique(text_keys(shown), return_index=True)[1])
        kept = [i for i in kept if form_of(folded(shown[i]))]
        return [(shown if part == "dev" else texts)[i] for i in kept]


@dataclass(frozen=True)
class Target:
    """A target's texts in a folder: `train` to select by, `dev` to judge on."""

    folder: Path

    @property
    def train(self) -> Path:
        """The target of the selection, as the task has it."""
        return self.folder / "train.jsonl"

    @property
    def dev(self) -> Path:
        """Unseen texts, normalized."""
        return self.folder / "dev.jsonl"

    @cached_property
    def facts(self) -> dict[str, int]:
        """Counts of texts."""
        found: dict[str, int] = orjson.loads((self.folder / "facts.json").read_bytes())
        return found


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, plain or zst."""
    with path.open("rb") as f:
        plain = zstandard.ZstdDecompressor().stream_reader(f) if path.suffix == ".zst" else f
        yield from io.BufferedReader(plain)


def store(path: Path, texts: list[str]) -> None:
    """Write texts as JSON lines."""
    write_bytes(path, b"".join(orjson.dumps({"text": text}) + b"\n" for text in texts))


def some(texts: list[str], most: int, seed: int) -> list[str]:
    """A seeded draw of at most so many texts, in their order."""
    drawn = np.random.default_rng(seed).permutation(len(texts))[:most]
    return [texts[i] for i in np.sort(drawn)]


def dev_apart(dev: list[str], train: list[str]) -> list[str]:
    """The dev texts whose letters and digits no train text has, after normalization."""
    seen = np.isin(text_keys(dev), text_keys(normalize(text) for text in train))
    return [dev[i] for i in np.flatnonzero(~seen)]


def outside(texts: list[str], documents: dict[str, list[str]]) -> list[str]:
    """The texts that no document contains."""
    finder = ContaminationFinder(HeldoutIndex.of_texts(texts))
    inside = set[int]()
    for found in documents.values():
        inside |= set(finder.find(text_array(found)).heldout.tolist())
    return [text for i, text in enumerate(texts) if i not in inside]


def measure(work: Work, name: str, method: str, seed: int, facts: dict[str, int]) -> dict[str, Any]:
    """Select, train the n-gram model, adapt; resumes where an earlier run was stopped.

    Args:
        work: where.
        name: the target, of `TARGETS`.
        method: a scoring method, or one of `PEERS`.
        seed: decides the third of the corpus, the target's texts, the fit, and the training.
        facts: of the corpus, by `Work.facts`.
    """
    cell, found = selected(work, name, method, seed, facts)
    adapted = corpusfit.adapt(
        model=str(work.model),
        data=cell / "selected.jsonl",
        task=work.target(name, seed).dev,
        out=cell / "adapted",
        max_steps=work.steps,
        batch=16,
        length=128,
        learning_rate=3e-4,
        seed=seed,
        settings=("train.evaluations=1", f"mix.heldout={HELDOUT}"),
        overwrite=True,
        machine=Machine(workers=1, cache=cell / "cache"),
    )
    for when, losses in adapted.manifest["losses"].items():
        found[f"loss_{when}"] = losses["task"]
    found["heldout"] = adapted.manifest["heldout"]["task"]
    found["adapted_s"] = adapted.manifest["seconds"]
    shutil.rmtree(cell)
    return found


def selects_the_same(
    work: Work, name: str, method: str, seed: int, facts: dict[str, int], kept: dict[str, Any]
) -> bool:
    """Whether a cell's selection, made again, has all figures of the kept one."""
    cell, found = selected(work, name, method, seed, facts)
    shutil.rmtree(cell)
    del found["selected_s"]
    return found == {what: kept[what] for what in found}


def selected(
    work: Work, name: str, method: str, seed: int, facts: dict[str, int]
) -> tuple[Path, dict[str, Any]]:
    """Select: the cell's folder with the selected texts, and their figures."""
    target = work.target(name, seed)
    cell = work.folder / "cells" / target.folder.name / method
    started = time.perf_counter()
    scored = corpusfit.select(
        target=target.train,
        corpus=work.corpus(seed),
        out=cell / "scores",
        method="random" if method in PEERS else method,
        embedder="static",
        seed=seed,
        overwrite=True,
        machine=ONE,
    )
    peer = peer_of(method, texts_of(target.train), seed)
    texts, sources = taken(scored, work.documents(seed), SHARE * facts["words"], peer)
    seconds = time.perf_counter() - started
    words = np.array([len(text.split()) for text in texts])
    inside = np.char.startswith(sources, TARGETS[name])
    store(cell / "selected.jsonl", texts)
    return cell, {
        "bits": bits(texts, texts_of(target.dev), facts["vocabulary"]),
        "precision": float(words[inside].sum() / words.sum()),
        "words": int(words.sum()),
        "segments": len(texts),
        "selected_s": round(seconds, 1),
    }


def texts_of(path: Path) -> list[str]:
    """The texts of JSON lines."""
    return [orjson.loads(line)["text"] for line in lines(path)]


def taken(
    scored: Any, documents: dict[str, list[str]], budget: float, peer: Peer | None = None
) -> tuple[list[str], np.ndarray]:
    """Segments by falling score until the next does not fit; ties by position.

    Args:
        scored: a run of `corpusfit.select`.
        documents: the corpus by source.
        budget: words, separated by white space.
        peer: scores the segments in place of the run.

    Returns:
        n texts; str [n], their sources.
    """
    columns: dict[str, list[Any]] = {k: [] for k in ("source", "row", "start", "end", "score")}
    for part in scored.scores():
        for name, values in columns.items():
            values.extend(part.column(name).to_pylist())
    *places, scores = columns.values()
    every = [documents[of][row][start:end] for of, row, start, end in zip(*places, strict=True)]
    falling = -peer(every) if peer else -np.asarray(scores, np.float32)
    chosen = []
    left = budget
    for at in np.argsort(falling, kind="stable"):
        left -= len(every[at].split())
        if left < 0:
            break
        chosen.append(at)
    return [every[at] for at in chosen], np.array([columns["source"][at] for at in chosen])


def bits(texts: list[str], dev: list[str], vocabulary: int) -> float:
    """Bits per word of unseen texts, their ends counted, under a trigram Kneser-Ney model of texts.

    The vocabulary is the corpus's, so that a word which the texts lack costs the same share of
    what discounting leaves, whatever was selected.
    """
    known = number_words(*buffers(text_array(texts)), characters(), False)
    table = estimate(*known, ORDER, vocabulary)
    data = buffers(text_array(dev))
    log10, tokens = log_probabilities(table, ORDER, *data, characters(), False)
    return float(-log10.sum() / tokens.sum() * np.log2(10.0))


def ranked(methods: list[str]) -> list[str]:
    """What `corpusfit rank` ranks by default, and some methods, without peers."""
    return sorted({*candidates(), *methods} - {*PEERS})


def verdicts(work: Work, name: str, methods: list[str], seed: int) -> dict[str, Any]:
    """The bits per word of each method by `corpusfit rank`."""
    found = corpusfit.rank(
        target=work.target(name, seed).train,
        corpus=work.corpus(seed),
        methods=ranked(methods),
        embedder="static",
        seed=seed,
        machine=ONE,
    )
    return {each.method: {"bits": each.bits} for each in found}
