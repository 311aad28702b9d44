"""The seconds of a step, measured once."""

import types

import pytest

pace = pytest.importorskip("corpusfit.fitting.pace", reason="the extra train is not installed")


def steps_of(monkeypatch, first, last):
    clock = types.SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(pace, "time", clock)
    measured = []
    timer = pace.StepTimer(measured.append)
    for step in range(first, last + 1):
        clock.now += 100.0 if step <= 2 else 0.25  # the first ones prepare
        timer.on_step_end(None, types.SimpleNamespace(global_step=step), None)
    return measured


@pytest.mark.parametrize(("first", "last", "seconds"), [(1, 50, [0.25]), (1, 11, []), (5, 50, [])])
def test_the_seconds_of_a_step_after_the_first_ones(monkeypatch, first, last, seconds):
    assert steps_of(monkeypatch, first, last) == seconds  # also of a training that resumes
