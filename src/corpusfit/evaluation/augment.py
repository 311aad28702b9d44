"""Augmentation of training examples (--augment): TF-IDF word replacement and back-translation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.evaluation.plan import AugmentPlan
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Examples
from corpusfit.kernels.chance import place_keys, uniform

LETTER = re.compile(r"[^\W_]")

_STREAM = 2**41  # random numbers apart from all others of a seed
_MARK = r"<[^<>\s]+>|\[[^\[\]\s]+\]|@[^@$\s]+\$"
_PARTS = re.compile(rf"{_MARK}|([^\W_]+(?:['’.\-][^\W_]+)*)")


def replace_words(
    examples: Examples, plan: AugmentPlan, *, kind: str, labels: Sequence[str], seed: int
) -> Examples:
    """Augment training examples by TF-IDF word replacement (`tfidf`).

    A replacement need not fit its context (as in the paper), and most replacements are rare words.
    Words are counted as spelled, in the training examples alone. The score for being drawn is the
    paper's freq(w) IDF(w); the published code sums TF-IDF over texts, which favours words of short
    texts. Markers (`<e1>`, `[CITE]`, `@GENE$`) and punctuation are never replaced, because in
    relation tasks they carry the label; text between words is kept exactly.

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2 and appendix (TF-IDF
    word replacement); TADPOLE, section 4.1 (Data-Aug).
    """
    fragments = load(kind).fragments(examples, labels)
    return _with_labels(examples, _replaced(fragments, plan, seed), plan.copies)


def require_allowed(plan: AugmentPlan, kind: str) -> None:
    """Check that an augmentation method suits the kind of task."""
    allowed = load(kind).augmentations
    if plan.kind not in allowed:
        raise bad_setting(
            "`augment.kind`", f"{' or '.join(allowed)} for {kind}, or left out", plan.kind
        )


def augment_examples(examples: Examples, found: Sequence[str], copies: int) -> Examples:
    """Augment n examples with paraphrases of their pieces (`backtranslate`)."""
    pieces, at = [], 0
    for own in examples.pieces:
        texts = list(found[at : at + len(own) * copies])
        pieces += [texts[j::copies] for j in range(copies)]
        at += len(texts)
    return _with_labels(examples, pieces, copies)


def _with_labels(examples: Examples, pieces: list[list[str]], copies: int) -> Examples:
    """Augmented pieces with the labels of their original examples."""
    return Examples(pieces, [list(own) for own in examples.labels for _ in range(copies)])


def split_words(text: str) -> list[str]:
    """A text as other text, word, other text, word, and so on; joined it is the text again."""
    parts, at = [], 0
    for found in _PARTS.finditer(text):
        if found[1]:
            parts += [text[at : found.start()], found[1]]
            at = found.end()
    return [*parts, text[at:]]


@dataclass(frozen=True, eq=False)
class ReplacementModel:
    """Replacement probabilities of the words of n texts: m words, v distinct.

    Attributes:
        words: the v distinct words, sorted.
        probability: float64 [m], probability that a word is replaced, texts end to end.
        drawn: float64 [v], probability that a word is drawn as the replacement; all 0 if all words
            score the same.
    """

    words: list[str]
    probability: NDArray[np.float64]
    drawn: NDArray[np.float64]


def replacement_model(texts: Sequence[Sequence[str]], share: float) -> ReplacementModel:
    """Replacement probabilities (Xie et al. 2019, appendix on TF-IDF word replacement).

    With TF the share of a word in its text, IDF = log(n / texts with the word), C the highest
    TF IDF in a text and Z the mean of C - TF IDF over its words, the replacement probability of a
    word is min(share (C - TF IDF) / Z, 1). With S = (occurrences) IDF, the probability of being
    drawn is proportional to max S - S. If all words of a text have the same TF IDF, Z is 0 and none
    is replaced.
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
    probability = np.zeros(len(ids))
    filled = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[filled]
    if len(starts):
        below = np.repeat(np.maximum.reduceat(tfidf, starts), lengths[filled]) - tfidf
        mean = np.repeat(np.add.reduceat(below, starts) / lengths[filled], lengths[filled])
        np.divide(share * below, mean, out=probability, where=mean > 0)
    scores = np.bincount(ids, minlength=len(words)) * idf
    drawn = scores.max(initial=0.0) - scores
    total = drawn.sum()
    return ReplacementModel(
        words, np.minimum(probability, 1), drawn / total if total else np.zeros(len(words))
    )


def _replaced(fragments: list[list[list[str]]], plan: AugmentPlan, seed: int) -> list[list[str]]:
    words = [[word for parts in example for word in parts[1::2]] for example in fragments]
    found = replacement_model(words, plan.share)
    m, through = len(found.probability), np.cumsum(found.drawn)
    new: list[list[str | None]] = []
    for copy in range(plan.copies):
        uniforms = uniform(place_keys(seed, _STREAM + copy, 2 * m))
        replacements: list[str | None] = [None] * m
        if m and through[-1] > 0:
            replaced = np.flatnonzero(uniforms[:m] < found.probability)
            draws = np.searchsorted(through, uniforms[m:][replaced] * through[-1], side="right")
            for place, word in zip(replaced.tolist(), draws.tolist(), strict=True):
                replacements[place] = found.words[word]
        new.append(replacements)
    pieces, at = [], 0
    for example in fragments:
        pieces += [_rebuilt(example, replacements, at) for replacements in new]
        at += sum(len(parts) // 2 for parts in example)
    return pieces


def _rebuilt(example: list[list[str]], replacements: list[str | None], at: int) -> list[str]:
    """An example's pieces with replaced words; its words begin at `replacements[at]`."""
    pieces = []
    for parts in example:
        new = list(parts)
        for i in range(1, len(parts), 2):
            new[i] = replacements[at] or parts[i]
            at += 1
        pieces.append("".join(new))
    return pieces
