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


def require(name: str, setting: str = "<method.name>") -> None:
    """Make sure that a method exists.

    Args:
        name: `auto`, a method's name, or `pyod:` and a PyOD detector's name.
        setting: what named the method, for the message.

    Raises:
        UnknownMethodError: no method has that name; suggests a similar one.
    """
    allowed = ["auto", *names()]
    base = name.split(":", 1)[0]
    if base not in allowed:
        similar = difflib.get_close_matches(base, allowed, n=1)
        guess = f" Did you mean {similar[0]!r}?" if similar else ""
        raise UnknownMethodError(
            f"{setting} must be a scoring method; got {name!r}.{guess} "
            f"The methods: {', '.join(allowed)}."
        )
