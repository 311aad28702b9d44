"""A back-off n-gram model as one hash table, and its probabilities of texts.

What: n-grams of all lengths in one open-addressing table of (64-bit identity, log10 probability,
log10 back-off), and the log10 probability of texts, read from their UTF-8 bytes.
Why: scoring a corpus is only look-ups in memory. A slot is 16 bytes of one cache line, and n-grams
of one length are looked up for a whole stretch of text before the next length, so that dozens of
look-ups wait for memory together.
Trade-off: an n-gram is identified by its hash alone, as in KenLM's probing model, so two n-grams
collide with probability 2^-64. The table is half empty: 32 bytes per n-gram.
Reference: Heafield (2011), KenLM: Faster and Smaller Language Model Queries, section 3.1 (probing)
and section 4.1 (state); Katz back-off as the ARPA format defines it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.machine_words import Word
from corpusfit.kernels.tokens import BEGIN, END, follow, tokenise

UNKNOWN = np.uint64(3)
"""Identity of a token without a probability in the model."""

MAX_BYTES = 8192
"""Most bytes of a text that are tokenised at once; a longer token is split there."""

_HALF = np.uint64(32)
_NEXT = np.uint64(1)
_FREE = np.uint64(0)


def empty_table(n: int) -> NDArray[np.uint64]:
    """uint64 [slots, 2] with room for n n-grams: identity, then two float32 in 64 bits."""
    return np.zeros((max(2 * n, 8), 2), np.uint64)


def fits(table: NDArray[np.uint64], order: int) -> bool:
    """Whether `find` ends in a table and stays within it, and lengths of n-grams fit into int8."""
    shape = (len(table), 2)
    free = (table.reshape(-1, 2)[:, 0] == _FREE).any()
    return table.shape == shape and len(table) < 2**32 and bool(free) and 1 <= order < 128


@njit(cache=True, nogil=True, inline="always")
def _home(table: NDArray[np.uint64], key: Word) -> Word:
    """The slot at which the search for an n-gram begins."""
    return ((key >> _HALF) * np.uint64(len(table))) >> _HALF


@njit(cache=True, nogil=True, inline="always")
def _find(table: NDArray[np.uint64], key: Word, held: Word) -> Any:
    """As `find`, with the identity in the first slot as an argument."""
    at = _home(table, key)
    slots = np.uint64(len(table))
    while True:
        if held == key:
            return at, True
        if held == _FREE:
            return at, False
        at += _NEXT
        if at == slots:
            at = _FREE
        held = table[at, 0]


@njit(cache=True, nogil=True, inline="always")
def find(table: NDArray[np.uint64], key: Word) -> Any:
    """The slot of an n-gram and True; or the free slot for it and False."""
    return _find(table, key, table[_home(table, key), 0])


@njit(cache=True, nogil=True)
def put(
    table: NDArray[np.uint64],  # as from `empty_table`; changed
    keys: NDArray[np.uint64],  # uint64 [m], their identities
    probabilities: NDArray[np.float32],  # float32 [m], log10
    backoffs: NDArray[np.float32],  # float32 [m], log10; 0 for an n-gram that nothing follows
) -> int:
    """Put m n-grams into a table that has room for them.

    Returns:
        The index of the first n-gram that the table already had, or -1; it keeps its old values.
    """
    values = table.view(np.float32)
    twice = -1
    for i in range(len(keys)):
        at, exists = find(table, keys[i])
        if exists:
            twice = i if twice < 0 else twice
            continue
        table[at, 0] = keys[i]
        values[at, 2] = probabilities[i]
        values[at, 3] = backoffs[i]
    return twice


@njit(cache=True, nogil=True)
def keys_of(tokens: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64 [m]: the identities of m n-grams from those of their tokens, uint64 [m, k]."""
    keys = tokens[:, 0].copy()
    for j in range(1, tokens.shape[1]):
        for i in range(len(keys)):
            keys[i] = follow(keys[i], tokens[i, j])
    return keys


@njit(cache=True, nogil=True)
def incomplete(table: NDArray[np.uint64], tokens: NDArray[np.uint64]) -> int:
    """The first n-gram whose prefix or suffix is not in the table, or -1.

    Args:
        table: the n-grams that are shorter.
        tokens: uint64 [m, k], n-grams by their tokens' identities.
    """
    k = tokens.shape[1]
    if k == 1:
        return -1
    for i in range(len(tokens)):
        for first in range(2):
            key = tokens[i, first]
            for j in range(first + 1, first + k - 1):
                key = follow(key, tokens[i, j])
            if not find(table, key)[1]:
                return i
    return -1


@njit(cache=True, nogil=True)
def read_on(
    data: NDArray[np.uint8],
    begin: int,
    end: int,
    characters: NDArray[np.uint32],
    signs: bool,
    ids: NDArray[np.uint64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[int, int]:
    """Tokenise the next `MAX_BYTES` of a text, without cutting a token in two; see `tokenise`.

    The buffers have room for `MAX_BYTES` tokens. Returns the number of tokens, and where in `data`
    the rest of the text begins.
    """
    if end - begin <= MAX_BYTES:
        return tokenise(data, begin, end, characters, signs, ids, starts, ends), end
    stop = begin + MAX_BYTES
    while stop > begin + MAX_BYTES - 4 and data[stop] & 0xC0 == 0x80:
        stop -= 1
    n = tokenise(data, begin, stop, characters, signs, ids, starts, ends)
    if n > 0 and ends[n - 1] == stop and starts[n - 1] > begin:
        return n - 1, starts[n - 1]
    return n, stop


class _State(NamedTuple):
    """The tokens of a stretch of text, and what was looked up for them; token i is at i + 1."""

    grams: NDArray[np.uint64]  # [order, capacity], the n-gram of each length that ends at a token
    logs: NDArray[np.float64]  # log10 probabilities
    backs: NDArray[np.float32]  # [order, capacity], back-offs
    matched: NDArray[np.int8]  # length of the longest n-gram that the model knows
    held: NDArray[np.uint64]  # scratch: the identities in first slots
    places: NDArray[np.int64]  # scratch: positions


@njit(cache=True, nogil=True)
def _begin(table: NDArray[np.uint64], order: int, capacity: int) -> _State:
    """The state of a text at its begin: position 0 is that of the token before the first."""
    state = _State(
        np.empty((order, capacity), np.uint64),
        np.empty(capacity, np.float64),
        np.empty((order, capacity), np.float32),
        np.empty(capacity, np.int8),
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.int64),
    )
    _restart(table, state)
    return state


@njit(cache=True, nogil=True)
def _restart(table: NDArray[np.uint64], state: _State) -> None:
    at, exists = find(table, BEGIN)
    state.grams[0, 0] = BEGIN
    state.matched[0] = 1 if exists else 0
    state.backs[0, 0] = table.view(np.float32)[at, 3] if exists else np.float32(0)


@njit(cache=True, nogil=True)
def _match_longer(table: NDArray[np.uint64], k: int, n: int, state: _State) -> None:
    """Look up the n-grams of k + 1 tokens whose prefix and suffix were found.

    Three loops, so that many look-ups overlap: the positions, without a branch; the first slots,
    without a branch; the results.
    """
    grams, logs, backs, matched, held, places = state
    values = table.view(np.float32)
    count = 0
    for i in range(1, n + 1):
        places[count] = i
        count += (matched[i] == k) & (matched[i - 1] >= k)
    for j in range(count):
        i = places[j]
        gram = follow(grams[k - 1, i - 1], grams[0, i])
        grams[k, i] = gram
        held[j] = table[_home(table, gram), 0]
    for j in range(count):
        i = places[j]
        at, exists = _find(table, grams[k, i], held[j])
        if exists:
            logs[i] = values[at, 2]
            backs[k, i] = values[at, 3]
            matched[i] = k + 1


@njit(cache=True, nogil=True)
def _walk(table: NDArray[np.uint64], n: int, state: _State) -> None:
    """Log10 probabilities of the n tokens whose identities are grams[0, 1 : n + 1].

    Afterwards logs[1 : n + 1] holds them, matched the lengths of the n-grams found, and position 0
    the state for the next stretch of the same text.
    """
    grams, logs, backs, matched, held, _ = state
    order = len(grams)
    # a token that is not in the table becomes the unknown token
    values = table.view(np.float32)
    unknown, known = find(table, UNKNOWN)
    for i in range(1, n + 1):
        held[i] = table[_home(table, grams[0, i]), 0]
    for i in range(1, n + 1):
        at, exists = _find(table, grams[0, i], held[i])
        if not exists:
            grams[0, i] = UNKNOWN
            at = unknown
        logs[i] = values[at, 2]
        backs[0, i] = values[at, 3]
        matched[i] = 1 if exists or known else 0
    for k in range(1, order):
        _match_longer(table, k, n, state)
    for i in range(1, n + 1):
        for k in range(max(matched[i], 1), min(matched[i - 1], order - 1) + 1):
            logs[i] += backs[k - 1, i - 1]
    matched[0] = matched[n]
    for k in range(order):
        grams[k, 0] = grams[k, n]
        backs[k, 0] = backs[k, n]


@njit(cache=True, nogil=True)
def log_probabilities(
    table: NDArray[np.uint64],  # the model
    order: int,  # the length of its longest n-grams
    data: NDArray[np.uint8],  # data, offsets, characters, signs: see `tokens`
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    signs: bool,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The log10 probability of texts, each with its begin as context and its end as a token.

    Returns:
        float64 [n], log10 probabilities; int64 [n], number of tokens, the end included.
    """
    ids = np.empty(MAX_BYTES, np.uint64)
    starts = np.empty(MAX_BYTES, np.int64)
    ends = np.empty(MAX_BYTES, np.int64)
    state = _begin(table, order, MAX_BYTES + 2)
    totals = np.zeros(len(offsets) - 1)
    tokens = np.zeros(len(offsets) - 1, np.int64)
    for t in range(len(totals)):
        _restart(table, state)
        at = offsets[t]
        end = offsets[t + 1]
        over = False
        while not over:
            n, at = read_on(data, at, end, characters, signs, ids, starts, ends)
            over = at >= end
            for i in range(n):  # an assignment of slices takes 2 s more to compile
                state.grams[0, i + 1] = ids[i]
            if over:
                n += 1
                state.grams[0, n] = END
            _walk(table, n, state)
            for i in range(1, n + 1):
                totals[t] += state.logs[i]
            tokens[t] += n
    return totals, tokens


@njit(cache=True, nogil=True)
def token_probabilities(
    table: NDArray[np.uint64], order: int, ids: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """The log10 probabilities of one text, token by token.

    Args:
        table: the model.
        order: the length of its longest n-grams.
        ids: uint64 [n], the text's tokens without begin and end.

    Returns:
        float64 [n + 1], log10 probability of each token and of the end; int8 [n + 1], length of the
        longest n-gram that the model knows there (0 or 1 for an unknown token).
    """
    n = len(ids) + 1
    state = _begin(table, order, n + 1)
    for i in range(n - 1):
        state.grams[0, i + 1] = ids[i]
    state.grams[0, n] = END
    _walk(table, n, state)
    return state.logs[1:], state.matched[1:]
