"""`tfidf`: shares the target's rare words.

What: the cosine between the TF-IDF vectors of a text and of the target: with the target's mean
(`centroid`), or averaged over the `k` nearest target texts (`nearest`).
Why: the standard lexical similarity; it needs no model, and explanations can show the effect of
every word.
Trade-off: `centroid` runs at the speed of the disk and blurs a target of several topics; `nearest`
keeps them apart, costs time that grows with the target, and accepts texts that repeat a few target
texts. Inverse document frequencies come from target and background together, smoothed as if one
more text held every word: ln((1 + N) / (1 + df)). scikit-learn adds 1, which lets the most frequent
words decide: average precision 0.50 instead of 0.79 (benchmarks/log.md). Words outside both sets
are ignored.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equations 2 to 4 (term counts need no
division by the text's length, which a cosine cancels; its plain ratio N / df is `idf = "ratio"`);
Salton and Buckley (1988), Term-weighting approaches in automatic text retrieval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Effect,
    Method,
    Scorer,
    Texts,
    find_each,
    require_fit,
    setting,
    table_of,
    written_tokens,
)
from corpusfit_papers import similar
from corpusfit_papers.similar import cosines, inverted, nearest_cosines
from corpusfit_papers.words import count_target_words, count_words, found_in, is_table, within

_COMPARE = ("centroid", "nearest")
_IDF = ("log", "ratio")


@dataclass(frozen=True)
class TfidfScorer(Scorer[Texts]):
    """v words and their weights in the target; m target texts with `nearest`, else none."""

    keys: NDArray[np.uint64]  # [c], the table of words, see `table_of`
    places: NDArray[np.int32]  # [c], the same
    idf: NDArray[np.float32]  # [v], most frequent word first; 0 for a word that every text has
    centroid: NDArray[np.float32]  # [v] of length 1, or zero for a zero target; [0] with `nearest`
    ends: NDArray[np.int64]  # [m + 1], end of each target text's words in `terms`
    terms: NDArray[np.int32]  # [e], the words of the target texts
    values: NDArray[np.float32]  # [e], their weights in vectors of length 1
    lists: NDArray[np.int64]  # [v + 1], end of each rare word's target texts in `docs`
    docs: NDArray[np.int32]  # [r], target texts by word
    entries: NDArray[np.float32]  # [r], their weights in that order
    column_of: NDArray[np.int32]  # [v], a common word's column, -1 for the others
    columns: NDArray[np.float32]  # [c, m], the weights of the common words
    k: int  # number of target texts to average over; 0 with `centroid`

    def __post_init__(self) -> None:
        v = len(self.idf)
        m = len(self.ends) - 1
        e = len(self.terms)
        near = (
            similar.fits(self._index(), m),
            len(self.column_of) == v,
            self.values.shape == self.terms.shape == (e,),
            within(self.terms, 0, v) and within(self.ends, 0, e + 1),
            1 <= self.k <= m,
        )
        known = is_table(self.keys, self.places, v)
        require_fit(known, *(near if self.k else [self.centroid.shape == (v,)]))

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: the (mean) cosine, float32 [n] in [0, 1]; 0 without a known word."""
        words = found_in(batch, self.keys, self.places)
        if self.k == 0:
            cosine = cosines(*words, self.idf, self.centroid)
        else:
            vectors = (self.ends, self.terms, self.values)
            cosine = nearest_cosines(*words, self._index(), self.idf, *vectors, self.k)
        return np.asarray(np.minimum(cosine, np.float32(1.0)))

    def explain(self, text: str) -> list[Effect]:
        """For every known word, the score minus the score without that word.

        A word that the target lacks lowers the score. With `nearest` the nearest target texts stay
        the same.
        """
        ids, spelling = written_tokens(text)
        words = find_each(self.keys, self.places, ids)
        known, first, counts = np.unique(words, return_index=True, return_counts=True)
        shown = known >= 0
        known = known[shown]
        first = first[shown]
        query = counts[shown] * self.idf[known].astype(np.float64)
        products = self._rows(known, query) * query
        square = float((query**2).sum())
        without = np.sqrt(np.maximum(square - query**2, 0.0))
        total = products.sum(axis=1, keepdims=True)
        rest = np.divide(
            total - products, without, out=np.zeros_like(products), where=without > 1e-9
        )
        effects = (total / np.sqrt(square or 1.0) - rest).mean(axis=0)
        listed = [
            Effect(spelling[i], float(e)) for i, e in zip(first, effects, strict=True) if e != 0.0
        ]
        return sorted(listed, key=lambda e: -e.effect)

    def _index(self) -> similar.Index:
        rare = (self.lists, self.docs, self.entries)
        return similar.Index(*rare, self.column_of, self.columns)

    def _rows(self, known: NDArray[np.int64], query: NDArray[np.float64]) -> NDArray[np.float64]:
        """The target's side of the comparison, float64 [rows, known]: the mean or the k nearest."""
        if self.k == 0:
            return self.centroid[known][None].astype(np.float64)
        full = np.zeros(len(self.idf))
        full[known] = query
        docs = np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))
        products = np.bincount(docs, full[self.terms] * self.values, len(self.ends) - 1)
        rows = np.zeros((self.k, len(self.idf)))
        for row, d in enumerate(np.argsort(-products, kind="stable")[: self.k]):
            at = slice(self.ends[d], self.ends[d + 1])
            rows[row, self.terms[at]] = self.values[at]
        return rows[:, known]


@dataclass(frozen=True)
class Tfidf(Method[Texts]):
    """Cosine between the TF-IDF vectors of a text and of the target.

    Attributes:
        compare: Compare with the target's mean (centroid) or its nearest texts (nearest) (default:
            centroid).
        k: Number of target texts to average over with nearest (default: 20).
        idf: Inverse document frequency: log for ln((1 + N) / (1 + df)), ratio for N / df as in
            TextGram (default: log).
    """

    reads = "text"
    family = "lexical"
    scorer: ClassVar[type] = TfidfScorer
    cost: ClassVar[str] = "250,000/s"

    compare: str = setting("centroid", allowed=_COMPARE)
    k: int = setting(20, minimum=1)
    idf: str = setting("log", allowed=_IDF)

    def fit(self, target: Texts, background: Texts, *, seed: int) -> TfidfScorer:
        """Count the words of both, and weight the target's; the seed is not used."""
        words, counts, ends = count_target_words(target, "tfidf")
        every = np.concatenate([words, count_words(background)[0]])
        keys, places, idf = self._vocabulary(every, len(target) + len(background))
        terms = find_each(keys, places, words).astype(np.int32)
        doc = np.repeat(np.arange(len(target), dtype=np.int32), np.diff(ends))
        raw = counts * idf[terms].astype(np.float64)
        length = np.sqrt(np.bincount(doc, raw**2, len(target)))
        values = np.divide(raw, length[doc], out=np.zeros_like(raw), where=raw > 0.0)
        if self.compare == "nearest":
            k = min(self.k, len(target))
            mean = np.empty(0, np.float32)
        else:
            k = 0
            mean = _unit(np.bincount(terms, values, len(idf)))
            ends = ends[:1]
            terms = terms[:0]
            values = values[:0]
            doc = doc[:0]
        values = values.astype(np.float32)
        index = inverted(terms, doc, values, len(idf), len(ends) - 1)
        return TfidfScorer(keys, places, idf, mean, ends, terms, values, k=k, **index)

    def _vocabulary(
        self, words: NDArray[np.uint64], n: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.float32]]:
        """Table and inverse document frequencies of the different words of n texts."""
        every, df = np.unique(words, return_counts=True)
        order = np.argsort(-df, kind="stable")
        df = df[order]
        keys, places = table_of(every[order])
        idf = n / df if self.idf == "ratio" else np.log((1 + n) / (1 + df))
        return keys, places, idf.astype(np.float32)


def _unit(vector: NDArray[Any]) -> NDArray[np.float32]:
    length = float(np.sqrt((vector**2).sum()))
    return (vector / length if length > 0.0 else vector).astype(np.float32)
