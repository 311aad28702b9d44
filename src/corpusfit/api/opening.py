"""The finished run in a folder."""

from __future__ import annotations

import os

from corpusfit.api.offers import offers
from corpusfit.core.artifacts import place
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import Finished, OutFolder, undamaged
from corpusfit.domains.clustering import Clustered
from corpusfit.evaluation.evaluating import Evaluated
from corpusfit.evaluation.splitting.splitting import Split
from corpusfit.mixing.composing import Composition
from corpusfit.selection.result import Selection
from corpusfit.training.adapting import Adapted
from corpusfit.tuning.result import Tuned

_CLASSES: dict[str, type[Finished]] = {
    "select": Selection,
    "score": Selection,
    "adapt": Adapted,
    "evaluate": Evaluated,
    "clusters": Clustered,
    "compose": Composition,
    "split": Split,
    "tune": Tuned,
}


@offers()
def open(folder: str | os.PathLike[str]) -> Finished:
    """The finished run in a folder, as its command returned it.

    Args:
        folder: the `out` of a `select`, `score`, `choose`, `adapt`, `evaluate`, `clusters`,
            `compose`, `split` or `tune`.

    Returns:
        `Selection`, `Adapted`, `Evaluated`, `Clustered`, `Composition`, `Split` or `Tuned`.

    Raises:
        InputError: the folder holds no finished run of these commands.
    """
    path = place(folder, "DIR")
    manifest = OutFolder(path).finished() or {}
    kind = _CLASSES.get(str(manifest.get("command")))
    if kind is None:
        raise InputError(
            f"{path} must hold a finished run of {', '.join(_CLASSES)}. Name the folder given to "
            "the command as `out`; to finish a stopped run, repeat its command."
        )
    found = kind(path, manifest)
    with undamaged(path):
        repr(found)  # what it says of itself shows whether its manifest is whole
    return found
