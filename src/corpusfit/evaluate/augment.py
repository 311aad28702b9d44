"""Companions of training examples, with the same labels: `--augment`.

What: `tfidf` replaces words of a text that say little by words that say little, both by TF-IDF;
`backtranslate` has the text translated into another language and back (`backtranslate.py`).
Why: a small task has few ways to say a thing; its label does not hang on the words that say little.
Trade-off: as in the paper, a word that is drawn need not fit its place; and as most different words
are rare, and rare ones score low, all but the commonest keywords are drawn about equally often.
Words are counted as they are spelled, in the training examples alone. What differs from the
published code: a word's score for being drawn is the paper's freq(w) IDF(w), where the code adds up
TF-IDF over the texts, so that words of short texts count more there; words of signs alone and marks
(`<e1>`, `[CITE]`, `@GENE$`) are no words here, for in tasks on relations they say what the label is
about; and text between words is kept to the letter.
Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2 and appendix (TF-IDF word
replacement); TADPOLE, section 4.1 (Data-Aug).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import UsageError
from corpusfit.evaluate.plan import AugmentPlan
from corpusfit.evaluate.task import Examples
from corpusfit.kernels.chance import place_keys, uniform

OUTSIDE = "O"
"""The label of a word that is part of nothing."""

_STREAM = 2**41  # apart from all other chances of a seed
_MARK = r"<[^<>\s]+>|\[[^\[\]\s]+\]|@[^@$\s]+\$"
_PARTS = re.compile(rf"{_MARK}|([^\W_]+(?:['’.\-][^\W_]+)*)")
_LETTER = re.compile(r"[^\W_]")


def reworded(
    examples: Examples, plan: AugmentPlan, *, kind: str, labels: Sequence[str], seed: int
) -> Examples:
    """Companions of training examples in which words are replaced: `tfidf`.

    Args:
        examples: n, of the training split.
        plan: how many companions there are of each, and how many words are replaced.
        kind: of the task: `classification` or `tagging`. Of tagged words only those labelled `O`
            are replaced, and by such.
        labels: the names of the labels, by number.
        seed: the only source of chance.

    Returns:
        n * plan.copies examples; companion j of example i is at i * copies + j.

    Raises:
        UsageError: no word is labelled `O`.
    """
    fragments = _fragments(examples, _outside(kind, labels))
    return _beside(examples, _replaced(fragments, plan, seed), plan.copies)


def require_allowed(plan: AugmentPlan, kind: str) -> None:
    """Make sure that a kind of task can have such companions.

    Raises:
        UsageError: words that are labelled would be translated.
    """
    if kind == "tagging" and plan.kind == "backtranslate":
        raise UsageError(
            "--augment must be tfidf for tagging, or left out; got 'backtranslate'. The labels of "
            "words cannot be carried over to a translation."
        )


def accompanied(examples: Examples, found: Sequence[str], copies: int) -> Examples:
    """Companions of n examples, given all their pieces said otherwise: `backtranslate`.

    Args:
        examples: n.
        found: the pieces of all examples, end to end, `copies` of one side by side.
        copies: companions of each.
    """
    pieces, at = [], 0
    for own in examples.pieces:
        texts = list(found[at : at + len(own) * copies])
        pieces += [texts[j::copies] for j in range(copies)]
        at += len(texts)
    return _beside(examples, pieces, copies)


def _beside(examples: Examples, pieces: list[list[str]], copies: int) -> Examples:
    """Pieces of companions, with the labels of their examples."""
    return Examples(pieces, [list(own) for own in examples.labels for _ in range(copies)])


def _outside(kind: str, labels: Sequence[str]) -> int | None:
    """The number of the label whose words may be replaced; None where labels are of texts."""
    if kind != "tagging":
        return None
    if OUTSIDE not in labels:
        raise UsageError(
            "--augment tfidf replaces words that are labelled O; this task has no such label. "
            "Leave out --augment."
        )
    return list(labels).index(OUTSIDE)


def _fragments(examples: Examples, outside: int | None) -> list[list[list[str]]]:
    """Every piece of every example, taken apart: what is kept and, at odd places, words."""
    if outside is None:
        return [[_apart(text) for text in pieces] for pieces in examples.pieces]
    return [
        [
            ["", word, ""] if label == outside and _LETTER.search(word) else [word]
            for word, label in zip(pieces, labels, strict=True)
        ]
        for pieces, labels in zip(examples.pieces, examples.labels, strict=True)
    ]


def _apart(text: str) -> list[str]:
    """A text as what is kept, a word, what is kept, a word, and so on; joined it is the text."""
    parts, at = [], 0
    for found in _PARTS.finditer(text):
        if found[1]:
            parts += [text[at : found.start()], found[1]]
            at = found.end()
    return [*parts, text[at:]]


@dataclass(frozen=True, eq=False)
class Counted:
    """What TF-IDF knows of the words of n texts, m in all, v different ones.

    Attributes:
        words: the v different ones, sorted.
        chance: float64 [m], that a word is replaced, the texts' words end to end.
        drawn: float64 [v], the share of the replacing words that each one makes; all 0 where no
            word says more than another.
    """

    words: list[str]
    chance: NDArray[np.float64]
    drawn: NDArray[np.float64]


def counted(texts: Sequence[Sequence[str]], share: float) -> Counted:
    """Count the words of texts (Xie et al. 2019, appendix on TF-IDF word replacement).

    With TF the share of a text's words that a word makes, IDF = log(n / texts with it), C the
    highest TF IDF in a text and Z the mean of C - TF IDF over its words, a word is replaced with
    the chance min(share (C - TF IDF) / Z, 1). With S = (times it occurs) IDF, it is drawn in
    proportion to max S - S. Where a text's words say equally much, Z is 0 and nothing is replaced.

    Args:
        texts: n texts as their words.
        share: of a text's words to be replaced, on average.
    """
    words = sorted({word for text in texts for word in text})
    number = {word: i for i, word in enumerate(words)}
    ids = np.fromiter((number[word] for text in texts for word in text), np.int64)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    text = np.repeat(np.arange(len(texts)), lengths)
    size = max(1, len(words))
    pairs, place, times = np.unique(text * size + ids, return_inverse=True, return_counts=True)
    within = np.bincount(pairs % size, minlength=len(words))
    idf = np.log(len(texts) / np.maximum(1, within))
    tfidf = times[place] / lengths[text] * idf[ids]
    chance = np.zeros(len(ids))
    filled = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[filled]
    if len(starts):
        below = np.repeat(np.maximum.reduceat(tfidf, starts), lengths[filled]) - tfidf
        mean = np.repeat(np.add.reduceat(below, starts) / lengths[filled], lengths[filled])
        np.divide(share * below, mean, out=chance, where=mean > 0)
    says = np.bincount(ids, minlength=len(words)) * idf
    drawn = says.max(initial=0.0) - says
    total = drawn.sum()
    return Counted(words, np.minimum(chance, 1), drawn / total if total else np.zeros(len(words)))


def _replaced(fragments: list[list[list[str]]], plan: AugmentPlan, seed: int) -> list[list[str]]:
    """The pieces of all companions."""
    found = counted([_words(example) for example in fragments], plan.share)
    m, through = len(found.chance), np.cumsum(found.drawn)
    new: list[list[str | None]] = []
    for copy in range(plan.copies):
        chances = uniform(place_keys(seed, _STREAM + copy, 2 * m))
        instead: list[str | None] = [None] * m
        if m and through[-1] > 0:
            taken = np.flatnonzero(chances[:m] < found.chance)
            draws = np.searchsorted(through, chances[m:][taken] * through[-1], side="right")
            for place, word in zip(taken.tolist(), draws.tolist(), strict=True):
                instead[place] = found.words[word]
        new.append(instead)
    pieces, at = [], 0
    for example in fragments:
        pieces += [_rebuilt(example, instead, at) for instead in new]
        at += sum(len(parts) // 2 for parts in example)
    return pieces


def _words(example: list[list[str]]) -> list[str]:
    return [word for parts in example for word in parts[1::2]]


def _rebuilt(example: list[list[str]], instead: list[str | None], at: int) -> list[str]:
    """An example's pieces with other words, which begin at some place of `instead`."""
    pieces = []
    for parts in example:
        made = list(parts)
        for i in range(1, len(parts), 2):
            made[i] = instead[at] or parts[i]
            at += 1
        pieces.append("".join(made))
    return pieces
