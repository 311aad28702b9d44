"""The names of scoring methods: files of `score/methods/` and entry points of other packages.

Importing this module imports no method and no array library, so that a mistyped name is an error
at once.
"""

from __future__ import annotations

import difflib
from importlib.metadata import entry_points
from pathlib import Path

from corpusfit.errors import UnknownMethodError

GROUP = "corpusfit.methods"
"""The entry-point group in which other packages name modules with a method."""

_FOLDER = Path(__file__).parent / "methods"


def names() -> list[str]:
    """All method names, sorted."""
    ours = {p.stem for p in _FOLDER.glob("*.py") if not p.stem.startswith("_")}
    return sorted(ours | {e.name for e in entry_points(group=GROUP)})


def require(name: str) -> None:
    """Make sure that a method exists.

    Args:
        name: `auto`, a method's name, or `pyod:` and a PyOD detector's name.

    Raises:
        UnknownMethodError: no method has that name; names the nearest.
    """
    allowed = ["auto", *names()]
    base = name.split(":", 1)[0]
    if base not in allowed:
        near = difflib.get_close_matches(base, allowed, n=1, cutoff=0.0)[0]
        raise UnknownMethodError(
            f"--method must be one of {', '.join(allowed)}; got {name!r}. Did you mean {near!r}?"
        )
