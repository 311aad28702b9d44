"""Progress of steps that report none of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.progress import track


def bar(starts: range, title: str) -> Iterable[int]:
    """The starts of batches, with a bar on a terminal: no notebook, even if it sets FORCE_COLOR."""
    hidden = not sys.stderr.isatty()
    return track(starts, title, console=Console(stderr=True), transient=True, disable=hidden)
