"""Similarity of bags of words: cosines to one vector or the nearest of many, BM25 for many queries.

What: for every text of a batch the cosine of its weighted word counts with one vector, or the mean
of its k highest cosines with m sparse vectors; its BM25 score for each of m queries, or the best of
these scores, each shifted and scaled by its query.
Why: one vector needs one addition per token. Many vectors need an inverted index. Most of its
entries belong to a few common words, and adding an entry of a list costs as much as adding sixteen
neighbors of a whole column; so common words have columns, including zeros, and rare words have
lists.
Trade-off: nothing is pruned by bounds: common words can add so much that max-score and
Cauchy-Schwarz bounds pass nearly every vector and cost more than they save. Sums in float32 only
find the candidates for the best k; those are multiplied out, each in the order of its own words, so
a score is exact and has the same bits for any layout of the index. BM25's sums are float32, in the
order in which a text's words first occur, so a text has the same bits in any batch; a text's length
is exact, while Lucene stores it in one byte.
Reference: Zobel and Moffat (2006), Inverted files for text search engines, section 4; Robertson and
Zaragoza (2009), The Probabilistic Relevance Framework, section 3; Kamphuis et al. (2020), Which
BM25 Do You Mean?, "Lucene (accurate)".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit_papers.words import within

_SLACK = 1e-5  # more than the error of sums in float32, as a share of the text's length
_BLOCK = 64
_COMMON = 1 / 16  # share of the vectors above which a column costs less than a list


class Index(NamedTuple):
    """An inverted index of m sparse vectors over v words, whose entries are at least 0."""

    lists: NDArray[np.int64]  # [v + 1], a rare word w is in the vectors docs[lists[w] : lists[w+1]]
    docs: NDArray[np.int32]  # [r]
    entries: NDArray[np.float32]  # [r], the vectors' entries in that order
    column_of: NDArray[np.int32]  # [v], a common word's column, -1 for the others
    columns: NDArray[np.float32]  # [c, m], the entries of the common words


@njit(cache=True, nogil=True)
def cosines(
    found: NDArray[np.int64],  # each token's word, -1 for an unknown one
    ends: NDArray[np.int64],  # int64 [n + 1], text i has `found[ends[i] : ends[i + 1]]`
    # float32 [v]; 0 or more; a text's entry for a word is its count times this
    weight: NDArray[np.float32],
    vector: NDArray[np.float32],  # float32 [v], of length 1
) -> NDArray[np.float32]:
    """The cosine of every text's weighted word counts with one vector.

    Returns:
        float32 [n]; 0 for a text without a known word.
    """
    n = len(ends) - 1
    counts = np.zeros(len(weight), np.float32)
    out = np.zeros(n, np.float32)
    for i in range(n):
        words = found[ends[i] : ends[i + 1]]
        square = 0.0
        product = 0.0
        for word in words:
            if word >= 0:
                had = counts[word]
                w = np.float64(weight[word])
                square += w * w * (2.0 * had + 1.0)  # (had + 1)² - had²
                product += w * vector[word]
                counts[word] = had + np.float32(1)
        for word in words:
            if word >= 0:
                counts[word] = 0
        if square > 0.0:
            out[i] = product / np.sqrt(square)
    return out


@njit(cache=True, nogil=True)
def _keep_best(best: NDArray[np.float64], value: float) -> None:
    """Insert a value into the k best so far, which are decreasing."""
    j = len(best) - 1
    if value <= best[j]:
        return
    while j > 0 and best[j - 1] < value:
        best[j] = best[j - 1]
        j -= 1
    best[j] = value


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _highest(block: NDArray[np.float32]) -> np.float32:
    high = np.float32(0)
    for x in block:
        high = max(high, x)
    return high


@njit(cache=True, nogil=True)
def _best_mean(
    sums: NDArray[np.float32],
    slack: float,
    query: NDArray[np.float32],
    ends: NDArray[np.int64],
    terms: NDArray[np.int32],
    values: NDArray[np.float32],
    best: NDArray[np.float64],
) -> float:
    """The mean of the k highest products of one text, whose approximate products are `sums` [m]."""
    # the k-th highest of the sums; 0 if fewer than k are above 0
    best[:] = 0.0
    for first in range(0, len(sums), _BLOCK):
        block = sums[first : first + _BLOCK]
        if _highest(block) > best[-1]:
            for x in block:
                _keep_best(best, np.float64(x))
    theta = best[-1] - 2.0 * slack
    best[:] = 0.0
    for first in range(0, len(sums), _BLOCK):
        block = sums[first : first + _BLOCK]
        if _highest(block) >= theta:
            for i in range(len(block)):
                if block[i] >= theta and block[i] > 0:
                    # multiplied out in the order of the vector's words
                    total = 0.0
                    for at in range(ends[first + i], ends[first + i + 1]):
                        total += np.float64(query[terms[at]]) * values[at]
                    _keep_best(best, total)
    return float(best.mean())


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_column(sums: NDArray[np.float32], q: np.float32, column: NDArray[np.float32]) -> None:
    """Add q times a column [m] to the sums [m]."""
    for d in range(len(sums)):
        sums[d] += q * column[d]


@njit(cache=True, nogil=True)
def nearest_cosines(
    found: NDArray[np.int64],  # found, through: see `cosines`
    through: NDArray[np.int64],
    index: Index,  # of the vectors
    # float32 [v]; 0 or more; a text's entry for a word is its count times this
    weight: NDArray[np.float32],
    # int64 [m + 1]; vector d is `terms[ends[d] : ends[d + 1]]` with `values`
    ends: NDArray[np.int64],
    terms: NDArray[np.int32],  # int32 [e], words by place
    values: NDArray[np.float32],  # float32 [e], 0 or more
    k: int,  # at most m
) -> NDArray[np.float32]:
    """The mean of every text's k highest cosines with m sparse vectors of length 1 or 0.

    Returns:
        float32 [n]; 0 for a text without a known word.
    """
    lists, docs, entries, column_of, columns = index
    n = len(through) - 1
    words = np.empty(len(weight), np.int64)
    query = np.zeros(len(weight), np.float32)
    sums = np.empty(len(ends) - 1, np.float32)
    best = np.empty(k, np.float64)
    out = np.zeros(n, np.float32)
    for i in range(n):
        different = 0
        for word in found[through[i] : through[i + 1]]:
            if word >= 0:
                if query[word] == 0:
                    words[different] = word
                    different += 1
                query[word] += weight[word]
        # add up products with all vectors, word by word: common words by column, rare ones by list
        square = 0.0
        sums[:] = 0
        for word in words[:different]:
            q = query[word]
            square += np.float64(q) ** 2
            if column_of[word] >= 0:
                add_column(sums, q, columns[column_of[word]])
            for at in range(lists[word], lists[word + 1]):
                sums[docs[at]] += q * entries[at]
        if square > 0.0:
            length = np.sqrt(square)
            mean = _best_mean(sums, _SLACK * length, query, ends, terms, values, best)
            out[i] = mean / length
        # clear only what this text has set
        query[words[:different]] = 0
    return out


def fits(index: Index, m: int) -> bool:
    """Whether an index is one of m vectors."""
    lists, docs, entries, column_of, columns = index
    return (
        columns.ndim == 2
        and columns.shape[1] == m
        and lists.shape == (len(column_of) + 1,)
        and docs.shape == entries.shape == (len(docs),)
        and within(lists, 0, len(docs) + 1)
        and within(docs, 0, m)
        and within(column_of, -1, len(columns))
    )


def inverted(
    terms: NDArray[np.int32], doc: NDArray[np.int32], values: NDArray[np.float32], v: int, m: int
) -> dict[str, NDArray[Any]]:
    """The e entries of m sparse vectors as lists of rare words and columns of common words.

    Args:
        terms: int32 [e], each entry's word, below v.
        doc: int32 [e], its vector.
        values: float32 [e].
        v: number of words.
        m: number of vectors.

    Returns:
        The fields of `Index`.
    """
    often = np.flatnonzero(np.bincount(terms, minlength=v) > _COMMON * m)
    column_of = np.full(v, -1, np.int32)
    column_of[often] = np.arange(len(often))
    columns = np.zeros((len(often), m), np.float32)
    common = column_of[terms] >= 0
    columns[column_of[terms[common]], doc[common]] = values[common]
    terms = terms[~common]
    doc = doc[~common]
    values = values[~common]
    order = np.argsort(terms, kind="stable")
    return {
        "lists": np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=v))]),
        "docs": doc[order],
        "entries": values[order],
        "column_of": column_of,
        "columns": columns,
    }


@njit(cache=True, nogil=True)
def _add_up_bm25(
    text: NDArray[np.int64],
    index: Index,
    saturation: Any,
    words: NDArray[np.int64],
    counts: NDArray[np.int32],
    sums: NDArray[np.float32],
) -> None:
    """Write the scores of the text with these words [t] into `sums` [m].

    `saturation` is k1 times the text's normalized length; `words` has room for v places; `counts`
    [v] is zero before and after.
    """
    lists, docs, entries, column_of, columns = index
    different = 0
    for word in text:
        if word >= 0:
            if counts[word] == 0:
                words[different] = word
                different += 1
            counts[word] += 1
    sums[:] = 0
    for word in words[:different]:
        share = np.float32(counts[word] / (counts[word] + saturation))
        counts[word] = 0
        if column_of[word] >= 0:
            add_column(sums, share, columns[column_of[word]])
        for at in range(lists[word], lists[word + 1]):
            sums[docs[at]] += share * entries[at]


@njit(cache=True, nogil=True)
def bm25_scores(
    found: NDArray[np.int64],  # found, ends: see `cosines`
    ends: NDArray[np.int64],
    index: Index,  # of the queries
    k1: float,  # saturation of a word's count, at least 0
    b: float,  # share of the length in the normalization, from 0 to 1
    mean_length: float,  # mean number of tokens of a text, above 0
) -> NDArray[np.float32]:
    """The BM25 score of every text for each of m queries.

    For a query q it is the sum over its words w of e(w, q) tf / (tf + k1 (1 - b + b l / mean)),
    where tf counts w in the text, l is the text's number of tokens, and e is an entry of the index:
    w's count in the query times its inverse document frequency.

    Returns:
        float32 [n, m].
    """
    n = len(ends) - 1
    m = index.columns.shape[1]
    words = np.empty(len(index.column_of), np.int64)
    counts = np.zeros(len(index.column_of), np.int32)
    out = np.empty((n, m), np.float32)
    for i in range(n):
        text = found[ends[i] : ends[i + 1]]
        length = k1 * (1.0 - b + b * len(text) / mean_length)
        _add_up_bm25(text, index, length, words, counts, out[i])
    return out


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _highest_scaled(
    sums: NDArray[np.float32],
    shift: NDArray[np.float32],
    scale: NDArray[np.float32],
    least: np.float32,
) -> np.float32:
    """`least` or the highest (sum - shift) scale of a sum above 0; it has no order to respect."""
    high = least
    for q in range(len(sums)):
        x = (sums[q] - shift[q]) * scale[q]
        high = max(high, x if sums[q] > 0 else least)
    return high


@njit(cache=True, nogil=True)
def bm25_best(
    found: NDArray[np.int64],
    ends: NDArray[np.int64],
    index: Index,
    k1: float,
    b: float,
    mean_length: float,
    shift: NDArray[np.float32],
    scale: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Every text's highest (score - shift) scale over the queries with which it shares a word.

    Takes what `bm25_scores` takes, then `shift` and `scale`, both float32 [m], one number per
    query; scales are above 0.

    Returns:
        float32 [n]; for a text without such a query the lowest value that any query can give.
    """
    n = len(ends) - 1
    m = index.columns.shape[1]
    words = np.empty(len(index.column_of), np.int64)
    counts = np.zeros(len(index.column_of), np.int32)
    sums = np.empty(m, np.float32)
    out = np.empty(n, np.float32)
    least = (-shift * scale).min()
    for i in range(n):
        text = found[ends[i] : ends[i + 1]]
        length = k1 * (1.0 - b + b * len(text) / mean_length)
        _add_up_bm25(text, index, length, words, counts, sums)
        out[i] = _highest_scaled(sums, shift, scale, least)
    return out
