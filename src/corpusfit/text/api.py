"""The functions `cache` and `prune_cache`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from corpusfit.core.offers import offers

if TYPE_CHECKING:
    from corpusfit.core.typed_options import MachineOptions
    from corpusfit.text.cache_entries import CacheEntry
    from corpusfit.text.context import Machine


@offers()
def cache(*, machine: Machine | None = None, **options: Unpack[MachineOptions]) -> list[CacheEntry]:
    """List what is in the cache, least recently used first.

    Args:
        machine: whose cache.
    """
    from corpusfit.text import cache_entries
    from corpusfit.text.context import machine_of

    machine = machine_of(machine, options)
    return cache_entries.cache_entries(machine)


@offers()
def prune_cache(
    *,
    older_than: float | None = None,
    keep: float | None = None,
    dry_run: bool = False,
    machine: Machine | None = None,
    **options: Unpack[MachineOptions],
) -> list[CacheEntry]:
    """Remove from the cache what was not used for the longest time.

    Entries used within the last hour stay, as a running command may need them.

    Args:
        older_than: remove entries not used for this many days.
        keep: remove entries until the others take at most this many GB.
        dry_run: only list what would be removed.
        machine: whose cache.

    Returns:
        The removed entries.

    Raises:
        UsageError: there is no limit, or one is below 0.
    """
    from corpusfit.text import cache_entries
    from corpusfit.text.context import machine_of

    machine = machine_of(machine, options)
    return cache_entries.prune_cache(machine, older_than=older_than, keep=keep, dry_run=dry_run)
