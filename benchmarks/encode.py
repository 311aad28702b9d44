"""Encoding speed: MiniLM in corpusfit and sentence-transformers, static vectors and model2vec.

Encodes docstrings of the standard library (a few words to a few hundred) and the same text in
windows of about 250 word pieces. Reports texts per second and the cosine between the vectors of
both sides, computed on equally many tokens. Times are those of each side's defaults: sentence-
transformers reads 256 tokens of a text in fp32, corpusfit 512. corpusfit in fp32 is timed too,
which shows the share of bf16, and on one thread both sides in bf16 with 512 tokens of a text, the
peer in small batches. With `cuda` both sides encode 20,000 docstrings and 2,000 windows on
a GPU in bf16, 512 tokens of a text, the peer in batches of 256.

Run: python benchmarks/encode.py [THREADS | cuda]
"""

from __future__ import annotations

import ast
import os
import random
import sys
import sysconfig
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from harness import paired, seconds

TEXTS = 200
WINDOWS = 30
WORDS = 150
BATCHES = (1, 4, 8, 16, 32)


def docstrings() -> list[str]:
    """Every docstring of the standard library except those of tests, shuffled with a fixed seed."""
    found = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if {"site-packages", "test", "tests", "idle_test"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(" ".join((ast.get_docstring(node) or "").split()))
    texts = sorted({text for text in found if text})
    random.Random(0).shuffle(texts)
    return texts


def windows(texts: list[str], n: int = WINDOWS) -> list[str]:
    """The texts concatenated and cut every 150 words: the length of a run's units."""
    words = " ".join(texts).split(" ")
    return [" ".join(words[i * WORDS : (i + 1) * WORDS]) for i in range(n)]


def mean_cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Mean cosine of paired rows."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(1) / lengths).mean())


def against_sentence_transformers(texts: dict[str, list[str]], threads: int) -> None:
    """MiniLM in each precision, on each set of texts."""
    from sentence_transformers import SentenceTransformer

    from corpusfit.core.plan import EmbedPlan
    from corpusfit.embed import load
    from corpusfit.embed.folders import minilm_folder

    peer = SentenceTransformer(str(minilm_folder()), device="cpu")
    whole = SentenceTransformer(str(minilm_folder()), device="cpu")
    whole.max_seq_length = 512  # as corpusfit; the peer's default of 256 tokens is less work
    for precision in ("auto", "fp32"):
        ours = load(EmbedPlan(device="cpu", precision=precision))
        for name, some in texts.items():
            paired(
                f"encode_minilm_{name}_{precision}_{threads}t",
                lambda ours=ours, some=some: ours.encode(some),
                lambda some=some: peer.encode(some),
                runs=5,
                work=len(some),
                unit="texts",
                note=f"all-MiniLM-L6-v2, {len(some)} {name}, CPU, threads a side: {threads}; "
                f"ours {ours.model.dtype}, sentence-transformers as it comes "
                "(fp32, batch 32, 256 tokens); "
                "cosine to it at 512 tokens, as ours",
                extra={
                    "mean_cosine": mean_cosine(ours.encode(some), whole.encode(some)),
                    "median_characters": float(np.median([len(text) for text in some])),
                },
            )


def in_bf16(texts: dict[str, list[str]]) -> None:
    """MiniLM in bf16 on both sides, processor seconds of one thread, the peer's fastest batches."""
    import torch
    from sentence_transformers import SentenceTransformer

    from corpusfit.core.plan import EmbedPlan
    from corpusfit.embed import load
    from corpusfit.embed.folders import minilm_folder

    kwargs = {"dtype": torch.bfloat16}
    peer = SentenceTransformer(str(minilm_folder()), device="cpu", model_kwargs=kwargs)
    peer.max_seq_length = 512
    ours = load(EmbedPlan(device="cpu", precision="bf16"))
    for name, some in texts.items():
        taken = {
            size: seconds(partial(peer.encode, some, batch_size=size))
            for size in (BATCHES[0], *BATCHES)  # the first call is slower
        }
        best = min(BATCHES, key=taken.__getitem__)
        paired(
            f"encode_minilm_{name}_bf16_1t",
            lambda some=some: seconds(partial(ours.encode, some)),
            lambda some=some, best=best: seconds(partial(peer.encode, some, batch_size=best)),
            runs=5,
            work=len(some),
            unit="texts",
            note=f"all-MiniLM-L6-v2, {len(some)} {name}, CPU, one thread a side, processor "
            f"seconds; bf16, 512 tokens; the peer in batches of {best}, the fastest of {BATCHES}",
            extra={"mean_cosine": mean_cosine(ours.encode(some), peer.encode(some))},
        )


def on_gpu(texts: list[str]) -> None:
    """MiniLM in bf16 on a CUDA device, both sides at their best."""
    import torch
    from sentence_transformers import SentenceTransformer

    from corpusfit.core.plan import EmbedPlan
    from corpusfit.embed import load
    from corpusfit.embed.folders import minilm_folder

    kwargs = {"dtype": torch.bfloat16}
    peer = SentenceTransformer(str(minilm_folder()), device="cuda", model_kwargs=kwargs)
    peer.max_seq_length = 512
    ours = load(EmbedPlan(device="cuda", precision="bf16"))
    sets = {"docstrings": (texts * 2)[:20_000], "windows": windows(texts, 2_000)}
    for name, some in sets.items():
        paired(
            f"encode_minilm_{name}_cuda",
            lambda some=some: ours.encode(some),
            lambda some=some: peer.encode(some, batch_size=256),
            runs=5,
            work=len(some),
            unit="texts",
            note=f"all-MiniLM-L6-v2, {len(some)} {name}, {torch.cuda.get_device_name()}, bf16 on "
            "both sides, 512 tokens",
            extra={"mean_cosine": mean_cosine(ours.encode(some), peer.encode(some))},
        )


def as_run(texts: dict[str, list[str]]) -> None:
    """Encoding as in a run, in single-threaded workers, and the peer with all threads."""
    from sentence_transformers import SentenceTransformer

    from corpusfit.core.engine import LocalEngine
    from corpusfit.core.plan import EmbedPlan
    from corpusfit.embed.folders import minilm_folder
    from corpusfit.selection.embedding import EmbedTexts

    peer = SentenceTransformer(str(minilm_folder()), device="cpu")
    with LocalEngine() as engine:
        for name, some in texts.items():
            shares = [some[i :: engine.workers] for i in range(engine.workers)]
            job = EmbedTexts(EmbedPlan(device="cpu"))
            paired(
                f"encode_minilm_{name}_as_run",
                lambda job=job, shares=shares: list(engine.map(job, list(enumerate(shares)))),
                lambda some=some: peer.encode(some),
                runs=5,
                work=len(some),
                unit="texts",
                note=f"all-MiniLM-L6-v2, {len(some)} {name}, CPU: {engine.workers} workers "
                "of one thread, as `select` runs; sentence-transformers as it comes, all threads",
            )


def against_model2vec(texts: list[str], threads: int) -> None:
    """The packaged static model; our table of words starts empty."""
    from model2vec import StaticModel

    from corpusfit.core.plan import EmbedPlan
    from corpusfit.embed import load
    from corpusfit.embed.static import PACKAGED
    from corpusfit.embed.wordpiece import WordTokens

    ours = load(EmbedPlan(embedder="static"))
    peer = StaticModel.from_pretrained(PACKAGED)
    paired(
        f"encode_static_{threads}t",
        lambda: replace(ours, words=WordTokens(ours.words.tokenizer)).encode(texts),
        lambda: peer.encode(texts),
        runs=9,
        work=len(texts),
        unit="texts",
        note=f"the packaged static model, {len(texts)} docstrings, "
        f"tokenizer threads a side: {threads}",
        extra={"largest_difference": float(np.abs(ours.encode(texts) - peer.encode(texts)).max())},
    )


def main() -> None:
    """Run all measurements with the given number of threads, or those on a GPU."""
    import torch

    if sys.argv[1:] == ["cuda"]:
        on_gpu(docstrings())
        return
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    threads = torch.get_num_threads()
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if threads == 1 else "true"
    texts = docstrings()
    sets = {"docstrings": texts[:TEXTS], "windows": windows(texts[TEXTS:])}
    against_sentence_transformers(sets, threads)
    if threads == 1:
        in_bf16(sets)
    as_run(sets)
    against_model2vec(texts, threads)


if __name__ == "__main__":
    main()
