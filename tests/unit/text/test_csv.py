"""CSV and TSV: quotes, headers, ragged rows."""

import csv
import io

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.types import Document, Reject
from corpusfit.text.rejects import stored


def test_quoted_line_ends_and_quotes(read, write):
    path = write("a.csv", 'id,text\n1,"a\nb ""c"", d"\r\n2,plain\n')
    assert read(path) == [
        Document(0, 8, 'a\nb "c", d', "1"),
        Document(1, 26, "plain", "2"),
    ]


def test_tabs(read, write):
    path = write("a.tsv", 'text\tlabel\none, two\t1\n"thr\tee"\t2')
    assert [r.text for r in read(path)] == ["one, two", "thr\tee"]


def test_every_shard_has_the_header(read, write):
    path = write("a.csv", "text,id\n" + "".join(f'"row\n{i}",{i}\n' for i in range(500)))
    rows = read(path, shard_mb=1e-4)
    assert [(r.text, r.id) for r in rows] == [(f"row\n{i}", str(i)) for i in range(500)]
    assert rows == read(path)


def test_a_field_over_the_csv_limit(read, write):
    long = "x" * (csv.field_size_limit() + 10)
    assert [r.text for r in read(write("a.csv", f"text\n{long}\nshort\n"))] == [long, "short"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "empty line"),
        (b"1", "missing field 'text': fields are id"),
        (b"1,", "text is empty"),
        (b"1,a,b", "malformed CSV: 3 fields under a header of 2"),
        (b"1,\xff", "invalid UTF-8"),
        (b"1,a\0b", "text contains NUL"),
    ],
)
def test_a_bad_record_costs_one_row(read, write, record, reason):
    before, bad, after = read(write("a.csv", b"id,text\n0,x\n" + record + b"\n2,y"))
    assert (bad.row, bad.byte) == (1, 12)
    assert str(bad.reason).startswith(reason)
    assert (before.text, after.text) == ("x", "y")
    assert after.byte == 12 + len(record) + 1


def test_an_unclosed_quote_takes_the_rest_as_one_reject(read, write):
    path = write("a.csv", 'text\nfine\n"never closed\nx\ny\n')
    assert read(path) == [Document(0, 5, "fine", None), Reject(1, 10, stored("unclosed quote"))]


def test_a_quote_inside_a_field_is_text(read, write):
    path = write("a.csv", 'text,n\n5" tall,1\nnext "one",2\n')
    assert [r.text for r in read(path)] == ['5" tall', 'next "one"']


def test_no_text_column(read, write):
    rows = read(write("a.csv", "body,n\nx,1\ny,2\n"))
    assert [str(r.reason) for r in rows] == ["missing field 'text': fields are body, n"] * 2


def test_byte_order_mark(read, write):
    assert read(write("a.csv", b"\xef\xbb\xbftext\r\nx\r\n")) == [Document(0, 9, "x", None)]


@pytest.mark.parametrize("content", ["", "text,id\n", "text"])
def test_no_records(read, write, content):
    assert read(write("a.csv", content)) == []


MARK = "\ufeff"
R = '"text","id"\n'


@pytest.mark.parametrize(
    "content",
    [
        "text;id\nthe cat;1;\nthe dog;2;\n",  # a separator ends each row
        "text,id,\nthe cat,1,\nthe dog,2, \n",
        "id,text\n1,the cat,\n2,the dog,\n",  # behind ids that count
        "text,id\r\nthe cat,1,,,\r\nthe dog,2,,,\r\n",
        f"{MARK}sep=;\r\ntext;id\r\nthe cat;1\r\nthe dog;2\r\n",  # Excel's first line
        '"sep=|"\rtext|id\rthe cat|1\rthe dog|2\r',
        "SEP=\t\ntext\tid\nthe cat\t1\nthe dog\t2\n",
        "sep=,\n# exported, by hand\ntext,id\nthe cat,1\nthe dog,2\n",
        "# exported\n#\n\ntext;id\nthe cat;1\nthe dog;2\n",  # comments
        "\n\r\ntext;id\nthe cat;1\nthe dog;2\n",
        " text , id\nthe cat,1\nthe dog,2\n",
        ",text,id\n0,the cat,1\n1,the dog,2\n",  # an index of pandas
        f'{R}"1","the cat","1"\n"2","the dog","2"\n',  # of R
        "text\tid\n0\tthe cat\t1\n1\tthe dog\t2",
        f"{MARK}text,id\nthe cat,1\n{MARK}text,id\nthe dog,2\n",  # files that were joined
        f"text,id\nthe cat,1\n{MARK}the dog,2\ntext,id",
        f'text,id\nthe cat,1\n{MARK}"the dog",2\n',
    ],
)
@pytest.mark.parametrize("shard_mb", [4.0, 1e-5])
def test_what_programs_write_around_values(read, write, content, shard_mb):
    name = "a.tsv" if "\t" in content else "a.csv"
    rows = read(write(name, content), shard_mb=shard_mb)
    used = [row for row in rows if isinstance(row, Document)]
    assert [(row.text, str(row.id)) for row in used] == [("the cat", "1"), ("the dog", "2")]
    rejected = [str(row.reason) for row in rows if row not in used]
    assert rejected == ["repeated header"] * (content.count("text") - 1)


def test_bytes_that_are_no_utf8_in_another_field_cost_no_text(read, write):
    path = write("a.csv", b"text,id,n\nfine,caf\xe9,1\ncaf\xe9,2,2\n\xc3\xa9,3,3\n")
    rows = [
        Document(0, 10, "fine", "caf\ufffd"),
        Reject(1, 22, stored("invalid UTF-8")),
        Document(2, 31, "\xe9", "3"),
    ]
    assert read(path) == read(path, where="n < 9") == rows
    found = read(path, text_field="{text} {n}")
    assert [getattr(row, "text", row.row) for row in found] == ["fine 1", 1, "\xe9 3"]


def test_a_quoted_value_behind_a_mark_may_have_lines(read, write):
    rows = read(write("a.csv", f'text,id\na,1\n{MARK}"b\nc",2\n'))
    assert [(row.text, row.row) for row in rows] == [("a", 0), ("b\nc", 1)]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("#id,text\n1,a\n2,b\n", ["a", "b"]),  # its names are a header's
        ("text\n#one\n#two\n", ["#one", "#two"]),
        ("text\n# one\ntext too\n", ["# one", "text too"]),
        ("text,id\n1,the cat, 1\n5,the dog, 2\n", []),  # a comma in a text
        ("text,id\n1,the cat,1\n", []),
    ],
)
def test_what_only_looks_like_these(read, write, content, texts):
    rows = read(write("a.csv", content))
    assert [row.text for row in rows if isinstance(row, Document)] == texts


def test_a_giant_header_is_one_reject(read, write):
    path = write("a.csv", "x" * 5000 + "\nrow\n")
    assert read(path, max_row_mb=1e-3) == [Reject(0, 0, stored("row longer than 0.001 MiB"))]


def test_the_parser_of_the_standard_library_agrees(read, write):
    records = [['a"b', "1"], ['"', "2"], ["x\r\ny", "3"], ['","', "4"], ['""\n""', "5"]]
    out = io.StringIO()
    csv.writer(out).writerows([["text", "id"], *records])
    rows = read(write("a.csv", out.getvalue()), shard_mb=1e-6)
    assert [[r.text, r.id] for r in rows] == records


def test_marks_of_the_plan_and_columns_without_a_header(read, write):
    """Against the standard library, which wrote the file; offsets point at the records."""
    rows = [("s|t", "a 'b'\n\"c\""), ("u", "plain"), ("'", "it's")] * 50
    out = io.StringIO()
    csv.writer(out, delimiter="|", quotechar="'", lineterminator="\n").writerows(rows)
    path = write("a.csv", out.getvalue())
    marks = {"separator": "|", "quote": "'", "columns": "id, text"}
    found = read(path, **marks)
    assert [(row.id, row.text) for row in found] == rows
    assert read(path, **marks, shard_mb=1e-4) == found
    data = out.getvalue().encode()
    assert data[found[1].byte :].startswith(b"u|plain\n")


def test_no_quotes_and_a_byte_order_mark(read, write):
    path = write("a.tsv", '\ufeffone "two\tx\n"three\ty\n')
    found = read(path, quote="", columns="text,id")
    assert [(row.text, row.id) for row in found] == [('one "two', "x"), ('"three', "y")]


@pytest.mark.parametrize("mark", [";;", "\n", "§"])
def test_a_mark_is_one_character(read, write, mark):
    with pytest.raises(UsageError, match=r"read\.separator.*one ASCII character"):
        read(write("a.csv", "text\na\n"), separator=mark)


@pytest.mark.parametrize(
    ("name", "mark"), [("a.csv", ";"), ("a.csv", "|"), ("a.csv", "\t"), ("a.tsv", ",")]
)
def test_another_separator_in_the_header_is_that_of_the_file(read, write, name, mark):
    records = [["0", f"x{mark}\ny"], *([str(i), "z"] for i in range(1, 200))]
    out = io.StringIO()
    csv.writer(out, delimiter=mark).writerows([["id", "body"], *records])
    path = write(name, "\ufeff" + out.getvalue())
    found = read(path, text_field="body", shard_mb=1e-4)
    assert [[row.id, row.text] for row in found] == records
    assert str(read(path)[0].reason) == "missing field 'text': fields are id, body"


@pytest.mark.parametrize(
    ("header", "settings"),
    [
        ("id;text", {"separator": ","}),
        ("id;text|x", {}),
        ('"id;text"', {}),
        ("id;text", {"columns": "a"}),
    ],
)
def test_a_header_whose_separator_is_set_or_not_clear_is_one_name(read, write, header, settings):
    assert "missing field" in str(read(write("a.csv", f"{header}\nx;y\n"), **settings)[0].reason)
    (whole,) = read(write("b.csv", f"{header}\nx;y\n"), text_field=header.strip('"'))
    assert whole.text == "x;y"
