"""Draw rows for dev and test, so that no text is in two splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import value_keys

KEPT = 0
REASONS = {
    1: "the same pair came before",
    2: "another translation of a text that came before",
    3: "another text of a translation that came before",
}
"""Why a pair is dropped, by the code that `one_to_one` returns."""

_STREAM = 20  # random numbers apart from all others of a seed


def one_to_one(keys: NDArray[np.uint64]) -> NDArray[np.int8]:
    """int8 [n]: `KEPT`, or why a pair is dropped, so that no side of a kept pair repeats.

    Reference: Aharoni and Goldberg (2020), section 3.1: "we did not allow more than one translation
    of a given source or target sentence".
    """
    found = np.zeros(len(keys), np.int8)
    translation_of: dict[int, int] = {}
    translations: set[int] = set()
    for i, (text, translation) in enumerate(keys.tolist()):
        if text in translation_of:
            found[i] = 1 if translation_of[text] == translation else 2
        elif translation in translations:
            found[i] = 3
        else:
            translation_of[text] = translation
            translations.add(translation)
    return found


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows with the same text: g groups over n rows, in the order of drawing.

    Attributes:
        of: int64 [n], each row's group; -1 for a row in none.
        sizes: int64 [g], rows of each group.
    """

    of: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of_keys(cls, keys: NDArray[np.uint64], kept: NDArray[np.bool_], seed: int) -> Groups:
        """Group the kept rows, bool [n], by their keys, uint64 [n].

        The order depends on the seed and the texts alone, so a growing corpus keeps most of its
        held-out rows.
        """
        different, member, sizes = np.unique(keys[kept], return_inverse=True, return_counts=True)
        order = np.argsort(value_keys(seed, _STREAM, different), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        of = np.full(len(keys), -1, np.int64)
        of[kept] = place[member]
        return cls(of, sizes[order])


@dataclass(frozen=True)
class Drawn:
    """The groups drawn for test and dev, and the number of groups considered."""

    test: frozenset[int]
    dev: frozenset[int]
    seen: int


def draw(
    groups: Groups, dev: int, test: int, near: Mapping[int, AbstractSet[int]], candidates: int
) -> Drawn | None:
    """Draw test, then dev from groups without a near-duplicate in test.

    A group larger than the number of rows still needed is skipped, so sizes are exact.
    """
    sizes = groups.sizes[:candidates].tolist()
    chosen = _fill(sizes, test, range(len(sizes)))
    if chosen is None:
        return None
    similar = {other for group in chosen for other in near.get(group, ())}
    free = (g for g in range(len(sizes)) if g not in chosen and g not in similar)
    further = _fill(sizes, dev, free)
    if further is None:
        return None
    return Drawn(chosen, further, max(chosen | further, default=-1) + 1)


def _fill(sizes: list[int], wanted: int, groups: Iterable[int]) -> frozenset[int] | None:
    """The first groups that together have exactly `wanted` rows; None if none do."""
    chosen: list[int] = []
    for group in groups:
        if not wanted:
            break
        if sizes[group] <= wanted:
            chosen.append(group)
            wanted -= sizes[group]
    return None if wanted else frozenset(chosen)
