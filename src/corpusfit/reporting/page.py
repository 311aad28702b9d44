"""The page: templates, the chart library's script, and charts as SVG and PNG."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import StorageError, importing
from corpusfit.core.escaping import harmless
from corpusfit.reporting.charts import Spec
from corpusfit.reporting.part import Part, cell
from corpusfit.text.context import default_cache, local_cache

if TYPE_CHECKING:
    from jinja2 import Environment


_EXPOSED = "window.vegaEmbed = vegaEmbed;"
_EXCERPT = 320
"""Most characters of a text that is shown in part."""

_WIDTH = 640
_SCALE = 2.0
"""Pixels for each point of a PNG."""


@cache
def script() -> str:
    """The library as one script that sets `window.vegaEmbed`; some 900 kB.

    Bundling takes over a second, so the cache keeps it.

    Reference: Satyanarayan et al. (2017), Vega-Lite: A Grammar of Interactive Graphics.
    """
    library = _library()
    cached = local_cache(default_cache()) / f"vega-{library.__version__}.js"
    if not cached.exists():
        bundle = str(library.javascript_bundle(_EXPOSED))
        with suppress(StorageError):
            write_bytes(cached, bundle.encode())
        return bundle
    return cached.read_text("utf-8")


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


def page(title: str, parts: Sequence[Part]) -> str:
    """Render the page; Vega-Lite takes some 900 kB of it.

    Corpus text is hostile. The templates escape it, or it is in a JSON block, with `<` escaped, and
    the script only sets it as the text of a node. A
    content-security policy allows the two scripts by their digests and nothing else: no network,
    no inline handler, no eval (Vega's expressions are interpreted).
    Reference: OWASP, Cross Site Scripting Prevention; W3C, Content Security Policy Level 3.
    """
    scripts = [script(), _asset("page.js")]
    allowed = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = {
        "runs": {p.name: p.data for p in parts if p.data is not None},
        "charts": {f"{p.name}-{name}": spec for p in parts for name, spec in p.charts.items()},
    }
    template = _templates().get_template("page.html")
    ours = {"style": _asset("page.css"), "data": _as_block(data), "scripts": scripts}
    return template.render(title=title, parts=parts, policy=policy, **ours)


@cache
def _templates() -> Environment:
    """The templates; what they show is escaped, and its bidirectional controls are visible."""
    with importing("Writing a report", "report"):
        import jinja2
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("corpusfit.reporting"),
        autoescape=True,
        finalize=lambda value: harmless(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = partial(json.dumps, indent=1, ensure_ascii=False)
    made.filters |= {"cell": cell, "command": shlex.join, "settings": settings}
    made.filters["excerpt"] = partial(textwrap.shorten, width=_EXCERPT, placeholder=" …")
    return made


def _as_block(data: dict[str, Any]) -> str:
    """JSON that cannot close its block or open a comment or script in it."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    plain = plain.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return plain.encode("utf-8", "replace").decode("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files("corpusfit.reporting").joinpath("assets", name).read_text("utf-8")
