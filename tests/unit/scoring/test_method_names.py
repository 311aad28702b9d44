"""Methods of other packages, by entry points."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from corpusfit import __version__
from corpusfit.core import registry
from corpusfit.core.errors import PackageError, UnknownMethodError
from corpusfit.core.gone import MOVED, PAPERS
from corpusfit.scoring.names import METHODS, names
from corpusfit.scoring.registry import load

PLUG_IN = '''"""Longer texts first."""
from corpusfit.scoring.methods.random import Random

class Length(Random):
    """Longer texts first."""
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs entry points in place of those of this environment."""

    def install(*entries):
        monkeypatch.setattr(registry, "_entries", lambda group: {e.name: e for e in entries})

    (tmp_path / "a_package.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    return install


def of_papers(name, version):
    package = SimpleNamespace(name=PAPERS, version=version)
    return SimpleNamespace(name=name, module="a_package", dist=package)


def test_a_method_of_another_package(installed):
    """An entry point names its module; with a name of ours it replaces our method."""
    installed()
    ours = names()
    installed(*(EntryPoint(name, "a_package", METHODS.group) for name in ("length", "random")))
    assert names() == sorted([*ours, "length"])
    assert load("length").__name__ == load("random").__name__ == "Length"


@pytest.mark.parametrize("name", [*MOVED, "pyod:ECOD"])
def test_a_method_that_moved_is_refused_with_its_package(installed, name):
    installed()
    with pytest.raises(
        UnknownMethodError, match=r"^`[\w.=]+` is in .*: pip install corpusfit-papers$"
    ):
        load(name)


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
def test_methods_for_another_version_are_refused(installed, version):
    installed(of_papers("bm25", version))
    with pytest.raises(PackageError, match=rf" {version} .*pip install .*=={__version__}$"):
        load("bm25")
    assert load("dsir")


def test_methods_for_this_version_are_found(installed):
    installed(of_papers("bm25", __version__))
    assert load("bm25").__name__ == "Length"
    assert METHODS.package_of("bm25") == PAPERS
