"""Methods of other packages, by entry points."""

from importlib.metadata import EntryPoint

from corpusfit.scoring import names
from corpusfit.scoring.registry import load

PLUG_IN = '''"""Longer texts first."""
from corpusfit.scoring.methods.random import Random

class Length(Random):
    """Longer texts first."""
'''


def test_a_method_of_another_package(tmp_path, monkeypatch):
    """An entry point names its module; with a name of ours it replaces our method."""
    ours = names.names()
    (tmp_path / "a_package.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint(name, "a_package", names.GROUP) for name in ("length", "random")]
    monkeypatch.setattr(names, "entry_points", lambda group: entries)
    names.modules.cache_clear()
    try:
        assert names.names() == sorted([*ours, "length"])
        assert load("length").__name__ == load("random").__name__ == "Length"
    finally:
        names.modules.cache_clear()
