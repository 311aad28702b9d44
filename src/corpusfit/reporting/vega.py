"""The chart library, Vega-Lite by vl-convert: its script for the page, charts as SVG and PNG."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from corpusfit.core.artifacts import user_cache, write_bytes
from corpusfit.core.errors import StorageError, importing
from corpusfit.reporting.spec import Spec

_EXPOSED = "window.vegaEmbed = vegaEmbed;"
_WIDTH = 640
_SCALE = 2.0
"""Pixels for each point of a PNG."""


@cache
def script() -> str:
    """The library as one script that sets `window.vegaEmbed`; some 900 kB.

    Bundling takes over a second, so the user's cache keeps it.

    Reference: Satyanarayan et al. (2017), Vega-Lite: A Grammar of Interactive Graphics.
    """
    library = _library()
    kept = user_cache() / f"vega-{library.__version__}.js"
    if not kept.exists():
        bundle = str(library.javascript_bundle(_EXPOSED))
        with suppress(StorageError):
            write_bytes(kept, bundle.encode())
        return bundle
    return kept.read_text("utf-8")


def as_svg(spec: Spec) -> str:
    """A chart as SVG, of fixed width on white."""
    return str(_library().vegalite_to_svg(_fixed(spec)))


def as_png(spec: Spec) -> bytes:
    """A chart as PNG, of fixed width on white."""
    return bytes(_library().vegalite_to_png(_fixed(spec), scale=_SCALE))


def _fixed(spec: Spec) -> Spec:
    legend = {"orient": "bottom", "columns": 4}
    return {**spec, "width": _WIDTH, "background": "white", "config": {"legend": legend}}


def _library() -> Any:
    with importing("Writing a report", "report"):
        import vl_convert
    return vl_convert
