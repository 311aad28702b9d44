"""The names of scoring methods: files of `scoring/methods/` and entry points of other packages.

Importing this module imports no method and no array library, so that a mistyped name is an error
at once.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from corpusfit.core.errors import UnknownMethodError
from corpusfit.core.plan import DEFAULT_METHOD

GROUP = "corpusfit.methods"
"""The entry-point group in which other packages name modules with a method."""

_FOLDER = Path(__file__).parent / "methods"


@cache
def modules() -> dict[str, str]:
    """The module of each method, by sorted name; other packages can override ours."""
    ours = {p.stem: f"corpusfit.scoring.methods.{p.stem}" for p in _FOLDER.glob("[!_]*.py")}
    theirs = {e.name: e.module for e in entry_points(group=GROUP)}
    return dict(sorted((ours | theirs).items()))


def names() -> list[str]:
    """All method names, sorted."""
    return list(modules())


def require(name: str, setting: str = "`method.name`") -> None:
    """Raise `UnknownMethodError` if no method has this name."""
    base = name.split(":", 1)[0]
    if base == "auto":  # what it did is now two steps
        raise UnknownMethodError(
            f"{setting} must be a scoring method; got {name!r}, which was removed: "
            "`corpusfit rank --target TASK --corpus CORPUS` ranks the methods on your texts. Name "
            f"one, such as {DEFAULT_METHOD}, the default."
        )
    if base not in names():
        similar = difflib.get_close_matches(base, names(), n=1)
        guess = f" Did you mean {similar[0]!r}?" if similar else ""
        if not similar and base == name:
            guess = f" A field of the rows with scores is named field:{name}."
        raise UnknownMethodError(
            f"{setting} must be a scoring method; got {name!r}.{guess} `corpusfit methods` lists "
            "them."
        )
