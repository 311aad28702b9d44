"""What texts have in common: words that tell clusters apart, and the traits of outliers.

What: a cluster's own words, and how many of some texts are short, have numbers, personal pronouns
or questions, beside how many of all.
Why: a cluster is known by its words; and texts that lie with another domain do so for a reason.
Trade-off: the pronouns are English; in other languages the figure says nothing.
Reference: Aharoni and Goldberg (2020), section 2.6 and Table 2; Kullback and Leibler (1951).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_PRONOUN = re.compile(
    r"\b(?:i|me|my|mine|myself|we|us|our|ours|you|your|yours|he|him|his|she|her|hers|it|its"
    r"|they|them|their|theirs)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d")


@dataclass(frozen=True)
class Traits:
    """Of some texts.

    Attributes:
        texts: how many.
        words: the mean number of words in one.
        numbers: the share with a digit.
        pronouns: the share with a personal pronoun.
        questions: the share with a question mark.
        pronouns_or_questions: the share with either.
    """

    texts: int
    words: float
    numbers: float
    pronouns: float
    questions: float
    pronouns_or_questions: float


def traits(texts: Sequence[str]) -> Traits:
    """The traits of some texts; zeros of none."""
    if not texts:
        return Traits(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    seen = np.array(
        [
            (
                len(_WORD.findall(text)),
                bool(_NUMBER.search(text)),
                bool(_PRONOUN.search(text)),
                any(mark in text for mark in "?？؟"),
            )
            for text in texts
        ],
        np.float64,
    )
    words, numbers, pronouns, questions = seen.mean(axis=0).tolist()
    either = float(np.maximum(seen[:, 2], seen[:, 3]).mean())
    return Traits(len(texts), words, numbers, pronouns, questions, either)


def own_words(
    texts: Iterable[str], clusters: NDArray[np.int64], k: int, most: int = 8
) -> list[list[str]]:
    """The words of each of k clusters that tell it most from all of them, best first.

    A word is worth p log(p / q), where p is the share of the cluster's texts' words that it is, and
    q that of all texts: its part of the divergence between the two (Kullback and Leibler, 1951). A
    text counts a word once.
    """
    counts = [Counter[str]() for _ in range(k)]
    for text, cluster in zip(texts, clusters.tolist(), strict=True):
        counts[cluster].update({word.lower() for word in _WORD.findall(text) if len(word) > 1})
    whole = sum(counts, Counter[str]())
    total = whole.total()
    found = []
    for own in counts:
        size = own.total()
        worth = {
            word: n / size * math.log(n / size / (whole[word] / total))
            for word, n in own.items()
            if n > 1
        }
        found.append(sorted(worth, key=lambda word: (-worth[word], word))[:most])
    return found
