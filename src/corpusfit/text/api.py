"""The functions `cache` and `clear_cache`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from corpusfit.core.keywords import with_keywords

if TYPE_CHECKING:
    from corpusfit.core.typed_options import MachineOptions
    from corpusfit.text.cache_entries import CacheEntry
    from corpusfit.text.context import Machine


@with_keywords()
def cache(*, machine: Machine | None = None, **options: Unpack[MachineOptions]) -> list[CacheEntry]:
    """List what is in the cache, least recently used first.

    Args:
        machine: whose cache.
    """
    from corpusfit.text import cache_entries
    from corpusfit.text.context import machine_of

    machine = machine_of(machine, options)
    return cache_entries.cache_entries(machine)


@with_keywords()
def clear_cache(
    *, machine: Machine | None = None, **options: Unpack[MachineOptions]
) -> list[CacheEntry]:
    """Remove what is in the cache.

    Entries used within the last hour stay, as a running command may need them.

    Args:
        machine: whose cache.

    Returns:
        The removed entries.
    """
    from corpusfit.text import cache_entries
    from corpusfit.text.context import machine_of

    machine = machine_of(machine, options)
    return cache_entries.clear_cache(machine)
