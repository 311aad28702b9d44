"""What commands print."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from corpusfit.cli import show
from corpusfit.cli.show import Bar, as_json, percent, short_names, table


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal; returns what was shown."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100, soft_wrap=True, highlight=False)
    monkeypatch.setattr(show, "_err", console)
    return shown


def work(bar):
    bar.begin("score", 100)
    bar.advance(60, 1200)
    bar.advance(40, 800)
    bar.end()


def test_names_are_as_short_as_they_differ():
    names = ["a/mbert", "b/mbert/", "models/minilm", "static:x/y", "hub/xlm-r"]
    assert list(short_names(names).values()) == ["a/mbert", "b/mbert/", "minilm", "y", "xlm-r"]
    assert short_names(["/"]) == {"/": "/"}


def test_a_bar_is_silent_where_there_is_no_terminal(capsys):
    work(Bar())
    Bar().end()
    assert capsys.readouterr() == ("", "")


def test_a_bar_shows_the_stage_its_share_and_a_rate(terminal):
    work(Bar())
    shown = terminal.getvalue()
    assert "score" in shown
    assert "100 %" in shown
    assert "units/s" in shown


def test_a_warning_is_shown_anywhere(capsys, terminal):
    Bar().warn("a [bracket] stays")
    assert terminal.getvalue() == "Warning: a [bracket] stays\n"


def test_json_is_one_line_of_ascii(capsys):
    as_json({"name": "日本\udce9", "path": __import__("pathlib").Path("x")})
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.count("\n") == 1
    assert json.loads(out) == {"name": "日本\udce9", "path": "x"}


def test_percent():
    assert percent(1, 8) == "12.5 %"
    assert percent(0, 0) == "–"


def test_tables_align_figures_and_leave_markup_alone(capsys, monkeypatch):
    monkeypatch.setattr(show, "_out", Console(width=60, highlight=False))
    table("Title", ["name", "n"], [["[red]a", "1"], ["b", "1,000"]])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        *("Title", "name        n", "[red]a      1", "b       1,000", ""),
    ]
