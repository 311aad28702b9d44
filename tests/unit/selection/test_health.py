"""`doctor`: extras by the package's metadata, memory, and the compiled kernels."""

from email import message_from_string
from importlib.metadata import PackageNotFoundError

import pytest

import corpusfit
from corpusfit import Machine
from corpusfit.embed.hardware import memory
from corpusfit.selection import health

METADATA = """Provides-Extra: first
Provides-Extra: second
Provides-Extra: third
Requires-Dist: numpy>=1.26
Requires-Dist: nothing; python_version < "3"
Requires-Dist: one>=2; extra == "first"
Requires-Dist: corpusfit[first]; extra == "second"
Requires-Dist: two<6,>=4.57; extra == "second"
Requires-Dist: three; python_version < "3" and extra == "second"
Requires-Dist: four; extra == "third"
"""


def test_extras_name_what_is_missing_and_how_to_get_it(monkeypatch, tmp_path):
    """Of another extra too, of a version out of range, and not of another Python."""

    def version(name):
        if name not in ("one", "two"):
            raise PackageNotFoundError(name)
        return {"one": "1.9", "two": "5.0"}[name]

    monkeypatch.setattr(health, "metadata", lambda _: message_from_string(METADATA))
    monkeypatch.setattr(health, "version", version)
    first, second, third = corpusfit.doctor(machine=Machine(cache=tmp_path)).extras
    assert (first.installed, first.missing) == ({}, ("one>=2",))
    assert second.installed == {"two": "5.0"}
    assert second.missing == ("one>=2",)
    assert second.cure == "pip install 'corpusfit[second]'"
    assert third.missing == ("four",)


def test_this_machine(tmp_path):
    found = corpusfit.doctor(machine=Machine(workers=3, cache=tmp_path))
    assert found.cores == 3
    assert found.cache_size == 0
    assert found.compiled is None
    assert found.versions["corpusfit"]


def test_memory_is_that_of_the_container(tmp_path):
    (tmp_path / "limit").write_text("1000\n")
    (tmp_path / "none").write_text("max\n")
    assert memory("cpu", tmp_path / "limit") == 1000
    assert memory("cpu", tmp_path / "none") == memory("cpu", tmp_path / "nosuch") > 1e6


@pytest.mark.long
def test_kernels_are_compiled(tmp_path):
    found = corpusfit.doctor(warm=True, workers=1, cache=tmp_path)
    assert found.compiled > 0
