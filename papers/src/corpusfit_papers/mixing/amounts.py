"""Decide how much of each language, and of each document, a composition takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import bad_setting
from corpusfit.core.errors import EmptyInputError
from corpusfit_papers.mixing.plan import ENGLISH, MD_ED, MD_MWIKI, SPECIFIC, UNIMAX, CompositionPlan

_HALVINGS = 200
NO_PAGE = np.uint64(0)  # The key of a row without a page


def smoothed(sizes: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """float64 [L]: P(L)^alpha, normalized, where P(L) is a language's share of the sizes [L].

    Reference: mDAPT, section 3.2; Xue et al. (2020), mT5, section 3.2 (alpha 0.3).
    """
    # A language of size 0 has no share, whatever alpha.
    share = sizes / max(1, int(sizes.sum()))
    powers = np.where(sizes > 0, share**alpha, 0.0)
    return np.asarray(powers / max(powers.sum(), np.finfo(np.float64).tiny), np.float64)


def unimax(sizes: NDArray[np.int64], budget: int, cap: int) -> NDArray[np.int64]:
    """int64 [L]: amounts as even as possible, with no language above `cap` times its size.

    Reference: Chung et al. (2023), UniMax, Algorithm 1.
    """
    # From the smallest language to the largest, each gets an equal part of the remaining budget, or
    # its cap if that is less. The sum is the budget, or the sum of the caps if that is less.
    amounts = np.zeros(len(sizes), np.int64)
    left = budget
    order = np.argsort(sizes, kind="stable")
    for position, language in enumerate(order.tolist()):
        amounts[language] = min(left // (len(sizes) - position), cap * int(sizes[language]))
        left -= int(amounts[language])
    return amounts


def allocate(
    weights: NDArray[np.float64], lower: NDArray[np.int64], upper: NDArray[np.int64], budget: int
) -> NDArray[np.int64]:
    """int64 [L]: amounts in proportion to weights, within bounds, that add up to the budget.

    Reference: mDAPT, section 3.2 and Tables 8 and 9.
    """
    # A language whose lower bound is above its proportional amount keeps the bound, and the others
    # share the rest, as German does in mDAPT's Table 9.
    if not lower.sum() <= budget <= upper.sum():
        raise ValueError(f"budget must be from {lower.sum()} to {upper.sum()}; got {budget}")
    positive = weights > 0
    low = 0.0
    high = float(np.max(upper[positive] / weights[positive], initial=1.0))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(middle * weights, lower, upper).sum() < budget:
            low = middle
        else:
            high = middle
    # bisection has found the factor that fills the budget within all bounds
    exact = np.clip(high * weights, lower, upper)
    shares = np.maximum(np.floor(exact).astype(np.int64), lower)
    left = budget - int(shares.sum())
    nearest = np.argsort(shares - exact, kind="stable")  # largest remainders first
    shares[nearest[:left]] += 1
    return shares


@dataclass(frozen=True, eq=False)
class Pool:
    """n candidate documents of L languages, in reading order."""

    source: NDArray[np.int16]  # int16 [n], number of the recipe's source
    language: NDArray[np.int16]  # int16 [n], number of the recipe's language
    size: NDArray[np.int64]  # int64 [n], size in the budget's unit, above 0
    # uint64 [n], key of the clean sentences; exact duplicates have the same
    text: NDArray[np.uint64]
    page: NDArray[np.uint64]  # uint64 [n], key of the page in all languages; `NO_PAGE` without one
    # float64 [n] in (0, 1), within its source and language; taken in ascending order
    order: NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """Amounts of one language, in the budget's unit."""

    language: str  # language code
    specific: int  # available specific text, without duplicates
    general: int  # available general text, without duplicates
    own: int  # specific text that is taken as the language's own (M_D of mDAPT)
    further: int  # further specific text that up-samples the language
    upsampled: int  # general text that up-samples the language
    again: int  # repeated text, beyond the first time
    # share of the language by the sampling, in [0, 1], before limits by availability
    smoothed: float

    @property
    def total(self) -> int:
        """The total amount that is taken."""
        return self.own + self.further + self.upsampled + self.again


@dataclass(frozen=True, eq=False)
class Taking:
    """The decision."""

    # int64 [n], amount of each document; above its size, the document is repeated
    amounts: NDArray[np.int64]
    shares: list[Share]  # amounts by language
    copies: int  # documents left out as duplicates in the same language
    elsewhere: int  # documents left out because another language takes their text or page
    notes: list[str]  # messages for the user


def decide(pool: Pool, recipe: CompositionPlan) -> Taking:
    """Decide how much of each document is taken.

    Reference: mDAPT, section 3.2.
    """
    # Duplicates are dropped, the budget is shared among the languages, and each share is filled in
    # order: specific text, then the text that up-samples it. The last document of a language may be
    # cut, to meet the budget exactly. A document in two languages goes to the language with less
    # text that the composition can take, specific text before general. Memory is about a hundred
    # bytes per document, and no text.
    n = len(recipe.languages)
    is_specific = np.array([s.kind == SPECIFIC for s in recipe.sources])[pool.source]
    usable = _usable(recipe)[is_specific.astype(int), pool.language]
    kept, elsewhere = _without_duplicates(pool, is_specific, usable, n)
    specific, general = (
        np.bincount(pool.language[which], pool.size[which], n).astype(np.int64)
        for which in (kept & is_specific, kept & ~is_specific)
    )
    _require_text(recipe, specific, general)
    # a language's own specific text; English of M_D+E_D up-samples
    unlimited = np.iinfo(np.int64).max
    without = {ENGLISH: 0} if recipe.composition == MD_ED else {}
    limits = {**without, **recipe.limits}
    available = np.minimum(specific, [limits.get(code, unlimited) for code in recipe.languages])
    notes: list[str] = []
    targets, weights = _targets(recipe, specific, general, available, notes)
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
        of_own = min(first, int(available[number]))
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
    """Documents without duplicates, bool [n], and the number dropped for another language."""
    # Documents that are not usable are duplicates of those that are, never the other way round.
    supply = np.bincount(pool.language[usable], pool.size[usable], n)
    # a text in two languages goes to the language with less text
    rank = np.argsort(np.argsort(supply, kind="stable"), kind="stable")
    order = np.lexsort((np.arange(len(pool.size)), rank[pool.language], ~is_specific, ~usable))
    _, first, which = np.unique(pool.text[order], return_index=True, return_inverse=True)
    kept = np.zeros(len(order), np.bool_)
    kept[order[first]] = True
    owner = pool.language[order[first]][which]
    elsewhere = int((owner != pool.language[order]).sum())
    # one page in two languages is one text, and the language with less text keeps it
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
    available: NDArray[np.int64],
    notes: list[str],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """int64 [L], the amount of each language, and float64 [L], its share by the sampling alone."""
    weights, lower, upper = _bounds(recipe, specific, general, available, notes)
    if recipe.budget > int(upper.sum()):
        by = zip(recipe.languages, upper.tolist(), strict=True)
        each = ", ".join(f"{code} {limit:,}" for code, limit in by)
        times = f" with {recipe.repeats} repeats" if recipe.repeats > 1 else ""
        raise bad_setting(
            "budget",
            f"at most {upper.sum():,} {recipe.unit}, the maximum of {recipe.composition} from "
            f"these sources{times} ({each})",
            recipe.budget,
            "Add sources, lower the budget, or set "
            f"repeats = {recipe.repeats + 1} to repeat texts.",
        )
    if recipe.composition == MD_MWIKI and recipe.sampling == UNIMAX:
        amounts = unimax(specific + general, recipe.budget, recipe.repeats)
        return amounts, amounts / max(1, recipe.budget)
    return allocate(weights, lower, upper, recipe.budget), weights


def _bounds(
    recipe: CompositionPlan,
    specific: NDArray[np.int64],
    general: NDArray[np.int64],
    available: NDArray[np.int64],
    notes: list[str],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    is_english = np.array([code == ENGLISH for code in recipe.languages])
    none = np.zeros(len(is_english), np.int64)
    if recipe.composition == MD_MWIKI:
        weights = smoothed(_sampling_sizes(recipe, available, general, notes), recipe.alpha)
        upper = recipe.repeats * (specific + general)
        if recipe.sampling == UNIMAX:
            return weights, none, upper
    elif recipe.composition == MD_ED:
        weights = is_english.astype(np.float64)
        upper = np.where(is_english, recipe.repeats * specific, available)
    else:
        upper = np.where(is_english, recipe.repeats * specific, 0)
        return is_english.astype(np.float64), none, upper
    if available.sum() < recipe.budget:
        return weights, available, upper
    if available.sum() > recipe.budget:
        notes.append(
            f"The specific text of the languages has {available.sum():,} {recipe.unit}, more than "
            "the budget, so no language is up-sampled."
        )
    if recipe.composition == MD_ED:
        weights = available / available.sum()
    return weights, none, available


def _sampling_sizes(
    recipe: CompositionPlan,
    available: NDArray[np.int64],
    general: NDArray[np.int64],
    notes: list[str],
) -> NDArray[np.int64]:
    """The sizes that decide shares; a language without specific text counts as the smallest."""
    if not available.any():
        return general
    missing = [
        code for code, size in zip(recipe.languages, available.tolist(), strict=True) if not size
    ]
    if missing:
        notes.append(
            f"No specific text in {', '.join(missing)}: for its share, each counts as the language "
            "with the least specific text."
        )
    return np.where(available > 0, available, available[available > 0].min())


def quantiles(
    keys: NDArray[np.float64], groups: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """float64 [n] in (0, 1): the rank of each key in its group, so that groups mix evenly."""
    ranks = np.empty(len(keys))
    for places in groups:
        order = np.lexsort((places, keys[places]))
        ranks[places[order]] = (np.arange(len(places)) + 0.5) / max(1, len(places))
    return ranks
