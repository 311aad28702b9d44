"""Baselines for clusters: random assignment and LDA topics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import importing


def at_random(n: int, k: int, seed: int) -> NDArray[np.int64]:
    """A random cluster for each of n texts, int64 [n], uniform over k."""
    return np.random.default_rng(seed).integers(k, size=n)


def by_topic(texts: Sequence[str], k: int, seed: int) -> NDArray[np.int64]:
    """The most likely of k LDA topics of each text, int64 [n]; all 0 if no two share a word.

    LDA is fitted to these texts alone, with scikit-learn; the paper used gensim.

    Reference: Aharoni and Goldberg (2020), section 2.3; Blei, Ng and Jordan (2003); Hoffman, Blei
    and Bach (2010).

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    with importing("LDA", "embed"):
        from sklearn.decomposition import LatentDirichletAllocation
        from sklearn.feature_extraction.text import CountVectorizer
    try:
        counts = CountVectorizer(min_df=2, max_df=0.5).fit_transform(list(texts))
    except ValueError:  # no two texts share a word, as in scripts without spaces
        return np.zeros(len(texts), np.int64)
    random_state = seed % 2**32  # the largest range that scikit-learn allows
    model = LatentDirichletAllocation(k, learning_method="online", random_state=random_state)
    return np.asarray(model.fit_transform(counts).argmax(axis=1), np.int64)
