"""What clusters are held against: chance, and topics of words.

What: assigns texts to k clusters at random, or by their likeliest topic under LDA.
Why: a purity says something only beside that of simpler ways at the same k.
Trade-off: LDA learns from these texts alone; the paper's was gensim's, this is scikit-learn's.
Reference: Aharoni and Goldberg (2020), section 2.3; Blei, Ng and Jordan (2003); Hoffman, Blei and
Bach (2010).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import MissingDependencyError


def at_random(n: int, k: int, seed: int) -> NDArray[np.int64]:
    """A cluster each for n texts, all as likely."""
    return np.random.default_rng(seed).integers(k, size=n)


def by_topic(texts: Sequence[str], k: int, seed: int) -> NDArray[np.int64]:
    """The likeliest of k topics of each text, int64 [n]; one for all where they share no word.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    try:
        from sklearn.decomposition import LatentDirichletAllocation
        from sklearn.feature_extraction.text import CountVectorizer
    except ImportError as e:
        raise MissingDependencyError("LDA", "embed") from e
    try:
        counts = CountVectorizer(min_df=2, max_df=0.5).fit_transform(list(texts))
    except ValueError:  # no word that two texts share, as in scripts without spaces
        return np.zeros(len(texts), np.int64)
    chance = seed % 2**32  # all that scikit-learn takes
    model = LatentDirichletAllocation(k, learning_method="online", random_state=chance)
    return np.asarray(model.fit_transform(counts).argmax(axis=1), np.int64)
