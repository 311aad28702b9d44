"""Other tools and papers as published, for benchmarks/benefit.py: one float for each text.

All of them score the segments that our methods score, and see the target's texts normalized as for
our methods, so that a task's tokenisation and marks do not decide.
`peer_dsir` and `peer_fasttext` need requirements-bench.txt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.text import normalize

Numbers = NDArray[np.float64]
Peer = Callable[[Sequence[str]], Numbers]
"""Scores of n texts, float64 [n]; the first taken has the highest."""

SMOOTHING, LEAST = 0.01, 3
"""Of the cynical scripts: added to counts, and the count of a word that texts are searched by."""


def dsir(texts: Sequence[str], wanted: Sequence[str], seed: int) -> Numbers:
    """Log importance weights plus Gumbel noise, as `HashedNgramDSIR.resample` takes them.

    Defaults of the package; texts below its least length of 100 tokens come last.
    Source: Xie et al. (2023), https://github.com/p-lambda/dsir (data-selection 1.0.3).
    """
    from data_selection import HashedNgramDSIR

    sides = {"raw": texts, "target": wanted}

    def read(side: str) -> Any:
        return ({"text": text} for text in sides[side])

    with tempfile.TemporaryDirectory() as cache:
        made = HashedNgramDSIR(["raw"], ["target"], cache, read, target_load_dataset_fn=read)
        made.num_proc = 1
        made.fit_importance_estimator()
        made.compute_importance_weights()
        weights = np.load(made.log_importance_weights_dir / "0.npy")
        lengths = np.load(made.perexample_metadata_dir / "0.npy")
    noisy = weights + np.random.default_rng(seed).gumbel(size=len(weights))
    short = ~made.perexample_metadata_filter(lengths)
    return np.where(short, noisy - np.ptp(noisy) - 1, noisy)


def fasttext(texts: Sequence[str], wanted: Sequence[str], seed: int) -> Numbers:
    """Probability of the target by a classifier against as many random texts, as DCLM's.

    Words and pairs of words, otherwise the defaults of fastText, on one thread as its result
    depends on their number; training texts in seeded order.
    Source: Li et al. (2024), arXiv 2406.11794, section 4.4; its train_fasttext_classifier.py.
    """
    from fasttext import train_supervised

    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(texts), min(len(wanted), len(texts)), replace=False)
    rows = [f"__label__hq {line(text)}\n" for text in wanted]
    rows += [f"__label__cc {line(texts[i])}\n" for i in drawn]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        path.write_text("".join(rows[i] for i in rng.permutation(len(rows))), "utf-8")
        model = train_supervised(str(path), wordNgrams=2, thread=1, seed=seed, verbose=0)
    found = zip(*model.predict([line(text) for text in texts]), strict=True)
    return np.array([p if name == "__label__hq" else 1 - p for (name,), (p,) in found], np.float64)


def line(text: str) -> str:
    """A text in one line, as DCLM gives it to fastText."""
    return " ".join(text.strip().splitlines())


def cynical(
    texts: Sequence[str], wanted: Sequence[str], seed: int, by_word: bool = False
) -> Numbers:
    """Cynical selection of one text at a time: minus the step at which a text is taken.

    Each step takes the text that lowers the target's cross-entropy most, not divided by its length,
    by an exact search among all texts. `by_word` searches as the author's scripts do: only among
    the texts with the word that would gain most; words of a count below 3 on both sides are not
    searched by, and texts without any other word come last. Unlike in the scripts, texts above 100
    words are taken too (most segments are), no random text is taken first for each frequent word,
    and ties go by position, so that the seed is not used.
    Source: Axelrod (2017), arXiv 1709.02279, and its scripts in one-text mode.
    """
    words, _ = number_words(*buffers(text_array([*wanted, *texts])), characters(), False)
    text = np.cumsum(words == 1) - 1 - len(wanted)  # 1 begins a text and 2 ends it
    text, words = text[words > 2], words[words > 2].astype(np.int64)
    n, size = len(texts), int(words.max(initial=0)) + 1
    task, available = (np.bincount(words[of], minlength=size) for of in (text < 0, text >= 0))
    share = task / max(task.sum(), 1)
    kept = (text >= 0) & (task[words] > 0)
    pairs, counts = np.unique(text[kept] * size + words[kept], return_counts=True)
    rows, columns = np.divmod(pairs, size)
    starts, lengths = (
        np.searchsorted(rows, np.arange(n + 1)),
        np.bincount(text[text >= 0], minlength=n),
    )
    if by_word:
        searched = (task > 0) & (np.maximum(task, available) >= LEAST)
        order = np.argsort(columns, kind="stable")
        lists, having = np.searchsorted(columns[order], np.arange(size + 1)), rows[order]
    else:  # one word, of no share, that all texts have
        searched = np.arange(size) == 0
        lists, having = np.array([0] + [n] * size), np.arange(n)
    return -taking(starts, columns, counts, lengths, lists, having, share, searched).astype(float)


@njit
def change(
    words: NDArray[np.int64], counts: NDArray[np.int64], taken: Numbers, share: Numbers
) -> float:
    """Change of the cross-entropy by the counts of a text, without that by its length."""
    gain = 0.0
    for k in range(len(words)):
        had = taken[words[k]]
        gain += share[words[k]] * np.log((had + SMOOTHING) / (had + counts[k]))
    return gain


@njit
def taking(
    starts: NDArray[np.int64],
    words: NDArray[np.int64],
    counts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    lists: NDArray[np.int64],
    having: NDArray[np.int64],
    share: Numbers,
    searched: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The step at which each text is taken, int64 [n]; n for those without a word to search by.

    Gains only fall as counts grow, so an earlier gain bounds today's: a text is scored again only
    if it could be the best.

    Args:
        starts: int64 [n + 1]; words[starts[i] : starts[i + 1]] are the target's words in text i.
        words: int64 [p], a text's words once each.
        counts: int64 [p], how often the text has them.
        lengths: int64 [n], words of each text, the others too.
        lists: int64 [v + 1]; having[lists[w] : lists[w + 1]] are the texts with word w.
        having: int64, texts.
        share: float64 [v], of the target's words.
        searched: bool [v], which words texts are searched by.
    """
    n = len(lengths)
    step, gain = np.full(n, n), np.full(n, -np.inf)
    taken, total = np.zeros(len(share)), 0.0
    estimate = np.where(searched, share * np.log(SMOOTHING), np.inf)
    at = 0
    while at < n:
        word = np.argmin(estimate)
        if estimate[word] == np.inf:
            break
        best, lowest = -1, np.inf
        for i in having[lists[word] : lists[word + 1]]:
            if step[i] < n:
                continue
            more = (
                (lengths[i] + 2 * SMOOTHING) / SMOOTHING if total == 0 else 1 + lengths[i] / total
            )
            penalty = np.log(more)
            if penalty + gain[i] >= lowest:
                continue
            own = slice(starts[i], starts[i + 1])
            gain[i] = change(words[own], counts[own], taken, share)
            if penalty + gain[i] < lowest:
                best, lowest = i, penalty + gain[i]
        if best < 0:
            estimate[word] = np.inf
            continue
        step[best] = at
        at += 1
        total += lengths[best]
        for k in range(starts[best], starts[best + 1]):
            v = words[k]
            taken[v] += counts[k]
            if searched[v] and estimate[v] < np.inf:
                estimate[v] = share[v] * np.log((taken[v] + SMOOTHING) / (taken[v] + 1))
    return step


PEERS = {
    "peer_dsir": dsir,
    "peer_fasttext": fasttext,
    "peer_cynical": cynical,
    "peer_cynical_words": partial(cynical, by_word=True),
}
"""Names as methods of benchmarks/benefit.py: (n texts, target texts, seed) -> float64 [n]."""


def peer_of(method: str, wanted: Sequence[str], seed: int) -> Peer | None:
    """The peer of a name, for a target's texts; None if none has that name."""
    if method not in PEERS:
        return None
    shown = [normalize(text) for text in wanted]
    return lambda texts: PEERS[method](texts, shown, seed)
