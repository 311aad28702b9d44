"""Find the part of a corpus that is like your task, and show that it is.

import corpusfit

run = corpusfit.select(target="task.jsonl", corpus="pile/", out="out/", fraction=0.1)
for segment in run:
    print(segment["score"], segment["source"], segment["text"][:80])
"""

import os
import sys

# `python -m corpusfit` looks for every module in the current folder first, which may be one of data
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("corpusfit"):
    _here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if sys.path[0] == os.getcwd() != _here:  # noqa: PTH109 (pathlib would be imported from there)
        del sys.path[0]

import lazy_loader

__version__ = "0.3.0"

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """A public name, loaded when it is first used."""
    try:
        return _public(name)
    except AttributeError as e:
        from corpusfit.core.gone import gone, moved

        raise AttributeError(gone(name) or moved(name) or str(e)) from None
