"""Find input formats by name, suffix or prefix: files of `text/formats/` and entry points."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from inspect import getmembers, isabstract, isclass
from pathlib import Path

from corpusfit.core.errors import InputError
from corpusfit.text.contract import Format, Named
from corpusfit.text.files import COMPRESSIONS, unpacked_name

GROUP = "corpusfit.formats"
"""The entry-point group in which other packages name modules with formats."""


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    ours = sorted(p.stem for p in Path(__file__).parent.joinpath("formats").glob("[!_]*.py"))
    modules = [f"corpusfit.text.formats.{stem}" for stem in ours]
    modules += [entry.module for entry in entry_points(group=GROUP)]
    classes = [
        cls()
        for module in map(importlib.import_module, modules)
        for _, cls in getmembers(module, isclass)
        if issubclass(cls, Format) and cls.__module__ == module.__name__ and not isabstract(cls)
    ]
    return {form.name: form for form in classes}


def load(name: str) -> Format:
    """The format of a source or a shard."""
    if name not in formats():
        raise InputError(
            f"The format of an input must be one of {', '.join(formats())}; got {name!r}. Install "
            "the package that reads it."
        )
    return formats()[name]


def named(input_name: str) -> Named | None:
    """The format whose prefix an input begins with; None for paths, URLs and standard input."""
    for form in formats().values():
        if isinstance(form, Named) and input_name.startswith(form.prefix):
            return form
    return None


def format_of(name: str) -> tuple[str, str] | None:
    """The format and the compression (or `""`) of a file name; None for an unknown suffix."""
    stem, compression = unpacked_name(name.lower())
    for form in formats().values():
        if stem.endswith(form.suffixes):
            return form.name, compression
    return None


def format_of_bytes(begin: bytes) -> str:
    """The format of standard input by its first bytes after white space: the longest that fits."""
    fitting = [
        (len(form.begins), name)
        for name, form in formats().items()
        if form.begins is not None and begin.startswith(form.begins)
    ]
    return max(fitting)[1]


def suffixes() -> list[str]:
    """The readable suffixes, without those of compressed files."""
    return [suffix for form in formats().values() for suffix in form.suffixes]


def allowed_suffixes() -> str:
    """The readable suffixes, for messages."""
    archives = ", ".join(f".{c}" for c in COMPRESSIONS)
    return f"{', '.join(suffixes())}, each plain or compressed ({archives})"
