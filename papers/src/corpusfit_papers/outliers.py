"""`outliers`: texts in clusters of other domains, and what they have in common."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
from sklearn.metrics.cluster import contingency_matrix

from corpusfit_papers.baselines import sample_of

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_PRONOUN = re.compile(
    r"\b(?:i|me|my|mine|myself|we|us|our|ours|you|your|yours|he|him|his|she|her|hers|it|its"
    r"|they|them|their|theirs)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d")
_MAX_CHARACTERS = 2_000  # of an example


@dataclass(frozen=True)
class Traits:
    """Traits of some texts.

    Attributes:
        texts: number of texts.
        words: mean number of words; 0 without a text, as the shares are.
        numbers: share of the texts with a digit.
        pronouns: share of the texts with an English pronoun.
        questions: share of the texts with a question mark.
        pronouns_or_questions: share of the texts with either.
    """

    texts: int
    words: float
    numbers: float
    pronouns: float
    questions: float
    pronouns_or_questions: float


@dataclass(frozen=True)
class Pair:
    """Texts of a domain that are taken for another.

    Attributes:
        domain: their known domain.
        taken_for: the domain that most texts of their clusters are of.
        texts: number of texts.
        example: the first of them.
    """

    domain: str
    taken_for: str
    texts: int
    example: str


@dataclass(frozen=True)
class Outliers:
    """Texts in clusters of other domains.

    Attributes:
        all: traits of all clustered units.
        outliers: traits of those in a cluster of another domain.
        attracted: traits of those in the clusters of each domain that has some.
        pairs: their domains with those that they are taken for, the most frequent first.
    """

    all: Traits
    outliers: Traits
    attracted: dict[str, Traits]
    pairs: list[Pair]


def outliers(out: str | PathLike[str]) -> Outliers:
    """Find the texts in clusters of other domains, and what they have in common.

    Reference: Aharoni and Goldberg (2020), section 2.6 and Table 2.

    Args:
        out: the folder of a `clusters`, whose units have two known domains or more.

    Returns:
        The traits of these texts, and of all.
    """
    sample = sample_of(out)
    # a unit is taken for the domain that most units of its cluster are of
    clusters = np.unique(sample.clusters, return_inverse=True)[1]
    predicted = contingency_matrix(sample.domains, clusters).argmax(axis=0)[clusters]
    pairs: dict[tuple[int, int], list[str]] = defaultdict(list)
    attracted: dict[int, list[str]] = defaultdict(list)
    for i in np.flatnonzero(predicted != sample.domains).tolist():
        domain = int(sample.domains[i])
        other = int(predicted[i])
        pairs[domain, other].append(sample.texts[i])
        attracted[other].append(sample.texts[i])
    return Outliers(
        traits_of(sample.texts),
        traits_of([text for texts in attracted.values() for text in texts]),
        {sample.names[other]: traits_of(attracted[other]) for other in sorted(attracted)},
        [
            Pair(sample.names[domain], sample.names[other], len(texts), texts[0][:_MAX_CHARACTERS])
            for (domain, other), texts in sorted(pairs.items(), key=lambda p: (-len(p[1]), p[0]))
        ],
    )


def traits_of(texts: Sequence[str]) -> Traits:
    """The traits of some texts."""
    counts = np.array(
        [
            (
                len(_WORD.findall(text)),
                bool(_NUMBER.search(text)),
                bool(_PRONOUN.search(text)),
                any(mark in text for mark in "?？؟"),
            )
            for text in texts or [""]
        ],
        np.float64,
    )
    words, numbers, pronouns, questions = counts.mean(axis=0).tolist()
    either = float(np.maximum(counts[:, 2], counts[:, 3]).mean())
    return Traits(len(texts), words, numbers, pronouns, questions, either)
