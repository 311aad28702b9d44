"""The names of scoring methods: files of `scoring/methods/` and entry points of other packages.

Importing this module imports no method and no array library, so that a mistyped name is an error
at once.
"""

from __future__ import annotations

import difflib

from corpusfit.core.errors import UnknownMethodError
from corpusfit.core.gone import moved
from corpusfit.core.plan import DEFAULT_METHOD
from corpusfit.core.registry import Registry

METHODS = Registry("corpusfit.methods", "corpusfit.scoring.methods")
names = METHODS.names


def require(name: str, setting: str = "`method.name`") -> None:
    """Raise `UnknownMethodError` unless a method has this name."""
    base = name.split(":", 1)[0]
    if base == "auto":  # what it did is now two steps
        raise UnknownMethodError(
            f"{setting} must be a scoring method; got {name!r}, which was removed: "
            "`corpusfit rank --target TASK --corpus CORPUS` ranks the methods on your texts. Name "
            f"one, such as {DEFAULT_METHOD}, the default."
        )
    if base in names():
        return
    if sentence := moved(base):
        raise UnknownMethodError(sentence)
    similar = difflib.get_close_matches(base, names(), n=1)
    guess = f" Did you mean {similar[0]!r}?" if similar else ""
    if not similar and base == name:
        guess = f" A field of the rows with scores is named field:{name}."
    raise UnknownMethodError(
        f"{setting} must be a scoring method; got {name!r}.{guess} `corpusfit methods` lists them."
    )
