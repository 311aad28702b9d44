"""Keep a task's held-out texts out of a training: `adapt --guard`.

What: looks for them in the data and in general text that is mixed in, and says which texts to drop.
Why: a model that has read the test texts is judged too well, and a report is of no help once it is
trained.
Trade-off: a whole text is dropped, a document or a segment, not the part that was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import read_arrays, write_arrays
from corpusfit.engine import Engine
from corpusfit.evaluate.contamination import HeldoutIndex
from corpusfit.manifest import AdaptFolder
from corpusfit.pipeline.contamination.match import find_leaks
from corpusfit.pipeline.inputs import Given
from corpusfit.pipeline.run import Machine
from corpusfit.plan import ReadPlan


def find_contaminated(
    splits: Mapping[str, Sequence[str]],
    texts: Given,
    read: ReadPlan,
    folder: AdaptFolder,
    engine: Engine,
    machine: Machine,
) -> tuple[NDArray[np.uint64], dict[str, Any]]:
    """The keys of all texts that may not be trained on, as they hold a held-out text.

    Args:
        splits: the held-out texts.
        texts: what is trained on.
        read: how the rows of general text become texts.
        folder: of the run; what was found is kept there until it is finished.
        engine: started.
        machine: told of progress, and of what was found.

    Returns:
        uint64 [k], increasing, and what was counted: `texts`, the different held-out texts; and for
        `data` and `replay` what was read, how many texts hold one, and how many are held.
    """
    if folder.guard.exists():
        arrays, figures = read_arrays(folder.guard)
        return arrays["keys"], figures
    watched = HeldoutIndex.of_texts(t for found in splits.values() for t in found)
    figures = {"texts": int(watched.texts.max(initial=-1)) + 1}
    keys = np.empty(0, np.uint64)
    given = {"data": (texts.data or texts.task, texts.read), "replay": (texts.replay, read)}
    for role, (sources, how) in given.items():
        if sources:
            found = find_leaks(watched, sources, how, folder.work, engine, machine)
            holders, held = found.holders(), len(np.unique(found.watched))
            figures[role] = {"texts": found.texts, "holders": holders, "held": held}
            keys = np.union1d(keys, found.keys)
            _tell(machine, role, figures)
    write_arrays(folder.guard, {"keys": keys}, figures)
    return keys, figures


def _tell(machine: Machine, role: str, figures: dict[str, Any]) -> None:
    """Tell the user what was found."""
    counts = figures[role]
    if counts["holders"]:
        machine.progress.warn(
            f"{counts['held']:,} of the {figures['texts']:,} texts of --guard are in --{role}: "
            f"{counts['holders']:,} of its {counts['texts']:,} texts hold one and are left out."
        )
    else:
        machine.progress.note(
            f"None of the {figures['texts']:,} texts of --guard is in --{role} "
            f"({counts['texts']:,} texts)."
        )
