"""Warns before work for which the disk may be too small."""

from __future__ import annotations

import shutil

from corpusfit.core.artifacts import is_local
from corpusfit.core.engine import Progress
from corpusfit.core.manifest import OutFolder


def warn_without_room(folder: OutFolder, needed: float, progress: Progress) -> None:
    """Compare the free room at a run's folder with an upper estimate of what is written there.

    The warning is not kept in the manifest, as it is of the machine alone.
    """
    if not is_local(folder.work):
        return
    begun = next(place for place in (folder.work, *folder.work.parents) if place.exists())
    free = shutil.disk_usage(begun).free
    if needed > free:
        progress.warn(
            f"{folder.path} has {free / 1e9:,.1f} GB of free room, and the run may write up to "
            f"about {needed / 1e9:,.1f} GB. Make room, or choose another `out`."
        )
