"""Decides how much of each document a composition takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.mixing.budget import allocate, smoothed, unimax
from corpusfit.mixing.plan import ENGLISH, MD_ED, MD_MWIKI, SPECIFIC, UNIMAX, CompositionPlan

NO_PAGE = np.uint64(0)
"""The key of a row without a page."""


@dataclass(frozen=True, eq=False)
class Pool:
    """n candidate documents of L languages, in reading order.

    Attributes:
        source: int16 [n], number of the recipe's source.
        language: int16 [n], number of the recipe's language.
        size: int64 [n], size in the budget's unit, above 0.
        text: uint64 [n], key of the clean sentences; exact duplicates have the same.
        page: uint64 [n], key of the page in all languages; `NO_PAGE` without one.
        order: float64 [n] in (0, 1), within its source and language; taken in ascending order.
    """

    source: NDArray[np.int16]
    language: NDArray[np.int16]
    size: NDArray[np.int64]
    text: NDArray[np.uint64]
    page: NDArray[np.uint64]
    order: NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """Amounts of one language, in the budget's unit.

    Attributes:
        language: language code.
        specific: available specific text, without duplicates.
        general: available general text, without duplicates.
        own: specific text that is taken as the language's own (M_D of mDAPT).
        further: further specific text that up-samples the language.
        upsampled: general text that up-samples the language.
        again: repeated text, beyond the first time.
        smoothed: share of the language by the sampling, in [0, 1], before limits by availability.
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
        """The total amount that is taken."""
        return self.own + self.further + self.upsampled + self.again


@dataclass(frozen=True, eq=False)
class Taking:
    """The decision.

    Attributes:
        amounts: int64 [n], amount of each document; above its size, the document is repeated.
        shares: amounts by language.
        copies: documents left out as duplicates in the same language.
        elsewhere: documents left out because another language takes their text or page.
        notes: messages for the user.
    """

    amounts: NDArray[np.int64]
    shares: list[Share]
    copies: int
    elsewhere: int
    notes: list[str]


def decide(pool: Pool, recipe: CompositionPlan) -> Taking:
    """Decide how much of each document is taken.

    Duplicates are dropped, the budget is shared among the languages, and each share is filled in
    order: specific text, then the text that up-samples it. The last document of a language may be
    cut, to meet the budget exactly. A document in two languages goes to the language with less text
    that the composition can take, specific text before general. Memory is about a hundred bytes per
    document, and no text.

    Reference: mDAPT, section 3.2.
    """
    n = len(recipe.languages)
    is_specific = np.array([s.kind == SPECIFIC for s in recipe.sources])[pool.source]
    usable = _usable(recipe)[is_specific.astype(int), pool.language]
    kept, elsewhere = _without_duplicates(pool, is_specific, usable, n)
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
    for number, code in enumerate(recipe.languages):
        candidates = np.flatnonzero(kept & usable & (pool.language == number))
        candidates = candidates[
            np.lexsort((candidates, pool.order[candidates], ~is_specific[candidates]))
        ]
        target = int(targets[number])
        amounts[candidates] = _fill(pool.size[candidates], target)
        first = min(target, int(pool.size[candidates].sum()))
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


def _limit(recipe: CompositionPlan, code: str) -> int:
    """The maximum of a language's own specific text; 0 for English in M_D+E_D, which up-samples."""
    without = 0 if recipe.composition == MD_ED and code == ENGLISH else np.iinfo(np.int64).max
    return recipe.limits.get(code, without)


def _fill(sizes: NDArray[np.int64], target: int) -> NDArray[np.int64]:
    """int64 [n]: amounts that fill a target in order, starting over after the last document."""
    whole = int(sizes.sum())
    times, rest = divmod(target, whole) if whole else (0, 0)
    before = np.cumsum(sizes) - sizes
    return np.asarray(times * sizes + np.clip(rest - before, 0, sizes), np.int64)


def _usable(recipe: CompositionPlan) -> NDArray[np.bool_]:
    """Whether a composition can take general and specific text of each language, bool [2, L]."""
    n = len(recipe.languages)
    if recipe.composition in (MD_MWIKI, MD_ED):
        return np.repeat([[recipe.composition == MD_MWIKI], [True]], n, axis=1)
    return np.array([[False] * n, [code == ENGLISH for code in recipe.languages]])


def _without_duplicates(
    pool: Pool, is_specific: NDArray[np.bool_], usable: NDArray[np.bool_], n: int
) -> tuple[NDArray[np.bool_], int]:
    """Documents that are no duplicates, bool [n], and the number that another language takes.

    Documents that are not usable are duplicates of those that are, never the other way round.
    """
    supply = np.bincount(pool.language[usable], pool.size[usable], n)
    rank = np.argsort(np.argsort(supply, kind="stable"), kind="stable")
    order = np.lexsort((np.arange(len(pool.size)), rank[pool.language], ~is_specific, ~usable))
    _, first, which = np.unique(pool.text[order], return_index=True, return_inverse=True)
    kept = np.zeros(len(order), np.bool_)
    kept[order[first]] = True
    owner = pool.language[order[first]][which]
    elsewhere = int((owner != pool.language[order]).sum())
    paged = order[kept[order] & (pool.page[order] != NO_PAGE)]
    _, first, which = np.unique(pool.page[paged], return_index=True, return_inverse=True)
    dropped = paged[pool.language[paged[first]][which] != pool.language[paged]]
    kept[dropped] = False
    return kept, elsewhere + len(dropped)


def _require_text(
    recipe: CompositionPlan, specific: NDArray[np.int64], general: NDArray[np.int64]
) -> None:
    for number, code in enumerate(recipe.languages):
        if recipe.composition != MD_MWIKI and not specific[number] and code == ENGLISH:
            raise EmptyInputError(
                f"{recipe.composition} needs English specific text, and the sources have none. "
                'Add a source with kind = "specific" and language = "en".'
            )
        if not specific[number] + general[number] and recipe.composition in (MD_MWIKI, MD_ED):
            raise EmptyInputError(
                f"The language {code} has no text: the sources have no usable row in it, or only "
                f"duplicates of texts in other languages. Remove {code} from languages, or add a "
                f'source with language = "{code}".'
            )


def _targets(
    recipe: CompositionPlan,
    specific: NDArray[np.int64],
    general: NDArray[np.int64],
    own: NDArray[np.int64],
    notes: list[str],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """int64 [L], the amount of each language, and float64 [L], its share by the sampling alone."""
    weights, lower, upper = _bounds(recipe, specific, general, own, notes)
    shortfall = recipe.budget - int(upper.sum())
    if shortfall > 0:
        raise _budget_error(recipe, upper)
    if recipe.composition == MD_MWIKI and recipe.sampling == UNIMAX:
        amounts = unimax(specific + general, recipe.budget, recipe.repeats)
        return amounts, amounts / max(1, recipe.budget)
    return allocate(weights, lower, upper, recipe.budget), weights


def _bounds(
    recipe: CompositionPlan,
    specific: NDArray[np.int64],
    general: NDArray[np.int64],
    own: NDArray[np.int64],
    notes: list[str],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    is_english = np.array([code == ENGLISH for code in recipe.languages])
    none = np.zeros(len(is_english), np.int64)
    if recipe.composition == MD_MWIKI:
        weights = smoothed(_sampling_sizes(recipe, own, general, notes), recipe.alpha)
        upper = recipe.repeats * (specific + general)
        if recipe.sampling == UNIMAX:
            return weights, none, upper
    elif recipe.composition == MD_ED:
        weights = is_english.astype(np.float64)
        upper = np.where(is_english, recipe.repeats * specific, own)
    else:
        return (
            is_english.astype(np.float64),
            none,
            np.where(is_english, recipe.repeats * specific, 0),
        )
    if own.sum() < recipe.budget:
        return weights, own, upper
    if own.sum() > recipe.budget:
        notes.append(
            f"The specific text of the languages has {own.sum():,} {recipe.unit}, more than the "
            "budget, so no language is up-sampled."
        )
    if recipe.composition == MD_ED:
        weights = own / own.sum()
    return weights, none, own


def _sampling_sizes(
    recipe: CompositionPlan, own: NDArray[np.int64], general: NDArray[np.int64], notes: list[str]
) -> NDArray[np.int64]:
    """The sizes that decide shares; a language without specific text counts as the smallest."""
    if not own.any():
        return general
    missing = [code for code, size in zip(recipe.languages, own.tolist(), strict=True) if not size]
    if missing:
        notes.append(
            f"No specific text in {', '.join(missing)}: for its share, each counts as the language "
            "with the least specific text."
        )
    return np.where(own > 0, own, own[own > 0].min())


def _budget_error(recipe: CompositionPlan, upper: NDArray[np.int64]) -> Exception:
    """The error for a budget that the sources cannot meet."""
    by = zip(recipe.languages, upper.tolist(), strict=True)
    each = ", ".join(f"{code} {most:,}" for code, most in by)
    times = f" with {recipe.repeats} repeats" if recipe.repeats > 1 else ""
    return bad_setting(
        "budget",
        f"at most {upper.sum():,} {recipe.unit}, the maximum of {recipe.composition} from these "
        f"sources{times} ({each})",
        recipe.budget,
        f"Add sources, lower the budget, or set repeats = {recipe.repeats + 1} to repeat texts.",
    )


def quantiles(
    keys: NDArray[np.float64], groups: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """float64 [n] in (0, 1): the rank of each key in its group, so that groups mix evenly."""
    found = np.empty(len(keys))
    for places in groups:
        order = np.lexsort((places, keys[places]))
        found[places[order]] = (np.arange(len(places)) + 0.5) / max(1, len(places))
    return found
