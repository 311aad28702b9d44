"""Augment training examples: TF-IDF word replacement and back-translation."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import remove
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import digest
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluation.backtranslate import Backtranslate, Passage
from corpusfit.evaluation.plan import AugmentPlan
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Examples, store_examples
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.text.context import Machine

LETTER = re.compile(r"[^\W_]")
_STREAM = 2**41  # random numbers apart from all others of a seed
_MARK = r"<[^<>\s]+>|\[[^\[\]\s]+\]|@[^@$\s]+\$"
_PARTS = re.compile(rf"{_MARK}|([^\W_]+(?:['’.\-][^\W_]+)*)")
# Texts per piece, minutes of work; another number changes the last bits of a draw.
TEXTS_PER_PIECE = 64


def write_augmented_examples(
    examples: Examples,
    plan: AugmentPlan,
    out: Path,
    *,
    kind: str,
    labels: Sequence[str],
    seed: int,
    device: str,
    machine: Machine,
) -> None:
    """Augment training examples; `load_examples` reads the result.

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2.
    """
    require_allowed(plan, kind)
    if plan.kind != "backtranslate":
        store_examples(replace_words(examples, plan, kind=kind, labels=labels, seed=seed), out)
        return
    texts = [text for pieces in examples.pieces for text in pieces]
    job = Backtranslate(plan.mt, plan.mt_back, plan.copies, seed, device)
    folder = out.with_suffix(".parts")
    # A piece is kept under a digest of the models' names, so that a stopped command resumes; a
    # model that changes in its folder meanwhile is not noticed.
    settings = dataclasses.asdict(job)
    pieces = []
    for first in range(0, len(texts), TEXTS_PER_PIECE):
        passage = tuple(texts[first : first + TEXTS_PER_PIECE])
        name = digest({**settings, "first": first, "texts": passage})
        pieces.append(Passage(passage, first, folder / f"{name}.json"))
    missing = [piece for piece in pieces if not piece.out.exists()]
    if missing:
        machine = machine.for_training(resolve_device(job.device, "finetune"))
        stage = machine.progress.showing("translate", sum(len(p.texts) for p in missing), "texts")
        with stage, machine.start() as engine:
            engine.require_shared(folder.parent, "`out`")
            for done in engine.map(job, missing):
                machine.progress.advance(done, done)
    translated = [text for piece in pieces for text in json.loads(piece.out.read_bytes())]
    store_examples(augment_examples(examples, translated, plan.copies), out)
    remove(folder)


def require_allowed(plan: AugmentPlan, kind: str) -> None:
    """Check that an augmentation method suits the kind of task."""
    allowed = load(kind).augmentations
    if plan.kind not in allowed:
        raise bad_setting(
            "`augment.kind`", f"{' or '.join(allowed)} for {kind}, or left out", plan.kind
        )


def augment_examples(examples: Examples, translated: Sequence[str], copies: int) -> Examples:
    """Augment n examples with paraphrases of their pieces (`backtranslate`)."""
    new, at = [], 0
    for pieces in examples.pieces:
        texts = list(translated[at : at + len(pieces) * copies])
        new += [texts[j::copies] for j in range(copies)]
        at += len(texts)
    return _with_labels(examples, new, copies)


def _with_labels(examples: Examples, pieces: list[list[str]], copies: int) -> Examples:
    return Examples(pieces, [list(labels) for labels in examples.labels for _ in range(copies)])


def replace_words(
    examples: Examples, plan: AugmentPlan, *, kind: str, labels: Sequence[str], seed: int
) -> Examples:
    """Augment training examples by TF-IDF word replacement (`tfidf`).

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2 and appendix (TF-IDF
    word replacement); TADPOLE, section 4.1 (Data-Aug).
    """
    # A replacement need not fit its context (as in the paper), and most replacements are rare
    # words. Words are counted as spelled, in the training examples alone. The score for being drawn
    # is the paper's freq(w) IDF(w); the published code sums TF-IDF over texts, which favours words
    # of short texts. Markers (`<e1>`, `[CITE]`, `@GENE$`) and punctuation are never replaced,
    # because in relation tasks they carry the label; text between words is kept exactly.
    fragments = load(kind).fragments(examples, labels)
    words = [[word for parts in example for word in parts[1::2]] for example in fragments]
    model = replacement_model(words, plan.share)
    m, through = len(model.probability), np.cumsum(model.drawn)
    new: list[list[str | None]] = []  # by copy, the replacement of each word
    for copy in range(plan.copies):
        uniforms = uniform(place_keys(seed, _STREAM + copy, 2 * m))
        replacements: list[str | None] = [None] * m
        if m and through[-1] > 0:
            replaced = np.flatnonzero(uniforms[:m] < model.probability)
            draws = np.searchsorted(through, uniforms[m:][replaced] * through[-1], side="right")
            for i, word in zip(replaced.tolist(), draws.tolist(), strict=True):
                replacements[i] = model.words[word]
        new.append(replacements)
    # labels and the text between words stay
    pieces, begin = [], 0
    for example in fragments:
        end = begin + sum(len(parts) // 2 for parts in example)
        for replacements in new:
            left = iter(replacements[begin:end])
            pieces.append(
                [
                    "".join((next(left) or part) if i % 2 else part for i, part in enumerate(parts))
                    for parts in example
                ]
            )
        begin = end
    return _with_labels(examples, pieces, plan.copies)


def split_words(text: str) -> list[str]:
    """A text as other text, word, other text, word, and so on; joined it is the text again."""
    parts, at = [], 0
    for match in _PARTS.finditer(text):
        if match[1]:
            parts += [text[at : match.start()], match[1]]
            at = match.end()
    return [*parts, text[at:]]


@dataclass(frozen=True, eq=False)
class ReplacementModel:
    """Replacement probabilities of the words of n texts: m words, v distinct."""

    words: list[str]  # the v distinct words, sorted
    # float64 [m], probability that a word is replaced, texts end to end
    probability: NDArray[np.float64]
    # float64 [v], probability that a word is drawn as the replacement; all 0 if all words score the
    # same
    drawn: NDArray[np.float64]


def replacement_model(texts: Sequence[Sequence[str]], share: float) -> ReplacementModel:
    """Replacement probabilities (Xie et al. 2019, appendix on TF-IDF word replacement)."""
    # With TF the share of a word in its text, IDF = log(n / texts with the word), C the highest TF
    # IDF in a text and Z the mean of C - TF IDF over its words, the replacement probability of a
    # word is min(share (C - TF IDF) / Z, 1). With S = (occurrences) IDF, the probability of being
    # drawn is proportional to max S - S. If all words of a text have the same TF IDF, Z is 0 and
    # none is replaced.
    words = sorted({word for text in texts for word in text})
    number = {word: i for i, word in enumerate(words)}
    ids = np.fromiter((number[word] for text in texts for word in text), np.int64)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    text = np.repeat(np.arange(len(texts)), lengths)
    size = max(1, len(words))
    # every word of a text once
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
