"""Modules by name: files of a package of ours, and entry points of other packages.

Nothing is imported to list names. A module is imported on use, so a package that is broken is in
the way of its own names alone.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from inspect import getmembers, isabstract, isclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from corpusfit.core.errors import PackageError
from corpusfit.core.gone import PAPERS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Registry:
    """The modules of a contract by name: built-in ones, and plugins of other packages."""

    group: str  # the entry-point group in which other packages name modules
    package: str = ""  # whose files are the built-in modules; empty for none
    sign: str = "_"  # what replaces an underscore of a file's name in the name

    def built_in(self) -> dict[str, str]:
        """The built-in modules by sorted name."""
        if not self.package:
            return {}
        files = _ROOT.joinpath(*self.package.split(".")[1:]).glob("[!_]*.py")
        stems = sorted(path.stem for path in files)
        return {stem.replace("_", self.sign): f"{self.package}.{stem}" for stem in stems}

    def plugins(self) -> dict[str, EntryPoint]:
        """The entry points of other packages by sorted name."""
        return _entries(self.group)

    def modules(self) -> dict[str, str]:
        """All modules by name, built-in ones first; a plugin replaces one of its name."""
        return self.built_in() | {name: entry.module for name, entry in self.plugins().items()}

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self.modules())

    def imported(self, name: str) -> ModuleType:
        """The module of a name.

        Raises:
            PackageError: that of another package is broken, or for another version of corpusfit.
        """
        entry = self.plugins().get(name)
        package = entry.dist if entry else None
        if package and package.name == PAPERS and package.version != (ours := _version()):
            raise PackageError(
                f"{PAPERS} {package.version} is not for corpusfit {ours}: "
                f"pip install {PAPERS}=={ours}"
            )
        try:
            return importlib.import_module(self.modules()[name])
        except Exception as e:  # a module raises any kind of exception
            if name not in self.plugins():
                raise
            raise self.broken(name, f"cannot be imported ({type(e).__name__}: {e})") from e

    def classes(self, name: str, contract: type) -> list[Any]:
        """The classes of a contract that a module defines; raises `PackageError` without one."""
        module = self.imported(name)
        found = [
            cls
            for _, cls in getmembers(module, isclass)
            if issubclass(cls, contract) and cls.__module__ == module.__name__
            if not isabstract(cls)
        ]
        if not found:
            raise self.broken(name, f"defines no {contract.__name__}")
        return found

    def load(self, name: str, contract: type) -> Any:
        """The class of a contract that a module defines; raises `PackageError` unless it is one."""
        found = self.classes(name, contract)
        if len(found) > 1:
            raise self.broken(name, f"defines {len(found)} of {contract.__name__}, not one")
        return found[0]

    def package_of(self, name: str) -> str:
        """The package, as pip names it, that a name is of."""
        distribution = self.plugins()[name].dist if name in self.plugins() else None
        return distribution.name if distribution else self.modules()[name].partition(".")[0]

    def broken(self, name: str, why: str) -> PackageError:
        """The error for a module of a package that cannot be used."""
        package = self.package_of(name)
        module = self.modules()[name]
        return PackageError(
            f"The package {package} is broken: its module {module}, {name!r} of {self.group}, "
            f"{why}. Install another version of it, or remove it: pip uninstall {package}"
        )


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import

    return {entry.name: entry for entry in sorted(entry_points(group=group))}


@cache
def _version() -> str:
    from importlib.metadata import version  # slow to import

    return version("corpusfit")
