"""`bm25`: among the best documents for some target text, by BM25.

What: every target text is a query. A text's BM25 score for a query becomes the logarithm of its
estimated rank for that query, and the text's score is its best rank over all queries.
Why: TLM takes the union of the best K texts of the corpus for each target text, which are the texts
whose best rank is at most K. So every target text gets its share, however different they are.
Trade-off: TLM ranks the whole corpus for each query (Elasticsearch). Here a text is scored alone:
inverse document frequencies, the mean length and each query's scale come from the background
sample, and the rank is estimated from the highest hundredth of the query's scores there, whose tail
is taken as exponential: on four tasks this selects 81 to 88 % of what exact ranks select. Without
`calibrated`, the score is the plain best BM25 score, in which long queries outweigh short ones. At
most `queries` target texts are used, a uniform sample, because time grows with them. Queries are
whole texts; TLM's keyword queries for very long texts (RAKE) are not offered. Words are not stemmed
and none is a stop word, as in TLM's published code. A target text matches itself best of all, so a
threshold set on the target's own scores, as for TADPOLE's F1, is too high for others.
Reference: Yao et al. (2021), NLP From Scratch Without Large-Scale Pretraining (arXiv 2111.04130),
section 3.1, and its published `data_selection.py`; Lucene's BM25Similarity for the formula;
Pickands (1975), Statistical Inference Using Extreme Order Statistics, for the tail.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Effect,
    Method,
    Scorer,
    Texts,
    count_each,
    find_each,
    ngrams,
    require_fit,
    setting,
    table_of,
    written_tokens,
)
from corpusfit_papers import similar
from corpusfit_papers.words import count_target_words, count_words, found_in, is_table

_TAIL = 0.01  # share of the background, highest for a query, from which its ranks are estimated
_MIN_TAIL = 5  # fewest background texts in that tail, if there are that many
_BLOCK = 512


@dataclass(frozen=True)
class Bm25Scorer(Scorer[Texts]):
    """m queries over v different words, as an inverted index; see `similar.py`."""

    keys: NDArray[np.uint64]  # [c], the table of words
    places: NDArray[np.int32]  # [c], the same
    lists: NDArray[np.int64]  # [v + 1], end of each rare word's queries in `docs`
    docs: NDArray[np.int32]  # [r], queries by word
    entries: NDArray[np.float32]  # [r], count in the query times inverse document frequency
    column_of: NDArray[np.int32]  # [v], a common word's column, -1 for the others
    columns: NDArray[np.float32]  # [c, m], the entries of the common words
    k1: float  # saturation of a word's count
    b: float  # share of the length in the normalization
    mean_length: float  # mean number of tokens of the background's texts
    shift: NDArray[np.float32]  # [m], subtracted from a query's scores
    scale: NDArray[np.float32]  # [m], by which they are multiplied then

    def __post_init__(self) -> None:
        m = len(self.shift)
        require_fit(
            is_table(self.keys, self.places, len(self.column_of)),
            similar.fits(self._index()[0], m),
            self.shift.shape == self.scale.shape == (m,),
            m > 0 and self.mean_length > 0,
        )

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts, float32 [n].

        With calibration, minus the natural logarithm of the best estimated rank, as a share of the
        corpus: 4.6 for a text among the best hundredth for some query. Else the best BM25 score.
        A text that shares no word with a query scores lowest.
        """
        return np.asarray(
            similar.bm25_best(*self._words(batch), *self._index(), self.shift, self.scale)
        )

    def matches(self, batch: Texts) -> NDArray[np.float32]:
        """The BM25 score of n texts for each of m queries, float32 [n, m]."""
        return np.asarray(similar.bm25_scores(*self._words(batch), *self._index()))

    def explain(self, text: str) -> list[Effect]:
        """How much each word adds to the score for the text's best query.

        The effects and the query's constant add up to the score.
        """
        ids, spelling = written_tokens(text)
        words = find_each(self.keys, self.places, ids)
        known, first, counts = np.unique(words, return_index=True, return_counts=True)
        shown = known >= 0
        if not shown.any():
            return []
        length = self.k1 * (1.0 - self.b + self.b * len(ids) / self.mean_length)
        added = np.array([self._entries(word) for word in known[shown]])
        added *= (counts / (counts + length))[shown, None]
        total = added.sum(axis=0)
        best = np.argmax(np.where(total > 0.0, (total - self.shift) * self.scale, -np.inf))
        effects = (added[:, best] * self.scale[best]).tolist()
        listed = [Effect(spelling[i], e) for i, e in zip(first[shown], effects, strict=True) if e]
        return sorted(listed, key=lambda e: -e.effect)

    def _entries(self, word: int) -> NDArray[np.float64]:
        """One word's entries, float64 [m]."""
        row = np.zeros(len(self.shift))
        at = slice(self.lists[word], self.lists[word + 1])
        row[self.docs[at]] = self.entries[at]
        if self.column_of[word] >= 0:
            row += self.columns[self.column_of[word]]
        return row

    def _words(self, texts: Texts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return found_in(texts, self.keys, self.places)

    def _index(self) -> tuple[similar.Index, float, float, float]:
        rare = (self.lists, self.docs, self.entries)
        full = similar.Index(*rare, self.column_of, self.columns)
        return full, self.k1, self.b, self.mean_length


@dataclass(frozen=True)
class Bm25(Method[Texts]):
    """Best estimated rank among the corpus for some target text, by BM25 (TLM).

    Attributes:
        k1: Saturation of a word's count; 0 ignores counts (default: 1.2).
        b: Share of the length in the normalization, from 0 to 1 (default: 0.75).
        queries: Most target texts to use, drawn at random (default: 2000).
        calibrated: Compare queries by estimated rank instead of BM25 score (default: true).
    """

    reads = "text"
    family = "lexical"
    scorer: ClassVar[type] = Bm25Scorer
    cost: ClassVar[str] = "75,000/s"

    k1: float = setting(1.2, minimum=0)
    b: float = setting(0.75, minimum=0, maximum=1)
    queries: int = setting(2000, minimum=1)
    calibrated: bool = True

    def fit(self, target: Texts, background: Texts, *, seed: int) -> Bm25Scorer:
        """Index the queries, and estimate the tail of each one's scores in the background."""
        worded = np.flatnonzero(np.diff(count_target_words(target, "bm25")[2]))
        sampled = np.random.default_rng(seed % 2**64).permutation(worded)[: self.queries]
        words, counts, ends = count_words(target.take(np.sort(sampled)))
        every, terms = np.unique(words, return_inverse=True)
        keys, places = table_of(every)
        grams, bounds = ngrams(background, 1)
        known = find_each(keys, places, count_each(grams, bounds)[0])
        n = len(background)
        m = len(ends) - 1
        df = np.bincount(known[known >= 0], minlength=len(every))
        idf = np.log(1.0 + (n - df + 0.5) / (df + 0.5))
        query = np.repeat(np.arange(m, dtype=np.int32), np.diff(ends))
        entries = (counts * idf[terms]).astype(np.float32)
        index = similar.inverted(terms.astype(np.int32), query, entries, len(every), m)
        mean = max(1.0, len(grams) / n)
        one = np.ones(m, np.float32)
        # without calibration: shift 0, scale 1
        plain = Bm25Scorer(
            keys,
            places,
            **index,
            k1=self.k1,
            b=self.b,
            mean_length=mean,
            shift=0.0 * one,
            scale=one,
        )
        return _calibrate(plain, background) if self.calibrated else plain


def _calibrate(plain: Bm25Scorer, background: Texts) -> Bm25Scorer:
    """Shift and scale every query, so that its scores estimate minus the log of a rank's share.

    The tail of a query's scores is taken as exponential, above its k-th highest score in the
    background. A mean excess is at least a tenth of the queries' median, because a query that
    hardly any background text matches has no tail to estimate.
    """
    n = len(background)
    k = min(max(_MIN_TAIL, round(_TAIL * n)), n - 1)
    # keep the k + 1 highest scores of each query, block by block
    top = np.zeros((0, len(plain.shift)), np.float32)
    for first in range(0, n, _BLOCK):
        block = plain.matches(background.slice(first, _BLOCK))
        top = -np.sort(-np.concatenate([top, block]), axis=0)[: k + 1]
    edge = top[-1].astype(np.float64)
    excess = (top[:-1] - edge).sum(axis=0) / max(k, 1)
    typical = float(np.median(excess[excess > 0.0])) if excess.any() else 1.0
    excess = np.maximum(excess, 0.1 * typical)
    shift = edge - excess * np.log(n / max(k, 1))
    return dataclasses.replace(
        plain, shift=shift.astype(np.float32), scale=(1.0 / excess).astype(np.float32)
    )
