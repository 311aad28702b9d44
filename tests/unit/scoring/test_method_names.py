"""Methods of other packages, by entry points."""

from importlib.metadata import EntryPoint

from corpusfit.core import registry
from corpusfit.scoring.names import METHODS, names
from corpusfit.scoring.registry import load

PLUG_IN = '''"""Longer texts first."""
from corpusfit.scoring.methods.random import Random

class Length(Random):
    """Longer texts first."""
'''


def test_a_method_of_another_package(tmp_path, monkeypatch):
    """An entry point names its module; with a name of ours it replaces our method."""
    ours = names()
    (tmp_path / "a_package.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint(name, "a_package", METHODS.group) for name in ("length", "random")]
    monkeypatch.setattr(registry, "_entries", lambda group: {e.name: e for e in entries})
    assert names() == sorted([*ours, "length"])
    assert load("length").__name__ == load("random").__name__ == "Length"
