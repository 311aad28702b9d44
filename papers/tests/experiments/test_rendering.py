"""Tables: scores in each format, and escaping of any text."""

import csv as formats
import dataclasses
import io
import json
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from corpusfit_papers.experiments.rendering import (
    Score,
    Table,
    csv,
    latex,
    markdown,
    plain,
    records,
    with_best,
)

NASTY = ("a|b", "R&D 50%", "_x_ y_z", "#1 $2", 'a "q"', "two\nlines", "*b* `c` <i> [d](e) &amp; \\")

# TADPOLE's Table 3, the first two tasks
TABLE = Table(
    title="Macro F1 on test",
    columns=("task", "Base", "auto"),
    rows=(
        ("HPRPARTISAN", Score(0.7057, 0.0304), Score(0.7358, 0.0239, "*")),
        ("ACL-ARC", Score(0.7231, 0.047), Score(0.7131, 0.0383, "†")),
        ("average gain", None, Score(-0.0022, 0.0031)),
    ),
    notes=("eight seeds", "* p < 0.05"),
)


def in_markdown(text):
    """Headings and cells of the only table in a Markdown text, as a parser reads them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    cells = [t for before, t in pairwise(tokens) if before.type in ("th_open", "td_open")]
    return ["".join(part.content for part in t.children) for t in cells]


def test_markdown_looks_like_this():
    assert markdown(with_best(TABLE, "row")).splitlines() == [
        "**Macro F1 on test**",
        "",
        "| task | Base | auto |",
        "| --- | ---: | ---: |",
        r"| HPRPARTISAN | 70.57 ± 3.04 | **73.58** ± 2.39 \* |",
        "| ACL-ARC | **72.31** ± 4.70 | 71.31 ± 3.83 † |",
        "| average gain | – | -0.22 ± 0.31 |",
        "",
        "- eight seeds",
        r"- \* p \< 0.05",
    ]


def test_latex_looks_like_this():
    assert latex(with_best(TABLE, "row")).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Macro F1 on test}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"task & Base & auto \\",
        r"\midrule",
        r"HPRPARTISAN & $70.57_{3.04}$ & $\mathbf{73.58}_{2.39}^{*}$ \\",
        r"ACL-ARC & $\mathbf{72.31}_{4.70}$ & $71.31_{3.83}^{\dagger}$ \\",
        r"average gain & -- & $-0.22_{0.31}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip{\footnotesize eight seeds}",
        r"\par\smallskip{\footnotesize {*} p \textless{} 0.05}",
        r"\end{table}",
    ]


def test_csv_is_read_back_as_numbers():
    rows = list(formats.DictReader(io.StringIO(csv(TABLE))))
    assert list(rows[0]) == [
        *("task", "Base", "Base sd", "Base mark", "auto", "auto sd", "auto mark"),
    ]
    assert list(rows[0].values()) == ["HPRPARTISAN", "70.57", "3.04", "", "73.58", "2.39", "*"]
    assert [row["Base"] for row in rows] == ["70.57", "72.31", ""]
    assert [float(row["auto"]) for row in rows] == [73.58, 71.31, -0.22]


def test_records_are_ready_for_json():
    found = records(TABLE)
    assert json.loads(json.dumps(found)) == found
    assert found[1]["auto"] == {"mean": 71.31, "sd": 3.83, "mark": "†"}
    assert found[2] == {
        "task": "average gain",
        "Base": None,
        "auto": {"mean": -0.22, "sd": 0.31, "mark": ""},
    }


def test_plain_rows_are_text():
    assert plain(with_best(TABLE, "row")) == [
        ["HPRPARTISAN", "70.57 ± 3.04", "73.58 ± 2.39 *"],
        ["ACL-ARC", "72.31 ± 4.70", "71.31 ± 3.83 †"],
        ["average gain", "–", "-0.22 ± 0.31"],
    ]


@pytest.mark.parametrize("text", NASTY)
def test_markdown_shows_any_text_as_it_is(text):
    table = Table(text, (text, "n"), ((text, 1), ("x", Score(0.5, 0.1, "*"))), (text,))
    shown = " ".join(text.split())
    assert in_markdown(markdown(table)) == [shown, "n", shown, "1", "x", "50.00 ± 10.00 *"]
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown(table))
    title, note = ("".join(part.content for part in t.children) for t in (tokens[1], tokens[-4]))
    assert (title, note) == (shown, shown)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("R&D 50%", r"R\&D 50\%"),
        ("a_b #1 $2 {x}", r"a\_b \#1 \$2 \{x\}"),
        ("a\\b^c~d", r"a\textbackslash{}b\textasciicircum{}c\textasciitilde{}d"),
        ('a "q" <b> |', r"a ''q'' \textless{}b\textgreater{} \textbar{}"),
        ("two\nlines", "two lines"),
        ("[1]* ±", r"{[}1{]}{*} $\pm$"),
    ],
)
def test_latex_escapes(text, want):
    lines = latex(Table(text, (text,), ((text,),), (text,))).splitlines()
    assert lines[2] == rf"\caption{{{want}}}"
    assert lines[5] == rf"{want} \\"
    assert lines[7] == rf"{want} \\"
    assert lines[-2] == rf"\par\smallskip{{\footnotesize {want}}}"


@pytest.mark.parametrize("text", ["=1+1", "+a", "-2+3", "@SUM(1)", "\t=1"])
def test_csv_has_no_formula(text):
    rows = formats.reader(io.StringIO(csv(Table("t", (text, "b"), (("-1.5 -2", text),)))))
    assert list(rows) == [[f"'{text}", "b"], ["-1.5 -2", f"'{text}"]]


def test_a_carriage_return_begins_no_row_of_csv():
    text = csv(Table("t", ("a", "b"), (("c\r=1+1", "\r=1+1"),)))
    assert len(text.splitlines()) == 2
    assert "\r" not in text


def test_a_file_of_tables_controls_no_terminal():
    table = Table("\x1b[2J", ("a\u202e",), (("\x9b1m",),))
    for text in (markdown(table), latex(table)):
        assert all(c.isprintable() or c == "\n" for c in text)


def test_formats_of_numbers():
    table = Table("t", tuple("abcdef"), ((1_234, 1_234.5, 0.003, 0.41, 0.0, None),))
    assert plain(table) == [["1,234", "1,234.50", "0.003", "0.41", "0.00", "–"]]
    assert records(table)[0] == dict(zip("abcdef", table.rows[0], strict=True))
    assert csv(table).splitlines()[1] == "1234,1234.5,0.003,0.41,0.0,"


def test_columns_with_text_and_empty_columns_are_left_aligned():
    table = Table("t", ("a", "b", "c"), ((1, "x", None), (Score(0.5), 2, None)))
    assert "| ---: | --- | --- |" in markdown(table)
    assert r"\begin{tabular}{rll}" in latex(table)


def test_the_best_of_a_row_or_column_is_chosen_after_rounding():
    rows = (
        ("x", Score(0.50001), Score(0.5), Score(0.4), 0.9),
        ("y", Score(0.3), Score(0.6), None, 0.1),
    )
    table = Table("t", ("m", "a", "b", "c", "n"), rows)

    def best(among):
        return [
            [cell.best for cell in row if isinstance(cell, Score)]
            for row in with_best(table, among).rows
        ]

    assert best("row") == [[True, True, False], [False, True]]
    assert best("column") == [[True, False, False], [False, True]]
    assert with_best(with_best(table, "column"), "row") == with_best(table, "row")


def test_a_table_without_rows():
    none = Table("t", ("a", "b"), ())
    assert markdown(none) == "**t**\n\n| a | b |\n| --- | --- |\n"
    assert csv(none) == "a,b\n"
    assert (plain(none), records(none)) == ([], [])
    assert with_best(none, "column") == none
    assert r"\midrule" in latex(none)


def test_rows_have_one_cell_per_column_and_columns_unique_names():
    with pytest.raises(ValueError, match="row"):
        Table("t", ("a", "b"), ((1,),))
    with pytest.raises(ValueError, match="name"):
        Table("t", ("a", "a"), ((1, 2),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        TABLE.title = "other"
