"""Fit clusters, and baselines for them: random assignment, LDA topics, averaged word vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Job
from corpusfit.core.languages import word_pattern
from corpusfit.domains.describe import confusion
from corpusfit.domains.mixture import fit_cluster_model, read_cluster_model, write_cluster_model
from corpusfit.kernels.word2vec import train_words
from corpusfit.selection.fit import Sample

# word2vec's default settings, but more epochs and rarer words: a sample has few sentences.
_MIN_COUNT = 2
_WIDTH = 100
_WINDOW = 5
_NEGATIVE = 5
_SAMPLE = 1e-3
_EPOCHS = 20
_RATE = 0.025


@dataclass(frozen=True)
class Fitted:
    """A fit of k clusters, or a baseline, which has no likelihood."""

    k: int
    seed: int
    counts: NDArray[np.int64]  # int64 [k, t], units by cluster and known domain
    likelihood: float | None = None  # mean log-likelihood per unit in nats
    bic: float | None = None  # Bayesian information criterion
    converged: bool | None = None


@dataclass(frozen=True)
class FitClusters(Job[tuple[int, int], Fitted]):
    """Fit k clusters with a seed to a sample's vectors and store them; a stored fit is reused.

    Reference: Aharoni and Goldberg (2020), sections 2.2 to 2.4.
    """

    sample: Sample
    labels: tuple[int, ...]  # the number of each unit's known domain
    t: int  # number of known domains
    components: int  # principal components; 0 for all dimensions
    steps: int  # most steps of EM
    out: Path

    def path(self, k: int, seed: int) -> Path:
        return self.out / f"{k}-{seed}.safetensors"

    def start(self) -> Callable[[tuple[int, int]], Fitted]:
        vectors = read_arrays(self.sample.vectors)[0]["vectors"]
        labels = np.array(self.labels, np.int64)

        def work(piece: tuple[int, int]) -> Fitted:
            k, seed = piece
            path = self.path(k, seed)
            if path.exists():
                fit = read_cluster_model(path)
            else:
                fit = fit_cluster_model(
                    vectors, k, seed=seed, components=self.components, steps=self.steps
                )
                write_cluster_model(path, fit)
            counts = confusion(fit.shares(vectors).argmax(axis=1), labels, k, self.t)
            mixture = fit.mixture
            return Fitted(k, seed, counts, mixture.likelihood, mixture.bic(), mixture.converged)

        return work


def fit_baseline(
    sample: Sample, labels: tuple[int, ...], t: int, piece: tuple[str, int, int]
) -> tuple[str, Fitted]:
    """Assign a sample's texts at `random` or by `lda`: (which, k, seed) to the same and its fit."""
    which, k, seed = piece
    texts = sample.read_texts()
    if which == "random":
        clusters = np.random.default_rng(seed).integers(k, size=len(texts))
    else:
        clusters = by_topic(texts, k, seed)
    return which, Fitted(k, seed, confusion(clusters, np.array(labels, np.int64), k, t))


def write_word_vectors(sample: Sample, piece: tuple[Sample, int]) -> Path:
    """Write averaged word2vec vectors of a sample's texts, trained with a seed, as another's."""
    other, seed = piece
    write_arrays(other.vectors, {"vectors": word_vectors(sample.read_texts(), seed)}, {})
    return other.vectors


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
    words = [word_pattern().findall(text.lower()) for text in texts]
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
