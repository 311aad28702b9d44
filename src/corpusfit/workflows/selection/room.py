"""Warns before a run for which the disk may be too small."""

from __future__ import annotations

import shutil

from corpusfit.artifacts import is_local
from corpusfit.score import registry
from corpusfit.workflows.context import Run
from corpusfit.workflows.selection_folder import SelectionFolder


def warn_without_room(run: Run, folder: SelectionFolder) -> None:
    """Compare the free room at `out` with an upper estimate of what the run writes there.

    The selected text is compressed, but so may be the corpus; stored embeddings, 16 bits a number,
    are about as large as the text. The warning is not kept in the manifest, as it is of the machine
    alone.
    """
    if not is_local(folder.work):
        return
    name = run.plan.method.name
    encodes = name != "auto" and registry.build(name, run.plan.method.options).encodes
    needed = run.size * (run.plan.choose.share + encodes)
    free = shutil.disk_usage(folder.work).free
    if needed > free:
        run.progress.warn(
            f"{folder.path} has {free / 1e9:,.1f} GB of free room, and the run may write up to "
            f"about {needed / 1e9:,.1f} GB. Make room, or choose another <.out>."
        )
