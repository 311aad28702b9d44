"""`betr`: like the documents that some target text ranks highest by embedding.

What: every target text ranks the background sample by the cosine of embeddings; a sampled text's
value is its best rank. A linear classifier on hashed n-grams learns to tell the tenth with the best
ranks from the rest, and scores the corpus by its words.
Why: each target text gets its share, however different they are. The classifier sees only texts of
the corpus, so it cannot learn the target's style; it beat a classifier of target against corpus
(section 5.5), and it scores text without embedding it.
Trade-off: the paper samples 10 million documents for 14,000 target texts, so that only the top
0.002 % for some text are positives; of a sample of 10,000 a tenth takes nearly every text's nearest
one to three, and among equal ranks the higher cosine decides. A larger `fit.background` helps. The
embedder is the run's, where the paper has Arctic-Embed L 2.0 (it found little difference among
embedders). Its fastText classifier (averaged vectors of words and pairs, 128 dimensions, 5 epochs)
has the same features as this one, the shares of a text's n-grams; here the weights are the minimum
of a regularized loss, classes are balanced by weights instead of by dropping negatives, and n-grams
that share a bucket share a weight.
Reference: Mizrahi et al. (2025), Language Models Improve When Pretraining Data Matches Target Tasks
(arXiv 2507.12466), sections 3.3 to 3.5, 5.5 and appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from corpusfit.contracts import (
    Effect,
    Method,
    Paired,
    Scorer,
    Texts,
    balanced,
    lengths,
    logistic,
    ngrams,
    plain_rows,
    products,
    require_fit,
    setting,
    written_tokens,
)

_BLOCK = 256


@dataclass(frozen=True)
class BetrScorer(Scorer[Texts]):
    """A linear function of the shares of a text's words and pairs of words."""

    table: NDArray[np.float32]  # [buckets], the weight of each bucket
    bias: float  # added to the mean weight
    positives: int
    depth: int  # the worst of their best ranks, from 1

    def __post_init__(self) -> None:
        require_fit(self.table.ndim == 1, len(self.table))

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: log odds of a positive at equal priors, float32 [n]; not calibrated.

        A text without tokens scores like the n-gram with the lowest weight.
        """
        buckets, ends = hashed(batch, len(self.table))
        grams = np.diff(ends)
        owner = np.repeat(np.arange(len(grams)), grams)
        sums = np.bincount(owner, self.table[buckets], len(grams))
        scores = np.where(grams > 0, sums / np.maximum(grams, 1), self.table.min()) + self.bias
        return np.asarray(scores, np.float32)

    def remark(self) -> str:
        """How many positives there were, and how deep their ranks go."""
        return (
            f"Learned from the {self.positives:,} sampled corpus units that some target text ranks "
            f"{self.depth:,} or better."
        )

    def explain(self, text: str) -> list[Effect]:
        """The effect of every n-gram; the effects and the bias add up to the score."""
        words = written_tokens(text)[1]
        grams = (" ".join(words[j // 2 : j // 2 + 1 + j % 2]) for j in range(2 * len(words) - 1))
        weight = self.table[hashed([text], len(self.table))[0]]
        total: dict[str, float] = {}
        for gram, weight_of_gram in zip(grams, weight.tolist(), strict=True):
            total[gram] = total.get(gram, 0.0) + weight_of_gram / len(weight)
        return [Effect(gram, total[gram]) for gram in sorted(total, key=lambda g: (-total[g], g))]


@dataclass(frozen=True)
class Betr(Method[Paired]):
    """Log odds of the corpus texts with the best rank for some target text, from words (BETR).

    The loss is |w|² / 2 + c times the sum of the texts' logistic losses. Positives and negatives
    have equal total weight, and all weights add up to the number of texts.

    Attributes:
        share: Positives as a share of the background sample (default: 0.1).
        buckets: Number of hash buckets (default: 65536).
        c: Weight of the loss against the penalty; smaller is smoother (default: 1000).
    """

    reads = "text"
    learns = "both"
    family = "classifier"
    scorer: ClassVar[type] = BetrScorer
    cost: ClassVar[str] = "300,000/s"

    share: float = setting(0.1, above=0, maximum=0.5)
    buckets: int = setting(2**16, minimum=1, maximum=2**31)
    c: float = setting(1000.0, above=0)

    def fit(self, target: Paired, background: Paired, *, seed: int) -> BetrScorer:
        """Rank the background for every target text, and fit the classifier; no seed is used."""
        n = len(background.texts)
        count = min(max(1, round(self.share * n)), n - 1)
        if not count:  # one unit cannot be divided in two classes
            return BetrScorer(np.zeros(self.buckets, np.float32), 0.0, 0, 0)
        rank, cosine = best_ranks(target.vectors, background.vectors, count)
        best = np.lexsort((-cosine, rank))[:count]
        positive = np.zeros(n, bool)
        positive[best] = True
        columns, values, ends = shares(*hashed(background.texts, self.buckets))
        # of the type of the coefficients, as scipy would copy the entries in every product
        x = csr_array((values.astype(np.float64), columns, ends), (n, self.buckets))
        weight = self.c * balanced(positive)
        parameters = logistic(x, positive.astype(np.float64), weight, 1.0)
        depth = int(rank[best].max()) + 1
        return BetrScorer(parameters[:-1].astype(np.float32), float(parameters[-1]), count, depth)


def best_ranks(
    target: NDArray[np.float32], background: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The best rank of background units over the target units that rank them by cosine.

    Args:
        target: float32 [m, d].
        background: float32 [n, d]; of equal cosines the earlier unit ranks higher.
        count: least number of units whose rank is found, at most n: those with the best ranks.

    Returns:
        int64 [n], the best rank, from 0; n where it is not found. float32 [n], the highest cosine
        with any target unit.
    """
    near, far = (plain_rows(x / lengths(x)) for x in map(plain_rows, (target, background)))
    depth = 8 * -(-count // max(1, len(near)))
    while True:
        rank, highest = _ranks(near, far, depth := min(depth, len(far)))
        if depth == len(far) or np.count_nonzero(rank < depth) >= count:
            return rank, highest
        depth *= 8


def _ranks(
    near: NDArray[np.float32], far: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """As `best_ranks`, of at least the first `depth` units of every target unit."""
    rank = np.full(len(far), len(far))
    highest = np.full(len(far), -np.inf, np.float32)
    places = np.arange(len(far))
    for first in range(0, len(near), _BLOCK):
        for cosines in products(near[first : first + _BLOCK], far):
            least = np.partition(cosines, -depth)[-depth]
            reached = np.flatnonzero(cosines >= least)
            reached = reached[np.argsort(-cosines[reached], kind="stable")]
            rank[reached] = np.minimum(rank[reached], places[: len(reached)])
            np.maximum(highest, cosines, out=highest)
    return rank, highest


def hashed(texts: Any, buckets: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The buckets of the words and pairs of words of n texts, in reading order.

    A word comes before the pair that it begins.

    Returns:
        int64 [m], and int64 [n + 1]: text i has those in `[ends[i] : ends[i + 1]]`.
    """
    words, through = ngrams(texts, 1)
    pairs, ends = ngrams(texts, 2)
    counts = np.diff(through)
    starts = np.concatenate([[0], np.cumsum(counts + np.diff(ends))])
    grams = np.empty(len(words) + len(pairs), np.uint64)
    for place, found, bounds in ((0, words, through), (1, pairs, ends)):
        within = np.arange(len(found)) - np.repeat(bounds[:-1], np.diff(bounds))
        grams[np.repeat(starts[:-1], np.diff(bounds)) + 2 * within + place] = found
    # the hash's upper half, scaled to the number of buckets
    half = np.uint64(32)
    return (((grams >> half) * np.uint64(buckets)) >> half).astype(np.int64), starts


@njit(cache=True, nogil=True)
def shares(
    buckets: NDArray[np.int64], through: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """Each text's shares of n-grams by bucket, as sparse rows; takes what `hashed` returns.

    Returns:
        columns: int32 [e], the buckets, increasing within a text.
        values: float32 [e], their shares of the text's n-grams, which add up to 1.
        ends: int64 [n + 1]; text i has the entries `[ends[i] : ends[i + 1]]`.
    """
    ends = np.zeros(len(through), np.int64)
    columns = np.empty(len(buckets), np.int32)
    values = np.empty(len(buckets), np.float32)
    e = 0
    for i in range(len(ends) - 1):
        ordered = np.sort(buckets[through[i] : through[i + 1]])
        first = e
        m = len(ordered)
        # equal buckets are adjacent after sorting: merge them into one entry
        for j in range(m):
            if e > first and columns[e - 1] == ordered[j]:
                values[e - 1] += np.float32(1 / m)
            else:
                columns[e] = ordered[j]
                values[e] = 1 / m
                e += 1
        ends[i + 1] = e
    return columns[:e].copy(), values[:e].copy(), ends
