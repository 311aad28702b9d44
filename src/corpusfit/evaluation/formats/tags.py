"""Convert entity tags to BIO (IOB2) from IOB1, BIOES and BILOU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

_SAME = {"L": "E", "U": "S"}
"""BILOU's L (last) and U (unit) are E (end) and S (single) in BIOES."""


def scheme(sentences: Iterable[list[str]]) -> str:
    """The tagging scheme: `bio`, `iob1` or `bioes` (also for BILOU).

    IOB1 uses `B-` only for an entity directly after another of the same type.

    Reference: Ramshaw and Marcus (1995), IOB1; Tjong Kim Sang and Veenstra (1999), IOB2.
    """
    stray, free = False, False
    for before, tag in chain.from_iterable(map(_pairs, sentences)):
        if tag[0] in "ESLU":
            return "bioes"
        stray |= tag[0] == "I" and begins(before, tag)
        free |= tag[0] == "B" and before[1:] != tag[1:]
    return "iob1" if stray and not free else "bio"


def as_bio(tags: list[str]) -> list[str]:
    """A sentence's tags in BIO, with the same entities by the rules of conlleval.

    An `I-` without a `B-` before it begins an entity for seqeval, so it becomes a `B-`.
    """
    return [
        tag if tag == "O" else ("B" if begins(before, tag) else "I") + tag[1:]
        for before, tag in _pairs(tags)
    ]


def strays(tags: list[str]) -> int:
    """Number of `I-` tags without a `B-` or `I-` of the same type before them."""
    return sum(tag[0] == "I" and begins(before, tag) for before, tag in _pairs(tags))


def begins(before: str, tag: str) -> bool:
    """Whether an entity begins at a tag (not `O`), given the previous tag."""
    here, last = _SAME.get(tag[0], tag[0]), _SAME.get(before[0], before[0])
    return here in "BS" or last in "OES" or before[1:] != tag[1:]


def _pairs(tags: list[str]) -> Iterator[tuple[str, str]]:
    return pairwise(["O", *tags])
