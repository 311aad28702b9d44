"""Characteristic words of clusters, and traits of texts such as length and pronouns."""

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
    """Traits of some texts.

    Attributes:
        texts: number of texts.
        words: mean number of words per text.
        numbers: fraction with a digit.
        pronouns: fraction with a personal pronoun (English only).
        questions: fraction with a question mark.
        pronouns_or_questions: fraction with either.
    """

    texts: int
    words: float
    numbers: float
    pronouns: float
    questions: float
    pronouns_or_questions: float


def traits(texts: Sequence[str]) -> Traits:
    """The traits of some texts (Aharoni and Goldberg, 2020, Table 2); zeros without texts."""
    if not texts:
        return Traits(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    counts = np.array(
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
    words, numbers, pronouns, questions = counts.mean(axis=0).tolist()
    either = float(np.maximum(counts[:, 2], counts[:, 3]).mean())
    return Traits(len(texts), words, numbers, pronouns, questions, either)


def own_words(
    texts: Iterable[str], clusters: NDArray[np.int64], k: int, most: int = 8
) -> list[list[str]]:
    """The most characteristic words of each of k clusters, in descending order.

    Words are ranked by p log(p / q), their part of the divergence of a cluster from all texts
    (Kullback and Leibler, 1951), where p is the word's share of the words in the cluster and q that
    in all texts. A word counts once per text.
    """
    counts = [Counter[str]() for _ in range(k)]
    for text, cluster in zip(texts, clusters.tolist(), strict=True):
        counts[cluster].update({word.lower() for word in _WORD.findall(text) if len(word) > 1})
    whole = sum(counts, Counter[str]())
    total = whole.total()
    found = []
    for own in counts:
        size = own.total()
        divergence = {
            word: n / size * math.log(n / size / (whole[word] / total))
            for word, n in own.items()
            if n > 1
        }
        found.append(sorted(divergence, key=lambda word: (-divergence[word], word))[:most])
    return found
