"""Tagging: entities in sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.prediction import Predictor
from corpusfit.evaluation.contract import Splits, in_order
from corpusfit.evaluation.encoding import NOWHERE
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.metrics import tallies
from corpusfit.evaluation.plan import FinetunePlan
from corpusfit.evaluation.task import Examples
from corpusfit.labeled.formats import Labeled
from corpusfit.training.special_tokens import SpecialTokens

_SAME = {"L": "E", "U": "S"}  # BILOU's L (last) and U (unit) are E (end) and S (single) in BIOES
_OUTSIDE = "O"


def scheme(sentences: Iterable[list[str]]) -> str:
    """The tagging scheme: `bio`, `iob1` or `bioes` (also for BILOU).

    Reference: Ramshaw and Marcus (1995), IOB1; Tjong Kim Sang and Veenstra (1999), IOB2.
    """
    # IOB1 uses `B-` only for an entity directly after another of the same type.
    stray = False
    free = False
    for before, tag in chain.from_iterable(map(_pairs, sentences)):
        if tag[0] in "ESLU":
            return "bioes"
        stray |= tag[0] == "I" and begins(before, tag)
        free |= tag[0] == "B" and before[1:] != tag[1:]
    return "iob1" if stray and not free else "bio"


def as_bio(tags: list[str]) -> list[str]:
    """A sentence's tags in BIO, with the same entities by the rules of conlleval."""
    # An `I-` without a `B-` before it begins an entity for seqeval, so it becomes a `B-`.
    return [
        tag if tag == "O" else ("B" if begins(before, tag) else "I") + tag[1:]
        for before, tag in _pairs(tags)
    ]


def strays(tags: list[str]) -> int:
    """Number of `I-` tags without a `B-` or `I-` of the same type before them."""
    return sum(tag[0] == "I" and begins(before, tag) for before, tag in _pairs(tags))


def begins(before: str, tag: str) -> bool:
    """Whether an entity begins at a tag (not `O`), given the previous tag."""
    prefix = _SAME.get(tag[0], tag[0])
    last = _SAME.get(before[0], before[0])
    return prefix in "BS" or last in "OES" or before[1:] != tag[1:]


def _pairs(tags: list[str]) -> Iterator[tuple[str, str]]:
    return pairwise(["O", *tags])


class Tagging(LearnedTaskType):
    """A tag for each word of a sentence, with cross-entropy; metrics are those of seqeval.

    Reference: mDAPT, section 4.1.
    """

    forms = ("conll", "conllu", "brat", "tokens")
    usual = True
    head = "AutoModelForTokenClassification"
    predictor = Predictor
    default_metric = "micro_f1"
    probes = "word"
    finetuning = FinetunePlan(
        epochs=100, learning_rate=2e-5, batch=32, length=128, warmup_steps=0.0, patience=25
    )
    with_adapter = {"epochs": 30, "learning_rate": 1e-4, "patience": 0}  # noqa: RUF012

    def prepare(self, splits: Splits, names: Sequence[str]) -> tuple[Splits, list[str]]:
        written = scheme(tags for labeled in splits.values() for tags in labeled.labels)
        changed = {
            split: dataclasses.replace(labeled, labels=list(map(as_bio, labeled.labels)))
            for split, labeled in splits.items()
        }
        if written != "bio":
            name = "IOB1" if written == "iob1" else "BIOES"
            note = f"Entities were tagged as {name} and are now as BIO; they are the same ones."
            return changed, [note]
        odd = {split: sum(map(strays, labeled.labels)) for split, labeled in splits.items()}
        return changed, [
            f"Entities of {split} that begin with I-, without a B- before, begin with B- now; they "
            f"are the same ones ({n:,})."
            for split, n in odd.items()
            if n
        ]

    def unlearnable(self, train: Labeled) -> str:
        if train.different() - {_OUTSIDE}:
            return ""
        return (
            "`task` must have entities in train; every word of train is tagged O. Check the "
            "tags of the train split."
        )

    def learned(self, labels: set[str]) -> list[str]:
        return [_OUTSIDE, *in_order(labels - {_OUTSIDE})]

    def places(
        self,
        words: Sequence[str],
        offsets: Sequence[tuple[int, int]],
        tokens: int,
        special: SpecialTokens,
    ) -> NDArray[np.int64]:
        """The first token that ends inside each word (Devlin et al. 2019, section 5.3)."""
        # A token may begin with the space before a word.
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        ends = np.cumsum(sizes + 1) - 1
        begins = ends - sizes
        stops = np.array([end for _, end in offsets], np.int64)
        token = np.searchsorted(stops, begins, side="right")
        starts = np.array([*(begin for begin, _ in offsets), np.iinfo(np.int64).max], np.int64)
        inside = starts[token] < ends
        return np.where(inside, token + len(special.prefix), NOWHERE)

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Counts of words (column 0) and of the spans of each entity type, by name.

        Reference: seqeval in its default mode, that of conlleval.
        """
        gold = examples.flat
        owner = np.repeat(np.arange(len(examples)), examples.lengths)
        rules = _Rules(labels)
        true, answered = (rules.spans(numbers, owner) for numbers in (gold, answers))
        # a span is right if its type and both borders are
        right = true[np.isin(true @ rules.key(len(gold)), answered @ rules.key(len(gold)))]
        counted = [(owner[s[:, 1]], s[:, 0]) for s in (right, answered, true)]
        return tallies(gold == answers, examples.lengths, counted, rules.types)


class _Rules:
    """conlleval's rules for where spans begin and end, tabulated for each pair of labels."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        tags = (*labels, _OUTSIDE)  # the last one separates examples
        of_tag = [tag[1:].split("-", maxsplit=1)[-1] or "_" for tag in tags]
        outside = np.array([tag[0] == _OUTSIDE for tag in tags])
        types = sorted({name for name, out in zip(of_tag, outside, strict=True) if not out})
        self.types = len(types)
        self._type = np.array([types.index(name) if name in types else -1 for name in of_tag])
        starts = np.array([[begins(before, tag) for tag in tags] for before in tags])
        self._begins = starts & ~outside
        self._ends = (starts | outside) & ~outside[:, None]

    def spans(self, numbers: NDArray[np.int32], owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [m, 3]: type, first piece and last piece of each span, in order."""
        border = len(self._type) - 1
        line = np.full(len(numbers) + (int(owner[-1]) + 1 if len(owner) else 0), border)
        line[np.arange(len(numbers)) + owner] = numbers
        before = np.concatenate([[border], line[:-1]]) if len(line) else line
        begins = np.flatnonzero(self._begins[before, line])
        ends = np.flatnonzero(self._ends[before, line])
        first = begins[np.searchsorted(begins, ends) - 1]
        piece = np.cumsum(line != border) - 1
        last = ends - 1
        return np.stack([self._type[before[ends]], piece[first], piece[last]], 1)

    def key(self, pieces: int) -> NDArray[np.int64]:
        """int64 [3], factors that turn a span into a unique number."""
        return np.array([pieces * pieces, pieces, 1], np.int64)
