"""The commands `doctor` and `cache` as functions."""

from __future__ import annotations

from corpusfit.api.offers import offers
from corpusfit.selection import health
from corpusfit.selection.health import Health
from corpusfit.text import cache_entries
from corpusfit.text.cache_entries import CacheEntry
from corpusfit.text.context import Machine


@offers()
def doctor(*, speed: bool = False, warm: bool = False, machine: Machine | None = None) -> Health:
    """Look at this machine: versions, extras, devices, cache.

    Args:
        speed: also measure the encoders that can be loaded here, a few seconds each.
        warm: also compile the kernels, once per environment, so that the next `select` does not.
        machine: whose cache, engine and workers.

    Returns:
        What was found.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    return health.doctor(machine or Machine(), speed=speed, warm=warm)


@offers()
def cache(*, machine: Machine | None = None) -> list[CacheEntry]:
    """List what is in the cache, least recently used first.

    Args:
        machine: whose cache.
    """
    return cache_entries.cache_entries(machine or Machine())


@offers()
def prune_cache(
    *,
    older_than: float | None = None,
    keep: float | None = None,
    dry_run: bool = False,
    machine: Machine | None = None,
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
    return cache_entries.prune_cache(
        machine or Machine(), older_than=older_than, keep=keep, dry_run=dry_run
    )
