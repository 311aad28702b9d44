"""The cache: what is listed, and what `clear` removes and keeps."""

import os
import time

import pytest

import corpusfit
from corpusfit import Machine
from corpusfit.core.artifacts import write_bytes

DAY = 86_400
SIZES = {  # by age in days
    "embeddings/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": (40, 600_000),
    "tokens/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": (20, 300_000),
    "samples/cccccccccccccccccccccccccccccccc.safetensors": (10, 50_000),
    "blocks/dddddddddddddddddddddddddddddddd.json": (2, 1_000),
    "static-eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee": (1, 49_000),
    "compiled": (0.5, 500),
    "scratch-ffffffffffffffffffffffffffffffff": (0, 10_000),
    "mine/notes": (100, 5),
    "data/my-corpus": (100, 5),
    "static-websites": (100, 5),
}

MINE = ("mine/notes", "data/my-corpus", "static-websites")
OURS = [name for name in SIZES if name not in MINE]


@pytest.fixture
def machine(tmp_path):
    for name, (days, size) in SIZES.items():
        path = tmp_path / name
        path = path if path.suffix else path / "part-00000"
        write_bytes(path, bytes(size))
        os.utime(path, (time.time() - days * DAY,) * 2)
    return Machine(cache=tmp_path)


def names(entries, machine):
    return [entry.path.relative_to(machine.cache).as_posix() for entry in entries]


def test_the_list_has_what_commands_keep_and_nothing_else(machine):
    found = corpusfit.cache(machine=machine)
    assert names(found, machine) == OURS
    assert [entry.size for entry in found] == [SIZES[n][1] for n in names(found, machine)]
    ages = [round((time.time() - e.used) / DAY, 1) for e in found]
    assert ages == [40, 20, 10, 2, 1, 0.5, 0]
    assert len({entry.kind for entry in found}) == len(found)


def test_what_no_command_uses_now_is_removed(machine):
    removed = corpusfit.clear_cache(machine=machine)
    assert names(removed, machine) == OURS[:-1]
    assert names(corpusfit.cache(machine=machine), machine) == OURS[-1:]  # used within the hour
    assert (machine.cache / "mine/notes/part-00000").stat().st_size == SIZES["mine/notes"][1]


def test_a_removal_that_was_killed_is_ended_by_the_next(machine, monkeypatch):
    """An entry leaves its name at once; what is left of it is an entry itself."""
    with monkeypatch.context() as patched:
        patched.setattr("corpusfit.text.cache_entries.remove", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            corpusfit.clear_cache(machine=machine)
    assert not (machine.cache / "embeddings/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").exists()
    assert corpusfit.cache(machine=machine)[0].size == 600_000
    removed = corpusfit.clear_cache(machine=machine)
    assert 600_000 in [e.size for e in removed]


def test_no_cache_has_no_entries(tmp_path):
    assert corpusfit.cache(machine=Machine(cache=tmp_path / "none")) == []
