"""Which documents a composition takes, and how much of each.

What: copies out, the budget shared among the languages, each share filled in order: specific text,
then what it is up-sampled with.
Why: a budget is met to the sentence only if the last document of a language may be cut.
Trade-off: some hundred bytes a document are held while this is decided, and no text. Of a document
in two languages the one that has less text gets it, specific text before general: a copy can no
longer be taken instead where the first was not needed.
Reference: mDAPT, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.compose.budget import allocate, smoothed, unimax
from corpusfit.compose.recipe import ENGLISH, MD_ED, MD_MWIKI, SPECIFIC, UNIMAX, Recipe
from corpusfit.errors import EmptyInputError, bad_setting

NO_PAGE = np.uint64(0)
"""The key of a row that has no page."""


@dataclass(frozen=True, eq=False)
class Pool:
    """n documents that may be taken, in reading order, of L languages.

    Attributes:
        source: int16 [n], the number of the recipe's source.
        language: int16 [n], the number of the recipe's language.
        size: int64 [n], sentences or word pieces, as the budget counts; above 0.
        text: uint64 [n], the same for documents whose clean sentences are the same to the letter.
        page: uint64 [n], the same for the same page in other languages; `NO_PAGE` without one.
        order: float64 [n] in (0, 1), within its source and language; the smallest is taken first.
    """

    source: NDArray[np.int16]
    language: NDArray[np.int16]
    size: NDArray[np.int64]
    text: NDArray[np.uint64]
    page: NDArray[np.uint64]
    order: NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """What a language gives, in the budget's unit.

    Attributes:
        language: its code.
        specific: there is, without copies.
        general: there is.
        own: of the specific text, what is taken as the language's own (the paper's M_D).
        further: specific text that it is up-sampled with.
        upsampled: general text that it is up-sampled with.
        again: what is taken more than once, beyond the first time.
        smoothed: the share by the sampling, in [0, 1], before what there is was minded.
    """

    language: str
    specific: int
    general: int
    own: int
    further: int
    upsampled: int
    again: int
    smoothed: float

    @property
    def total(self) -> int:
        """All that is taken."""
        return self.own + self.further + self.upsampled + self.again


@dataclass(frozen=True, eq=False)
class Taking:
    """The decision.

    Attributes:
        amounts: int64 [n], how much of each document; above its size, it is taken again.
        shares: by language.
        copies: documents left out because another of the same language has the same text.
        elsewhere: documents left out because they are taken for another language.
        notes: what the user should know.
    """

    amounts: NDArray[np.int64]
    shares: list[Share]
    copies: int
    elsewhere: int
    notes: list[str]


def decide(pool: Pool, recipe: Recipe) -> Taking:
    """Decide what is taken.

    Raises:
        EmptyInputError: a language of the recipe has no text.
        UsageError: there is less text than the budget.
    """
    n = len(recipe.languages)
    is_specific = np.array([s.kind == SPECIFIC for s in recipe.sources])[pool.source]
    kept, elsewhere = _different(pool, is_specific, n)
    specific, general = (
        np.bincount(pool.language[which], pool.size[which], n).astype(np.int64)
        for which in (kept & is_specific, kept & ~is_specific)
    )
    _require_text(recipe, specific, general)
    own = np.minimum(specific, [_limit(recipe, code) for code in recipe.languages])
    notes: list[str] = []
    targets, weights = _targets(recipe, specific, general, own, notes)
    amounts = np.zeros(len(pool.size), np.int64)
    shares = []
    usable = kept if recipe.composition == MD_MWIKI else kept & is_specific
    for number, code in enumerate(recipe.languages):
        here = np.flatnonzero(usable & (pool.language == number))
        here = here[np.lexsort((here, pool.order[here], ~is_specific[here]))]
        target = int(targets[number])
        amounts[here] = _filled(pool.size[here], target)
        first = min(target, int(pool.size[here].sum()))
        of_own = min(first, int(own[number]))
        further = min(first, int(specific[number])) - of_own
        shares.append(
            Share(
                code,
                int(specific[number]),
                int(general[number]),
                of_own,
                further,
                first - of_own - further,
                target - first,
                float(weights[number]),
            )
        )
    return Taking(amounts, shares, int((~kept).sum()) - elsewhere, elsewhere, notes)


def _limit(recipe: Recipe, code: str) -> int:
    """How much of a language's specific text is its own at most; E_D's English is not."""
    without = 0 if recipe.composition == MD_ED and code == ENGLISH else np.iinfo(np.int64).max
    return recipe.limits.get(code, without)


def _filled(sizes: NDArray[np.int64], target: int) -> NDArray[np.int64]:
    """int64 [n]: how much of each document, from the first on, again from the first at the end."""
    whole = int(sizes.sum())
    times, rest = divmod(target, whole) if whole else (0, 0)
    before = np.cumsum(sizes) - sizes
    return np.asarray(times * sizes + np.clip(rest - before, 0, sizes), np.int64)


def _different(pool: Pool, is_specific: NDArray[np.bool_], n: int) -> tuple[NDArray[np.bool_], int]:
    """Which documents are no copies, bool [n], and how many are left to another language."""
    supply = np.bincount(pool.language, pool.size, n)
    rank = np.argsort(np.argsort(supply, kind="stable"), kind="stable")
    order = np.lexsort((np.arange(len(pool.size)), rank[pool.language], ~is_specific))
    _, first, which = np.unique(pool.text[order], return_index=True, return_inverse=True)
    kept = np.zeros(len(order), np.bool_)
    kept[order[first]] = True
    taker = pool.language[order[first]][which]
    elsewhere = int((taker != pool.language[order]).sum())
    paged = order[kept[order] & (pool.page[order] != NO_PAGE)]
    _, first, which = np.unique(pool.page[paged], return_index=True, return_inverse=True)
    lost = paged[pool.language[paged[first]][which] != pool.language[paged]]
    kept[lost] = False
    return kept, elsewhere + len(lost)


def _require_text(recipe: Recipe, specific: NDArray[np.int64], general: NDArray[np.int64]) -> None:
    """Raise `EmptyInputError` for a language without text."""
    for number, code in enumerate(recipe.languages):
        if recipe.composition != MD_MWIKI and not specific[number] and code == ENGLISH:
            raise EmptyInputError(
                f"{recipe.composition} is made of English specific text; the sources have none. "
                'Name a source with kind = "specific" and language = "en".'
            )
        if not specific[number] + general[number]:
            raise EmptyInputError(
                f"The language {code} has no text: no usable row of the sources is in it, or all "
                "are copies of texts in other languages. Take it out of languages, or name a "
                f'source with language = "{code}".'
            )


def _targets(
    recipe: Recipe,
    specific: NDArray[np.int64],
    general: NDArray[np.int64],
    own: NDArray[np.int64],
    notes: list[str],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """int64 [L], how much of each language, and float64 [L], its share by the sampling alone."""
    weights, lower, upper = _bounds(recipe, specific, general, own, notes)
    short = recipe.budget - int(upper.sum())
    if short > 0:
        raise _too_little(recipe, upper)
    if recipe.composition == MD_MWIKI and recipe.sampling == UNIMAX:
        given = unimax(specific + general, recipe.budget, recipe.repeats)
        return given, given / max(1, recipe.budget)
    return allocate(weights, lower, upper, recipe.budget), weights


def _bounds(
    recipe: Recipe,
    specific: NDArray[np.int64],
    general: NDArray[np.int64],
    own: NDArray[np.int64],
    notes: list[str],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Weights, least and most of each language."""
    english = np.array([code == ENGLISH for code in recipe.languages])
    none = np.zeros(len(english), np.int64)
    if recipe.composition == MD_MWIKI:
        weights = smoothed(_weighed(recipe, own, general, notes), recipe.alpha)
        upper = recipe.repeats * (specific + general)
        if recipe.sampling == UNIMAX:
            return weights, none, upper
    elif recipe.composition == MD_ED:
        weights = english.astype(np.float64)
        upper = np.where(english, recipe.repeats * specific, own)
    else:
        return english.astype(np.float64), none, np.where(english, recipe.repeats * specific, 0)
    if own.sum() < recipe.budget:
        return weights, own, upper
    if own.sum() > recipe.budget:
        notes.append(
            f"The languages' own specific text is {own.sum():,} {recipe.unit}, more than the "
            "budget: nothing is up-sampled."
        )
    if recipe.composition == MD_ED:
        weights = own / own.sum()
    return weights, none, own


def _weighed(
    recipe: Recipe, own: NDArray[np.int64], general: NDArray[np.int64], notes: list[str]
) -> NDArray[np.int64]:
    """The sizes that shares go by; a language without specific text counts as the smallest."""
    if not own.any():
        return general
    bare = [code for code, size in zip(recipe.languages, own.tolist(), strict=True) if not size]
    if bare:
        notes.append(
            f"No specific text in {', '.join(bare)}: counts as the language with the least of it."
        )
    return np.where(own > 0, own, own[own > 0].min())


def _too_little(recipe: Recipe, upper: NDArray[np.int64]) -> Exception:
    """The error for a budget that the sources cannot meet."""
    by = zip(recipe.languages, upper.tolist(), strict=True)
    each = ", ".join(f"{code} {most:,}" for code, most in by)
    times = f" when every text is taken {recipe.repeats} times" if recipe.repeats > 1 else ""
    return bad_setting(
        "budget",
        f"at most {upper.sum():,} {recipe.unit}, which is what {recipe.composition} can take of "
        f"these sources{times} ({each})",
        recipe.budget,
        f"Name more sources, lower the budget, or say repeats = {recipe.repeats + 1} to take texts "
        "more often.",
    )


def quantiles(
    keys: NDArray[np.float64], groups: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """float64 [n] in (0, 1): each key's rank in its group, so that groups can be mixed evenly.

    Args:
        keys: float64 [n], the smallest first.
        groups: places in `keys`, each in one group.
    """
    found = np.empty(len(keys))
    for places in groups:
        order = np.lexsort((places, keys[places]))
        found[places[order]] = (np.arange(len(places)) + 0.5) / max(1, len(places))
    return found
