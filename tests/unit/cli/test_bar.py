"""What the progress of a command looks like."""

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

import corpusfit
from corpusfit.cli import bar as bars
from corpusfit.cli import show
from corpusfit.cli.bar import Bar, clock_time, rate
from corpusfit.core.engine.progress import title


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal; returns what was shown."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100, soft_wrap=True, highlight=False)
    monkeypatch.setattr(show, "stderr", lambda: console)
    return shown


@pytest.fixture(autouse=True)
def every_stage_has_lines(monkeypatch):
    monkeypatch.setattr(bars, "SOON", 0)


def work(bar):
    bar.begin("score", 100)
    bar.advance(60, 1200)
    bar.advance(40, 800)
    bar.end()


def test_a_bar_shows_the_stage_its_share_and_a_rate(terminal):
    work(Bar())
    shown = terminal.getvalue()
    assert "Scoring the corpus" in shown
    assert "100 %" in shown
    assert "units/s" in shown


def test_a_bar_is_full_only_when_the_stage_has_ended_well(terminal):
    bar = Bar()
    bar.begin("score", 100)
    bar.advance(150)
    bar.stop()
    assert "100 %" not in terminal.getvalue()
    assert "99 %" in terminal.getvalue()


def test_a_bar_without_a_known_end_shows_the_time_so_far(terminal):
    clock = Clock()
    bar = Bar(clock)
    bar.begin("train by x", 0)
    clock.now = 185
    bar.advance(185)
    bar.stop()
    assert "0:03:05 so far" in terminal.getvalue()


def test_without_a_terminal_a_stage_is_two_lines(capsys):
    bar = Bar()
    bar.begin("score", 100)
    while not (begun := capsys.readouterr().err):
        time.sleep(0.001)
    bar.end()
    assert begun == "Scoring the corpus.\n"
    assert "done" in capsys.readouterr().err
    Bar().end()
    assert capsys.readouterr() == ("", "")


def test_a_stage_is_named_in_words():
    """Every name in the source, of which some hold the name of a text or a method."""
    calls = re.compile(r'(?:over_shards|over|stage|showing)\(\s*f?"([^"]+)"')
    source = Path(corpusfit.__file__).parent.rglob("*.py")
    stages = {name for path in source for name in calls.findall(path.read_text("utf-8"))}
    assert stages > {"rank", "take", "adapt", "embed", "find {sought}"}
    for stage in stages:
        assert re.match(r"[A-Z]\w+ing\b", title(stage)), stage


def test_a_stage_that_is_over_at_once_has_no_line(capsys, monkeypatch):
    monkeypatch.setattr(bars, "SOON", 3600)
    work(Bar())
    assert capsys.readouterr().err == ""


def test_the_line_of_a_minute_has_share_speed_and_time_left(capsys):
    """Closed form: a quarter in 60 s leaves 180 s, and 15 of 60 steps take 4 s each."""
    clock = Clock()
    bar = Bar(clock)
    bar.begin("train", 60, "steps")
    for _ in range(15):
        clock.now += 4
        bar.advance(1, 1)
    for figure in ("25 %", "4 s per step", "0:01:00", "0:03:00"):
        assert figure in bar.line()
    bar.end()


def test_nothing_new_is_not_called_work(capsys):
    bar = Bar()
    bar.begin("embed", 10)
    bar.skip(10)
    bar.end()
    assert "was there" in capsys.readouterr().err
    assert bar.line().count("left") == 0


def test_a_call_between_stages_does_no_harm(capsys):
    bar = Bar()
    bar.advance(1, 2)
    bar.skip(1)
    bar.end()
    assert capsys.readouterr() == ("", "")


def test_a_warning_is_shown_anywhere(terminal):
    Bar().warn("a [bracket] stays")
    assert terminal.getvalue() == "Warning: a [bracket] stays\n"


@pytest.mark.parametrize(
    ("units", "seconds", "said"),
    [
        (0, 10, ""),
        (10, 0, ""),
        (5, 60, "12 s per step"),
        (90, 60, "1.5 steps/s"),
        (60, 60, "1.0 steps/s"),
        (120_000, 60, "2,000 steps/s"),
    ],
)
def test_a_slow_rate_is_seconds_per_unit(units, seconds, said):
    assert rate(units, seconds, "steps") == said


def test_seconds_are_rounded_up():
    assert [clock_time(s) for s in (0.01, 59.2, 3600)] == ["0:00:01", "0:01:00", "1:00:00"]
