"""BM25 of texts for many queries.

What: for every text of a batch its BM25 score for each of m queries, or the best of these scores,
each shifted and scaled by its query.
Why: a text is matched with all queries at once. Its words walk an inverted index of the queries,
with columns for common words and lists for rare ones, as in `kernels/similar.py`.
Trade-off: every query that shares a word with the text is added up, none is pruned. Sums are
float32, in the order in which a text's words first occur, so a text has the same bits in any batch.
A text's length is exact; Lucene stores it in one byte.
Reference: Robertson and Zaragoza (2009), The Probabilistic Relevance Framework, section 3;
Kamphuis et al. (2020), Which BM25 Do You Mean?, "Lucene (accurate)".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.grams import find, longest
from corpusfit.kernels.similar import add_column
from corpusfit.kernels.tokens import tokenise


@njit(cache=True, nogil=True)
def _add_up(
    ids: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    places: NDArray[np.int32],
    lists: NDArray[np.int64],
    docs: NDArray[np.int32],
    entries: NDArray[np.float32],
    column_of: NDArray[np.int32],
    columns: NDArray[np.float32],
    saturation: Any,
    words: NDArray[np.int64],
    counts: NDArray[np.int32],
    sums: NDArray[np.float32],
) -> None:
    """Write the scores of the text with tokens `ids` [t] into `sums` [m].

    The index is that of `scores`; `saturation` is k1 times the text's normalised length; `words`
    has room for t places; `counts` [v] is zero before and after.
    """
    different = 0
    for token in ids:
        word = find(keys, places, token)
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
def scores(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    places: NDArray[np.int32],
    lists: NDArray[np.int64],
    docs: NDArray[np.int32],
    entries: NDArray[np.float32],
    column_of: NDArray[np.int32],
    columns: NDArray[np.float32],
    k1: float,
    b: float,
    mean_length: float,
) -> NDArray[np.float32]:
    """The BM25 score of every text for each of m queries.

    For a query q it is the sum over its words w of e(w, q) tf / (tf + k1 (1 - b + b l / mean)),
    where tf counts w in the text, l is the text's number of tokens, and e is an entry of the index:
    w's count in the query times its inverse document frequency.

    Args:
        data: uint8 [b], the bytes of n texts.
        offsets: int64 [n + 1], where they begin.
        characters: what `characters.table` returns.
        keys: the table of the queries' v words, see `grams.table_of`.
        places: the same.
        lists: int64 [v + 1]; a rare word w is in the queries `docs[lists[w] : lists[w + 1]]`.
        docs: int32 [r].
        entries: float32 [r], the entries in the lists' order.
        column_of: int32 [v], a common word's column, -1 for the others.
        columns: float32 [c, m], the common words' entries.
        k1: saturation of a word's count, at least 0.
        b: share of the length in the normalisation, from 0 to 1.
        mean_length: mean number of tokens of a text, above 0.

    Returns:
        float32 [n, m].
    """
    n, m = len(offsets) - 1, columns.shape[1]
    ids = np.empty(longest(offsets), np.uint64)
    words = np.empty(len(ids), np.int64)
    counts = np.zeros(len(column_of), np.int32)
    out = np.empty((n, m), np.float32)
    for i in range(n):
        t = tokenise(data, offsets[i], offsets[i + 1], characters, False, ids, None, None)
        length = k1 * (1.0 - b + b * t / mean_length)
        index = (keys, places, lists, docs, entries, column_of, columns)
        _add_up(ids[:t], *index, length, words, counts, out[i])
    return out


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _highest(
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
def best(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    places: NDArray[np.int32],
    lists: NDArray[np.int64],
    docs: NDArray[np.int32],
    entries: NDArray[np.float32],
    column_of: NDArray[np.int32],
    columns: NDArray[np.float32],
    k1: float,
    b: float,
    mean_length: float,
    shift: NDArray[np.float32],
    scale: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Every text's highest (score - shift) scale over the queries with which it shares a word.

    Takes what `scores` takes, then `shift` and `scale`, both float32 [m], one number per query;
    scales are above 0.

    Returns:
        float32 [n]; for a text without such a query the lowest value that any query can give.
    """
    n, m = len(offsets) - 1, columns.shape[1]
    ids = np.empty(longest(offsets), np.uint64)
    words = np.empty(len(ids), np.int64)
    counts = np.zeros(len(column_of), np.int32)
    sums = np.empty(m, np.float32)
    out = np.empty(n, np.float32)
    least = (-shift * scale).min()
    for i in range(n):
        t = tokenise(data, offsets[i], offsets[i + 1], characters, False, ids, None, None)
        length = k1 * (1.0 - b + b * t / mean_length)
        index = (keys, places, lists, docs, entries, column_of, columns)
        _add_up(ids[:t], *index, length, words, counts, sums)
        out[i] = _highest(sums, shift, scale, least)
    return out
