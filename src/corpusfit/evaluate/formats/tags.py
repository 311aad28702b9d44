"""Other ways to tag entities, as BIO: IOB1, BIOES and BILOU.

What: one scheme is found for all splits of a task, and its tags are written anew as BIO (IOB2),
with the same entities, by the rules of conlleval.
Why: what a model learns and what is counted should not depend on how a file writes it.
Trade-off: an `I-` without a `B-` before it begins an entity for seqeval, so it becomes a `B-`, even
where a file writes both: a model could only learn by heart which is which.
Reference: Ramshaw and Marcus (1995), IOB1; Tjong Kim Sang and Veenstra (1999), IOB2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

_SAME = {"L": "E", "U": "S"}
"""BILOU's last and unit are what BIOES calls end and single."""


def scheme(sentences: Iterable[list[str]]) -> str:
    """How entities are tagged: `bio`, `iob1` or `bioes` (which stands for BILOU too).

    IOB1 writes `B-` only where an entity follows another of its type at once.
    """
    stray, free = False, False
    for before, tag in chain.from_iterable(map(_pairs, sentences)):
        if tag[0] in "ESLU":
            return "bioes"
        stray |= tag[0] == "I" and begins(before, tag)
        free |= tag[0] == "B" and before[1:] != tag[1:]
    return "iob1" if stray and not free else "bio"


def as_bio(tags: list[str]) -> list[str]:
    """The tags of a sentence in BIO, the same entities by the rules of conlleval."""
    return [
        tag if tag == "O" else ("B" if begins(before, tag) else "I") + tag[1:]
        for before, tag in _pairs(tags)
    ]


def strays(tags: list[str]) -> int:
    """How many `I-` have no `B-` or `I-` of their type before them."""
    return sum(tag[0] == "I" and begins(before, tag) for before, tag in _pairs(tags))


def begins(before: str, tag: str) -> bool:
    """Whether an entity begins at a tag (not `O`), after the tag before it."""
    here, last = _SAME.get(tag[0], tag[0]), _SAME.get(before[0], before[0])
    return here in "BS" or last in "OES" or before[1:] != tag[1:]


def _pairs(tags: list[str]) -> Iterator[tuple[str, str]]:
    """Each tag with the one before it."""
    return pairwise(["O", *tags])
