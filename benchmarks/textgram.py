"""Speed of `textgram`, compared with two pairs of libraries that find neighbors and rank.

They are sentence-transformers' paraphrase mining with networkx, and usearch with igraph. usearch
finds neighbors approximately (HNSW, its defaults); the other side and ours examine every pair.

From the vectors of a corpus and of a target to PageRank, as Algorithm 1 of the TextGram paper;
processor seconds on one thread each, and the overlap of the best tenths. Processor time, because
a run of the peer takes minutes and shared machines are seldom quiet that long. Both sides exclude
encoding. Many units near the edge of the best tenth have similar ranks, and texts with more than
100 copies are joined arbitrarily, so the two best tenths are never exactly equal.

Run: OMP_NUM_THREADS=1 python benchmarks/textgram.py PILE TASK.jsonl.zst [UNITS] [RUNS], after
pip install igraph usearch
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import re
import sys
import tempfile
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import igraph
import networkx as nx
import numpy as np
import torch
from sentence_transformers import util
from usearch.index import Index

from corpusfit import text as corpus_text
from corpusfit.core.plan import Plan
from corpusfit.core.types import Documents, Paired, text_array
from corpusfit.embed import load, prepare
from corpusfit.selection.samples import ALL, merge, sample_texts
from corpusfit.text.context import default_cache
from corpusfit.text.reading import cut_units, read_shard
from corpusfit_papers.methods.textgram import TextGram
from harness import paired, seconds

TARGET_TEXTS = 500
DEFAULT, TRUE = 1e-6, 1e-12
"""networkx's tolerance, and one at which PageRank has converged."""


def main(pile: Path, task: Path, size: int, runs: int) -> None:
    """Compare, and write the result."""
    torch.set_num_threads(1)
    plan = Plan().with_value("embed.embedder", "static")
    prepare(plan.embed, default_cache())
    encoder = load(plan.embed, default_cache())
    corpus = encoder.encode(sample(pile, plan, size))[:size]
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

    def by_usearch() -> np.ndarray:
        method = TextGram()
        index = Index(ndim=joined.shape[1], metric="cos")
        index.add(np.arange(len(joined)), joined, threads=1)
        found = index.search(joined, method.neighbors + 1, threads=1)
        one = np.repeat(np.arange(len(joined)), found.keys.shape[1])
        other, cosine = found.keys.ravel().astype(np.int64), 1 - found.distances.ravel()
        low, high = np.minimum(one, other), np.maximum(one, other)
        kept = (low < high) & (cosine > 0)
        _, first = np.unique(low[kept] * len(joined) + high[kept], return_index=True)
        best = first[np.argsort(-cosine[kept][first])[: method.pairs]]
        ends = np.stack([low[kept][best], high[kept][best]], 1)
        weighted = igraph.Graph(len(joined), ends)
        return np.array(weighted.pagerank(weights=cosine[kept][best].tolist())[:size])

    graph = mined()
    agree = {
        "best_tenth_in_common": common(ours(DEFAULT), ranked(graph, DEFAULT)),
        "best_tenth_in_common_converged": common(ours(TRUE), ranked(graph, TRUE)),
        "joined_target_units": len(joined) - size,
        "units_without_a_pair": nx.number_of_isolates(graph) / len(joined),
    }
    approximate = {"best_tenth_in_common": common(ours(TRUE), by_usearch())}
    print(agree, approximate, flush=True)
    note = (
        f"{size} units, static vectors ({corpus.shape[1]}-d), one thread each, processor seconds; "
    )
    paired(
        "textgram",
        lambda: seconds(lambda: ours(DEFAULT)),
        lambda: seconds(lambda: ranked(mined(), DEFAULT)),
        runs=runs,
        note=f"{note}sentence-transformers' paraphrase_mining_embeddings, then networkx's PageRank",
        work=size,
        unit="units",
        extra=agree,
    )
    paired(
        "textgram_usearch",
        lambda: seconds(lambda: ours(DEFAULT)),
        lambda: seconds(by_usearch),
        runs=runs,
        note=f"{note}usearch's HNSW index, then igraph's PageRank; defaults of each",
        work=size,
        unit="units",
        extra=approximate,
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


def sample(pile: Path, plan: Plan, size: int) -> list[str]:
    """A uniform sample of the corpus's units."""
    with tempfile.TemporaryDirectory() as spool:
        found = corpus_text.find([str(pile)], plan.read, spool=Path(spool), role="corpus")
    names = tuple(s.name for s in found)
    work = partial(sample_texts, plan.read, plan.cut, names, size, plan.seed)
    drawn = [work((shard, ALL))[0] for shard in corpus_text.shards(found, plan.read)]
    return [text for each in merge(drawn, size) for text in each.texts]


def target(path: Path, plan: Plan) -> list[str]:
    """A seeded draw of a task's different texts."""
    found = corpus_text.find([str(path)], plan.read, spool=path.parent, role="target")
    texts = [
        text
        for shard in corpus_text.shards(found, plan.read)
        for text in read_shard(shard, plan.read, (path.name,))[0].texts.to_pylist()
    ]
    texts = list(dict.fromkeys(texts))
    drawn = np.random.default_rng(0).permutation(len(texts))[:TARGET_TEXTS]
    return [texts[i] for i in np.sort(drawn)]


def units(texts: list[str], plan: Plan) -> list[str]:
    """The units of different texts."""
    different = text_array(list(dict.fromkeys(texts)))
    return cut_units(Documents(np.arange(len(different)), different), plan.cut)[1].to_pylist()


if __name__ == "__main__":
    folder, file, *rest = sys.argv[1:]
    main(Path(folder), Path(file), *(map(int, [*rest, *("100000", "3")[len(rest) :]])))
