"""Baselines for clusters: random assignment, LDA topics and averaged word vectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.word2vec import train_words

_WORD = re.compile(r"\w+")
_LEAST, _WIDTH, _WINDOW, _NEGATIVE, _SAMPLE, _EPOCHS, _RATE = 2, 100, 5, 5, 1e-3, 20, 0.025
"""word2vec's own settings, but more epochs and rarer words: a sample has few sentences."""


def at_random(n: int, k: int, seed: int) -> NDArray[np.int64]:
    """A random cluster for each of n texts, int64 [n], uniform over k."""
    return np.random.default_rng(seed).integers(k, size=n)


def by_topic(texts: Sequence[str], k: int, seed: int) -> NDArray[np.int64]:
    """The most likely of k LDA topics of each text, int64 [n]; all 0 if no two share a word.

    LDA is fitted to these texts alone, with scikit-learn; the paper used gensim.

    Reference: Aharoni and Goldberg (2020), section 2.3; Blei, Ng and Jordan (2003); Hoffman, Blei
    and Bach (2010).
    """
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        counts = CountVectorizer(min_df=2, max_df=0.5).fit_transform(list(texts))
    except ValueError:  # no two texts share a word, as in scripts without spaces
        return np.zeros(len(texts), np.int64)
    random_state = seed % 2**32  # the largest range that scikit-learn allows
    model = LatentDirichletAllocation(k, learning_method="online", random_state=random_state)
    return np.asarray(model.fit_transform(counts).argmax(axis=1), np.int64)


def word_vectors(texts: Sequence[str], seed: int) -> NDArray[np.float32]:
    """The mean of the vectors of each text's words, float32 [n, 100]; 0 for a text without one.

    word2vec is trained on these texts alone; the paper does not say on what its own was.

    Reference: Aharoni and Goldberg (2020), section 2.3; Mikolov et al. (2013).
    """
    words = [_WORD.findall(text.lower()) for text in texts]
    counted = Counter(word for own in words for word in own)
    known = [word for word, n in counted.items() if n >= _LEAST]
    number = {word: i for i, word in enumerate(known)}
    own = [[number[word] for word in line if word in number] for line in words]
    starts = np.concatenate([[0], np.cumsum([len(line) for line in own])]).astype(np.int64)
    ids = np.array([i for line in own for i in line], np.int32)
    start = np.random.default_rng(seed).uniform(-0.5, 0.5, (max(1, len(known)), _WIDTH))
    vectors = (start / _WIDTH).astype(np.float32)
    counts = np.array([counted[word] for word in known] or [1], np.int64)
    settings = (_WINDOW, _NEGATIVE, _SAMPLE, _EPOCHS, _RATE)
    train_words(ids, starts, counts, vectors, *settings, seed % 2**63)
    means = np.zeros((len(texts), _WIDTH), np.float32)
    for i, line in enumerate(own):
        if line:
            means[i] = vectors[line].mean(axis=0)
    return means
