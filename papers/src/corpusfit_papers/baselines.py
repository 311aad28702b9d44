"""`baselines`: clusters of a corpus beside random assignment, LDA topics and word vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import corpusfit
from corpusfit.contracts import UsageError, bad_setting, fit_cluster_model, written_tokens
from corpusfit_papers.word2vec import train_words

# word2vec's default settings, but more epochs and rarer words: a sample has few sentences.
_MIN_COUNT = 2
_WIDTH = 100
_WINDOW = 5
_NEGATIVE = 5
_SAMPLE = 1e-3
_EPOCHS = 20
_RATE = 0.025


@dataclass(frozen=True)
class Sample:
    """The n clustered units of a run, of several known domains."""

    manifest: dict[str, Any]  # of the run
    texts: list[str]
    clusters: NDArray[np.int64]  # int64 [n], from 0
    names: list[str]  # of the domains
    domains: NDArray[np.int64]  # int64 [n], the place in `names`


def sample_of(out: str | PathLike[str]) -> Sample:
    """The clustered units of a `clusters`."""
    run = corpusfit.open(out)
    if not isinstance(run, corpusfit.Clustered):
        raise bad_setting("DIR", "the folder of a corpusfit clusters", str(out))
    if len(run.manifest["domains"]) < 2:
        raise UsageError(
            f"Clusters are compared with known domains, and the units of {out} have one. Run "
            "`corpusfit clusters` on several files, or name the field with the domain by "
            "`draw.truth`."
        )
    stored = pq.read_table(pa.BufferReader((run.path / "sample.parquet").read_bytes()))
    names, domains = np.unique(stored.column("domain").to_pylist(), return_inverse=True)
    clusters = stored.column("cluster").to_numpy() - 1
    texts = stored.column("text").to_pylist()
    return Sample(run.manifest, texts, clusters, names.tolist(), domains)


@dataclass(frozen=True)
class Clustering:
    """How well clusterings of one kind and number of clusters find known domains.

    Attributes:
        of: `mixture` (the clusters of the run), `random`, `lda` or `word2vec`.
        k: number of clusters.
        fits: number of fits with different seeds.
        purity: mean share of the units that are of the most frequent domain of their cluster.
        deviation: its standard deviation over the fits; None of one fit.
        likelihood: mean log-likelihood per unit of the best fit, in nats; None without a mixture.
        bic: Bayesian information criterion of that fit; None without a mixture.
    """

    of: str
    k: int
    fits: int
    purity: float
    deviation: float | None
    likelihood: float | None = None
    bic: float | None = None


@dataclass(frozen=True)
class Baselines:
    """Clusters of a corpus beside their baselines.

    Attributes:
        units: number of clustered units.
        rows: the run's own figures, then those of each baseline.
    """

    units: int
    rows: list[Clustering]


def baselines(out: str | PathLike[str]) -> Baselines:
    """Compare the clusters of a corpus with random assignment, LDA topics and word vectors.

    Each clusters the same units, into the numbers of clusters and with the seeds of the run.

    Reference: Aharoni and Goldberg (2020), section 2.3 and Table 1.

    Args:
        out: the folder of a `clusters`, whose units have two known domains or more.

    Returns:
        The purity of each.
    """
    sample = sample_of(out)
    found = sample.manifest
    texts = sample.texts
    domains = sample.domains
    mixture = found["plan"]["mixture"]
    seed = found["plan"]["seed"]
    numbers = [row["k"] for row in found["tried"]] if mixture["k"] else [found["k"]]
    seeds = range(seed, seed + mixture["fits"])
    rows = [Clustering("mixture", **row) for row in found["tried"]]
    for k in numbers:
        assignments = [np.random.default_rng(s).integers(k, size=len(texts)) for s in seeds]
        rows.append(_measured("random", k, [purity(each, domains) for each in assignments]))
    for k in numbers:
        topics = [by_topic(texts, k, s) for s in seeds]
        rows.append(_measured("lda", k, [purity(each, domains) for each in topics]))
    # word vectors are clustered like embeddings
    vectors = word_vectors(texts, seed)
    how: dict[str, Any] = {name: mixture[name] for name in ("components", "steps")}
    for k in numbers:
        fits = [fit_cluster_model(vectors, k, seed=s, **how) for s in seeds]
        pure = [purity(fit.shares(vectors).argmax(axis=1), domains) for fit in fits]
        best = min((fit.mixture for fit in fits), key=lambda fitted: fitted.bic())
        rows.append(_measured("word2vec", k, pure, best.likelihood, best.bic()))
    return Baselines(len(texts), rows)


def _measured(of: str, k: int, pure: Sequence[float], *figures: float) -> Clustering:
    deviation = float(np.std(pure)) if len(pure) > 1 else None
    return Clustering(of, k, len(pure), float(np.mean(pure)), deviation, *figures)


def purity(clusters: NDArray[np.int64], domains: NDArray[np.int64]) -> float:
    """The share of units whose domain is the most frequent one of their cluster.

    Reference: Manning, Raghavan and Schütze (2008), section 16.3.
    """
    from sklearn.metrics.cluster import contingency_matrix

    return float(contingency_matrix(domains, clusters).max(axis=0).sum() / len(domains))


def by_topic(texts: Sequence[str], k: int, seed: int) -> NDArray[np.int64]:
    """The most likely of k LDA topics of each text, int64 [n]; all 0 if no two share a word.

    Reference: Aharoni and Goldberg (2020), section 2.3; Blei, Ng and Jordan (2003); Hoffman, Blei
    and Bach (2010).
    """
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    # fitted to these texts alone, with scikit-learn; the paper used gensim
    try:
        counts = CountVectorizer(min_df=2, max_df=0.5).fit_transform(list(texts))
    except ValueError:  # no two texts share a word, as in scripts without spaces
        return np.zeros(len(texts), np.int64)
    random_state = seed % 2**32  # the largest range that scikit-learn allows
    model = LatentDirichletAllocation(k, learning_method="online", random_state=random_state)
    return np.asarray(model.fit_transform(counts).argmax(axis=1), np.int64)


def word_vectors(texts: Sequence[str], seed: int) -> NDArray[np.float32]:
    """The mean of the vectors of each text's words, float32 [n, 100]; 0 for a text without one.

    Reference: Aharoni and Goldberg (2020), section 2.3; Mikolov et al. (2013).
    """
    # trained on these texts alone; the paper does not say on what its vectors were
    words = [written_tokens(text)[1] for text in texts]
    counted = Counter(word for line in words for word in line)
    vocabulary = [word for word, n in counted.items() if n >= _MIN_COUNT]
    number = {word: i for i, word in enumerate(vocabulary)}
    numbered = [[number[word] for word in line if word in number] for line in words]
    starts = np.concatenate([[0], np.cumsum([len(line) for line in numbered])]).astype(np.int64)
    ids = np.array([i for line in numbered for i in line], np.int32)
    start = np.random.default_rng(seed).uniform(-0.5, 0.5, (max(1, len(vocabulary)), _WIDTH))
    vectors = (start / _WIDTH).astype(np.float32)
    counts = np.array([counted[word] for word in vocabulary] or [1], np.int64)
    settings = (_WINDOW, _NEGATIVE, _SAMPLE, _EPOCHS, _RATE)
    train_words(ids, starts, counts, vectors, *settings, seed % 2**63)
    means = np.zeros((len(texts), _WIDTH), np.float32)
    for i, line in enumerate(numbered):
        if line:
            means[i] = vectors[line].mean(axis=0)
    return means
