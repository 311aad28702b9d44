"""What the steps of a command share."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpusfit.engine import Progress, RayEngine
from corpusfit.errors import UsageError
from corpusfit.jobs.reading import Reasons, Tally
from corpusfit.plan import Plan
from corpusfit.workflows import Machine, Selection
from corpusfit.workflows.context import Run, default_cache
from corpusfit.workflows.selection.writing import Chosen


class RecordingProgress(Progress):
    """Records all calls."""

    def __init__(self):
        self.calls = []

    def begin(self, stage, total):
        self.calls.append(("begin", stage, total))

    def advance(self, done, units=0):
        self.calls.append(("advance", done, units))

    def end(self):
        self.calls.append(("end",))

    def warn(self, message):
        self.calls.append(("warn", message))


@pytest.fixture
def run(tmp_path, inline):
    machine = type(inline)(progress=RecordingProgress())
    return Run(machine, machine.start(), tmp_path, Plan(), [], [])


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("CORPUSFIT_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("CORPUSFIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "corpusfit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "corpusfit"


def test_a_machine_has_one_of_two_kinds_of_engine():
    assert Machine(workers=3).start().workers == 3
    assert isinstance(Machine(engine="ray").start(), RayEngine)
    with pytest.raises(UsageError, match=r"^engine must .*'spark'"):
        Machine(engine="spark").start()


def test_a_warning_is_shown_once_and_stored(run):
    run.warn("careful")
    run.warn("careful")
    assert run.warnings == ["careful"]
    assert run.machine.progress.calls == [("warn", "careful")]


def test_a_stage_is_timed_and_ends_whatever_happens(run):
    with run.stage("read", 5):
        pass
    with pytest.raises(ValueError, match="no"), run.stage("read"):
        raise ValueError("no")
    assert run.machine.progress.calls == [
        ("begin", "read", 5),
        ("end",),
        ("begin", "read", 0),
        ("end",),
    ]
    assert list(run.seconds) == ["read"]
    assert run.seconds["read"] >= 0


def test_reasons_name_the_three_commonest_with_an_example():
    reasons = Reasons()
    assert str(reasons)
    reasons.add([(i, 0, f"text is not a string: {t}") for i, t in enumerate(["int", "list"] * 700)])
    reasons.add([(0, 0, "empty line"), (1, 0, "empty line"), (2, 0, "a"), (3, 0, "a"), (4, 0, "b")])
    assert str(reasons) == (
        "text is not a string: int (1,400 rows); empty line (2 rows); a (2 rows)"
    )


def test_a_tally_survives_json():
    tally = Tally(2, documents=3, rejects=[(1, 20, "empty line")])
    assert Tally(**tally.as_dict()) == tally


def test_selected_parts_are_read_by_number(tmp_path):
    import zstandard

    (tmp_path / "selected").mkdir()
    for number in (0, 2, 10, 99_999, 100_000):
        data = zstandard.ZstdCompressor().compress(b'{"part": %d}\n' % number)
        (tmp_path / f"selected/part-{number:05d}.jsonl.zst").write_bytes(data)
    assert [s["part"] for s in Selection(tmp_path, {})] == [0, 2, 10, 99_999, 100_000]


def test_nothing_chosen_has_no_threshold():
    assert (Chosen().segments, Chosen().threshold) == (0, None)
