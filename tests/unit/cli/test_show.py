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


def test_tables_align_figures_and_leave_markup_alone(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert printed(capsys, "[b]Title", ["name", "n"], [["[red]a", "1"], ["b", "1,000"]]) == [
        *("[b]Title", "name        n", "[red]a      1", "b       1,000", ""),
    ]


def test_a_wide_table_continues_below_with_its_keys(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    columns = ["name", "kind", "first figure", "second", "third"]
    rows = [["a", "x", "1,000,000", "22.0 to 23.0", "3"], ["b", "y", "1", "2", "3"]]
    assert printed(capsys, "Title", columns, rows, words=["kind"], keys=2) == [
        "Title",
        "name  kind  first figure",
        "a     x        1,000,000",
        "b     y                1",
        "",
        "name  kind        second",
        "a     x     22.0 to 23.0",
        "b     y                2",
        "",
        "name  kind  third",
        "a     x         3",
        "b     y         3",
        "",
    ]


def test_texts_fold_before_a_table_is_divided_and_headings_fold_at_spaces(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = printed(capsys, "T", ["name", "share of corpus"], [["ab" * 30, "100.0 %"]])
    assert lines[1].split() == ["name", "share", "of", "corpus"]
    assert lines[2].endswith(" 100.0 %")
    assert "".join(lines[2:]).replace(" ", "").replace("100.0%", "") == "ab" * 30
    monkeypatch.setenv("COLUMNS", "32")
    lines = printed(capsys, "T", ["name", "share of corpus"], [["ab" * 30, "100.0 %"]])
    assert [line.split() for line in lines[1:3]] == [["share", "of"], ["name", "corpus"]]


def test_a_path_is_shown_by_its_end_where_that_is_one_paths_alone(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    ends = [["folder/" * 9 + name, "1"] for name in ("one.jsonl", "two.csv")]
    lines = printed(capsys, "T", ["path", "n"], ends)
    assert [line.split() for line in lines[2:4]] == [
        ["…" + path[-36:], "1"] for path, _ in ends
    ]  # fmt: skip
    same = [[f"{start}/" + "folder/" * 9, "1"] for start in "ab"]
    assert "…" not in "".join(printed(capsys, "T", ["path", "n"], same))


def test_an_ending_that_all_names_have_stands_in_the_heading_of_a_table_too_wide(
    capsys, monkeypatch
):
    rows = [["one_of_many_sources.jsonl.zst", "1"], ["another.jsonl.zst", "2"]]
    monkeypatch.setenv("COLUMNS", "30")
    lines = printed(capsys, "T", ["source", "n"], rows)
    assert lines[1:] == [
        *("source (*.jsonl.zst)  n", "one_of_many_sources   1"),
        *("another               2", ""),
    ]
    monkeypatch.setenv("COLUMNS", "80")
    assert rows[0][0] in printed(capsys, "T", ["source", "n"], rows)[2]
    figures = printed(capsys, "T", ["cosine", "text"], [["0.094", "a text " * 20]], words=["text"])
    assert figures[1].split() == ["cosine", "text"]


def test_a_name_of_three_lines_loses_its_middle(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "28")
    figures = [["1,234,567,890"], ["2"]]
    names = ["consensus@moore_lewis+dsir+cynical", "knn"]
    rows = [[name, *more] for name, more in zip(names, figures, strict=True)]
    lines = printed(capsys, "T", ["method", "n"], rows)
    assert [line.split() for line in lines[2:4]] == [["consen…ynical", *figures[0]], ["knn", "2"]]


def test_a_pipe_has_80_columns_and_wide_characters_count_twice(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
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


def test_a_name_that_fits_is_not_folded_for_a_heading(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    name, headings = "a" * 30, ["share of corpus", "share of words"]
    lines = printed(capsys, "T", ["path", *headings], [[name, "100.0 %", "100.0 %"]])
    assert any(name in line for line in lines)


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
