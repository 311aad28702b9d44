"""The charts' library: its script for the page, and charts as files.

What: Vega-Lite as one script without a loader, and the same specifications as SVG and PNG.
Why: people know it, and it draws in a browser and without one.
Trade-off: some 900 kB of script on every page; a file's chart has a fixed width, on white, as a
paper needs it.
Reference: Satyanarayan et al. (2017); vl-convert, which carries and runs it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from corpusfit.errors import MissingDependencyError
from corpusfit.report.part import Spec

_EXPOSED = "window.vegaEmbed = vegaEmbed;"
_WIDTH = 640
_SCALE = 2.0
"""Of a PNG: pixels for each point."""


@cache
def script() -> str:
    """All of it as a script that leaves `vegaEmbed` on the window.

    Raises:
        MissingDependencyError: it is not installed.
    """
    return str(_library().javascript_bundle(_EXPOSED))


def as_svg(spec: Spec) -> str:
    """A chart as SVG."""
    return str(_library().vegalite_to_svg(_fixed(spec)))


def as_png(spec: Spec) -> bytes:
    """A chart as PNG."""
    return bytes(_library().vegalite_to_png(_fixed(spec), scale=_SCALE))


def _fixed(spec: Spec) -> Spec:
    legend = {"orient": "bottom", "columns": 4}
    return {**spec, "width": _WIDTH, "background": "white", "config": {"legend": legend}}


def _library() -> Any:
    try:
        import vl_convert
    except ImportError as e:
        raise MissingDependencyError("Writing a report", "report") from e
    return vl_convert
