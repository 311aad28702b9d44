"""Which rows are held out for dev and test, so that no text stands on two sides.

What: of pairs the first translation of each source sentence and the first source of each
translation; of all rows groups of the same text, drawn whole in a seeded order; first test, then
dev, the rest is train.
Why: a text that is trained on and judged on measures memory, and so does one of two translations of
the same sentence.
Trade-off: which groups are drawn hangs on the seed and the texts alone, not on where they lie; so a
corpus that grows keeps most of what was held out. A group that is larger than what is still wanted
is passed over, so that the sizes are met exactly.
Reference: Aharoni and Goldberg (2020), section 3.1: "we did not allow more than one translation of
a given source or target sentence".
"""

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
"""Why a pair is dropped, by what `one_to_one` gives."""

_STREAM = 20  # of chance: what is drawn here and what elsewhere have nothing in common


def one_to_one(keys: NDArray[np.uint64]) -> NDArray[np.int8]:
    """int8 [n]: `KEPT`, or why a pair is dropped, so that no side of a kept pair is in another.

    Args:
        keys: uint64 [n, 2], of both sides, in reading order; what comes first is kept.
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
    """Rows of the same text: g groups over n rows, in the order in which they are drawn.

    Attributes:
        of: int64 [n], each row's group; -1 for a row that is in none.
        sizes: int64 [g].
    """

    of: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of_keys(cls, keys: NDArray[np.uint64], kept: NDArray[np.bool_], seed: int) -> Groups:
        """Group the rows that are kept, bool [n], by their keys, uint64 [n]."""
        different, member, sizes = np.unique(keys[kept], return_inverse=True, return_counts=True)
        order = np.argsort(value_keys(seed, _STREAM, different), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        of = np.full(len(keys), -1, np.int64)
        of[kept] = place[member]
        return cls(of, sizes[order])


@dataclass(frozen=True)
class Drawn:
    """What was drawn: the groups of test and of dev, and how many groups were looked at."""

    test: frozenset[int]
    dev: frozenset[int]
    seen: int


def draw(
    groups: Groups,
    dev: int,
    test: int,
    near: Mapping[int, AbstractSet[int]],
    candidates: int,
) -> Drawn | None:
    """Draw test, and then dev of what is near no text of test.

    Args:
        groups: in the order in which they are drawn.
        dev: rows wanted.
        test: rows wanted.
        near: by group, the groups that are near it; both ways.
        candidates: only so many groups are drawn from.

    Returns:
        None if these are not enough.
    """
    sizes = groups.sizes[:candidates].tolist()
    chosen = _fill(sizes, test, range(len(sizes)))
    if chosen is None:
        return None
    close = {other for group in chosen for other in near.get(group, ())}
    free = (g for g in range(len(sizes)) if g not in chosen and g not in close)
    further = _fill(sizes, dev, free)
    if further is None:
        return None
    return Drawn(chosen, further, max(chosen | further, default=-1) + 1)


def _fill(sizes: list[int], wanted: int, groups: Iterable[int]) -> frozenset[int] | None:
    """The first groups that together have so many rows; None if there are none such."""
    chosen: list[int] = []
    for group in groups:
        if not wanted:
            break
        if sizes[group] <= wanted:
            chosen.append(group)
            wanted -= sizes[group]
    return None if wanted else frozenset(chosen)
