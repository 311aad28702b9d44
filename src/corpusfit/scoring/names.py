"""The names of scoring methods: files of `scoring/methods/` and entry points of other packages.

Importing this module imports no method and no array library, so that a mistyped name is an error
at once.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from corpusfit import __version__
from corpusfit.core.errors import UnknownMethodError, UsageError
from corpusfit.core.plan import DEFAULT_METHOD

GROUP = "corpusfit.methods"
"""The entry-point group in which other packages name modules with a method."""

CORE, PAPERS = "corpusfit", "corpusfit-papers"

MOVED = (
    "betr",
    "bm25",
    "centroid_distance",
    "cluster_ratio",
    "conditional_loss",
    "consensus",
    "cross_entropy",
    "domain_finetune",
    "domain_moore_lewis",
    "lof",
    "ngram_coverage",
    "ngram_coverage_unseen",
    "one_class_svm",
    "pca",
    "perplexity",
    "pyod",
    "robust_covariance",
    "textgram",
    "textrank",
    "tfidf",
)
"""Methods of earlier versions that are in `corpusfit-papers` now."""

_FOLDER = Path(__file__).parent / "methods"


class Found(NamedTuple):
    """Where a method is."""

    module: str
    package: str = CORE
    version: str = __version__


@cache
def found() -> dict[str, Found]:
    """Where each method is, by sorted name; other packages can override ours."""
    ours = {p.stem: Found(f"corpusfit.scoring.methods.{p.stem}") for p in _FOLDER.glob("[!_]*.py")}
    theirs = {
        e.name: Found(e.module, e.dist.name if e.dist else "", e.dist.version if e.dist else "")
        for e in entry_points(group=GROUP)
    }
    return dict(sorted((ours | theirs).items()))


def names() -> list[str]:
    """All method names, sorted."""
    return list(found())


def require(name: str, setting: str = "`method.name`") -> None:
    """Raise unless a method has this name.

    Raises:
        UnknownMethodError: no installed package has such a method.
        UsageError: its package is made for another version of corpusfit.
    """
    base = name.split(":", 1)[0]
    if base == "auto":  # what it did is now two steps
        raise UnknownMethodError(
            f"{setting} must be a scoring method; got {name!r}, which was removed: "
            "`corpusfit rank --target TASK --corpus CORPUS` ranks the methods on your texts. Name "
            f"one, such as {DEFAULT_METHOD}, the default."
        )
    if base in found():
        _, package, version = found()[base]
        if package == PAPERS and version != __version__:
            raise UsageError(
                f"{PAPERS} {version} is not for corpusfit {__version__}: "
                f"pip install {PAPERS}=={__version__}"
            )
        return
    if base in MOVED:
        raise UnknownMethodError(f"`{base}` is in {PAPERS}: pip install {PAPERS}")
    similar = difflib.get_close_matches(base, names(), n=1)
    guess = f" Did you mean {similar[0]!r}?" if similar else ""
    if not similar and base == name:
        guess = f" A field of the rows with scores is named field:{name}."
    raise UnknownMethodError(
        f"{setting} must be a scoring method; got {name!r}.{guess} `corpusfit methods` lists them."
    )
