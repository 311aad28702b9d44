"""What a composition came to, as it is written down and shown.

What: by language what was taken of what, as the paper's Tables 8 and 9; by kind the languages,
sentences and word pieces, as its Table 1.
Trade-off: word pieces are estimated, where the paper counts mBERT's.
Reference: mDAPT, Tables 1, 8 and 9.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from corpusfit.compose.recipe import KINDS, Recipe
from corpusfit.compose.selection import Share

Amounts = Mapping[tuple[int, int], tuple[int, int, int]]
"""Documents, sentences and word pieces by the numbers of source and language."""

_COUNTED = ("documents", "sentences", "tokens")


def by_language(recipe: Recipe, shares: Sequence[Share], given: Amounts) -> list[dict[str, Any]]:
    """One row a language, in the recipe's order: its `Share`, its total, and what each source gave.

    Args:
        recipe: names the sources.
        shares: what was decided, in the budget's unit.
        given: what was written.
    """
    found = []
    for number, share in enumerate(shares):
        mine = {
            recipe.sources[s].name: dict(zip(_COUNTED, amounts, strict=True))
            for (s, language), amounts in sorted(given.items())
            if language == number
        }
        sums = {name: sum(amounts[name] for amounts in mine.values()) for name in _COUNTED}
        found.append({**dataclasses.asdict(share), "total": share.total, "sources": mine, **sums})
    return found


def by_kind(recipe: Recipe, given: Amounts) -> list[dict[str, Any]]:
    """One row a kind of text: languages, documents, sentences, tokens."""
    found = []
    for kind in KINDS:
        mine = {k: v for k, v in given.items() if recipe.sources[k[0]].kind == kind}
        sums = {name: sum(v[i] for v in mine.values()) for i, name in enumerate(_COUNTED)}
        languages = len({language for (_, language), v in mine.items() if v[1]})
        found.append({"kind": kind, "languages": languages, **sums})
    return found
