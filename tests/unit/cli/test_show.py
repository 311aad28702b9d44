"""What commands print."""

import json
import unicodedata

import pytest
from rich.cells import cell_len

from corpusfit.cli import show
from corpusfit.cli.select import show_estimate
from corpusfit.cli.show import as_json, percent, say, say_result, table


def test_json_is_one_line_of_ascii(capsys):
    as_json({"name": "日本\udce9", "path": __import__("pathlib").Path("x")})
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.count("\n") == 1
    assert json.loads(out) == {"name": "日本\udce9", "path": "x"}


def test_percent():
    assert percent(1, 8) == "12.5 %"
    assert percent(0, 0) == "–"


def printed(capsys, *args, **settings):
    """The lines of a table, without blanks at their ends."""
    capsys.readouterr()
    table(*args, **settings)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_tables_align_figures_and_leave_markup_alone(capsys):
    assert printed(capsys, "[b]Title", ["name", "n"], [["[red]a", "1"], ["b", "1,000"]]) == [
        *("[b]Title", "name        n", "[red]a      1", "b       1,000", ""),
    ]


def test_a_text_folds_and_a_figure_never_does(capsys, monkeypatch):
    monkeypatch.setattr(show.stdout(), "width", 30)
    columns = ["name", "share of corpus", "second", "text"]
    rows = [["ab" * 30, "1,000,000", "22.0 to 23.0", "some words " * 5]]
    lines = printed(capsys, "T", columns, rows, words=["text"])
    assert any("1,000,000  22.0 to 23.0" in line for line in lines)
    assert "".join(line.split()[0] for line in lines if line.startswith(("a", "b"))) == "ab" * 30
    assert sum(line.count("words") for line in lines) == 5


def test_wide_characters_count_twice(capsys, monkeypatch):
    monkeypatch.setattr(show.stdout(), "width", 80)
    lines = printed(capsys, "T", ["text", "n"], [["日本" * 60, "1"]])
    assert max(map(cell_len, lines)) == 80
    assert sum(line.count("日本") for line in lines) == 60


def test_nothing_controls_the_terminal(capsys):
    foe = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eevil\u2066\r\x7f\0\ud800\udcff"
    table(foe, ["name", foe], [[foe, foe]], words=[foe])
    say_result(f"a\r\n\t{foe}")
    say(foe)
    shown = "".join(capsys.readouterr())
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"]
    assert shown.count("⟨U+001B⟩") == 2 * 6
    assert "a\n\t⟨" in shown


FLAGS = {
    "choose.fraction": "--fraction",
    "read.where": "--where",
    "read.strict": "--strict",
    "out": "--out",
    "train_sizes": "--train-size",
    "settings": "--set",
}


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ("`choose.fraction=0.1`", "`choose.fraction=0.1` (--fraction 0.1)"),
        ("`choose.fraction`", "`choose.fraction` (--fraction)"),
        ("`read.where=score > 2`", "`read.where=score > 2` (--where 'score > 2')"),
        ("`read.strict=true`", "`read.strict=true` (--strict)"),
        ("`read.strict=false`", "`read.strict=false` (--set read.strict=false)"),
        ("`choose.c=2.0`", "`choose.c=2.0` (--set choose.c=2.0)"),
        ("`choose.c`", "`choose.c`"),
        ("`out`", "`out` (--out)"),
        ("`train_sizes`", "`train_sizes` (--train-size)"),
        ("`corpusfit select`", "`corpusfit select`"),
        ("`out`, `out`", "`out` (--out), `out`"),
    ],
)
def test_the_flag_stands_beside_a_setting(named, shown):
    assert show.with_flags(f"Set {named}.", FLAGS) == f"Set {shown}."


def test_in_a_help_the_flag_stands_alone():
    text = "By `choose.fraction`, with `read.strict=true` or `choose.c`; see `choose.fraction`"
    shown = show.with_flags(text, FLAGS, alone=True)
    assert shown == "By --fraction, with --strict or `choose.c`; see --fraction"


def test_an_estimate_counts_the_gpus_that_encode(capsys):
    sizes = dict.fromkeys(("sources", "stored_mb", "text_mb", "units", "seconds", "disk_mb"), 5)
    for gpus, said in ((0, "4 workers, "), (1, "4 workers and 1 GPU, "), (8, "and 8 GPUs, ")):
        show_estimate({**sizes, "memory_mb": 9, "workers": 4, "devices": gpus})
        assert said in " ".join(capsys.readouterr().err.split())
