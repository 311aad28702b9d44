"""Speed of `textgram`, compared with sentence-transformers' paraphrase mining and networkx.

From the vectors of a corpus and of a target to PageRank, as Algorithm 1 of the TextGram paper;
processor seconds on one thread each, and the overlap of the best tenths. Processor time, because
a run of the peer takes minutes and shared machines are seldom quiet that long. Both sides exclude
encoding. Many units near the edge of the best tenth have similar ranks, and texts with more than
100 copies are joined arbitrarily, so the two best tenths are never exactly equal.

Run: OMP_NUM_THREADS=1 python benchmarks/textgram.py PILE TASK.jsonl.zst [UNITS] [RUNS]
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from sentence_transformers import util

from auto import sample, target, units
from corpusfit.embed import load, prepare
from corpusfit.plan import Plan
from corpusfit.score.methods.textgram import TextGram
from corpusfit.types import Paired, text_array
from corpusfit.workflows.context import default_cache
from harness import paired

DEFAULT, TRUE = 1e-6, 1e-12
"""networkx's tolerance, and one at which PageRank has converged."""


def main(pile: Path, task: Path, size: int, runs: int) -> None:
    """Compare, and write the result."""
    torch.set_num_threads(1)
    plan = Plan().with_value("embed.embedder", "static")
    prepare(plan.embed, default_cache())
    encoder = load(plan.embed, default_cache())
    corpus = encoder.encode(sample(pile, plan, size)[0])[:size]
    texts = units(target(task, plan), plan)
    near = Paired(text_array(texts), encoder.encode(texts))
    joined = np.concatenate([corpus, near.vectors[with_common_bigrams(texts)]])

    def ours(tolerance: float) -> np.ndarray:
        method = TextGram(tolerance=tolerance)
        return next(method.score_corpus([(0, corpus)], near, near, seed=0))[1]

    def mined() -> nx.Graph:
        graph = nx.Graph()
        graph.add_nodes_from(range(len(joined)))
        pairs = util.paraphrase_mining_embeddings(torch.from_numpy(joined))
        graph.add_weighted_edges_from((i, j, score) for score, i, j in pairs)
        return graph

    def ranked(graph: nx.Graph, tolerance: float) -> np.ndarray:
        ranks = nx.pagerank(graph, tol=tolerance, max_iter=1000)
        return np.array([ranks[node] for node in range(size)])

    graph = mined()
    agree = {
        "best_tenth_in_common": common(ours(DEFAULT), ranked(graph, DEFAULT)),
        "best_tenth_in_common_converged": common(ours(TRUE), ranked(graph, TRUE)),
        "joined_target_units": len(joined) - size,
        "units_without_a_pair": nx.number_of_isolates(graph) / len(joined),
    }
    print(agree, flush=True)
    paired(
        "textgram",
        lambda: seconds(lambda: ours(DEFAULT)),
        lambda: seconds(lambda: ranked(mined(), DEFAULT)),
        runs=runs,
        note=f"{size} units, static vectors ({corpus.shape[1]}-d), defaults of both; sentence-"
        "transformers' paraphrase_mining_embeddings, then networkx's PageRank; one thread each, "
        "processor seconds",
        work=size,
        unit="units",
        extra=agree,
    )


def with_common_bigrams(texts: list[str], top: int = 100) -> list[int]:
    """Indices of the texts with one of the most frequent bigrams, as in Algorithm 1."""
    bigrams = [list(pairwise(re.findall(r"\w+", text.lower()))) for text in texts]
    counts = Counter(bigram for found in bigrams for bigram in found)
    listed = {bigram for bigram, _ in counts.most_common(top)}
    return [i for i, found in enumerate(bigrams) if listed & set(found)]


def common(one: np.ndarray, other: np.ndarray) -> float:
    """Overlap of the best tenths."""
    best = [set(np.argsort(-x, kind="stable")[: len(x) // 10].tolist()) for x in (one, other)]
    return len(best[0] & best[1]) / len(best[0])


def seconds(run: Callable[[], Any]) -> float:
    """Processor seconds of one run."""
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    folder, file, *rest = sys.argv[1:]
    main(Path(folder), Path(file), *(map(int, [*rest, *("100000", "3")[len(rest) :]])))
