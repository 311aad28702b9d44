"""Tables of a composition: amounts by language and by kind of text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from corpusfit.mixing.plan import KINDS, CompositionPlan
from corpusfit.mixing.selection import Share

Amounts = Mapping[tuple[int, int], tuple[int, int, int]]
"""Documents, sentences and word pieces by the numbers of source and language."""

_COUNTED = ("documents", "sentences", "tokens")


def by_language(
    recipe: CompositionPlan, shares: Sequence[Share], amounts: Amounts
) -> list[dict[str, Any]]:
    """One row per language: its `Share`, its total, and the amounts by source.

    Reference: mDAPT, Tables 8 and 9.
    """
    found = []
    for number, share in enumerate(shares):
        own = {
            recipe.sources[s].name: dict(zip(_COUNTED, counts, strict=True))
            for (s, language), counts in sorted(amounts.items())
            if language == number
        }
        sums = {name: sum(counts[name] for counts in own.values()) for name in _COUNTED}
        found.append({**dataclasses.asdict(share), "total": share.total, "sources": own, **sums})
    return found


def by_kind(recipe: CompositionPlan, amounts: Amounts) -> list[dict[str, Any]]:
    """One row per kind of text: languages, documents, sentences, tokens (mDAPT, Table 1)."""
    found = []
    for kind in KINDS:
        own = {k: v for k, v in amounts.items() if recipe.sources[k[0]].kind == kind}
        sums = {name: sum(v[i] for v in own.values()) for i, name in enumerate(_COUNTED)}
        languages = len({language for (_, language), v in own.items() if v[1]})
        found.append({"kind": kind, "languages": languages, **sums})
    return found
