"""Plain text: blocks and lines."""

import pytest

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import documents, find, kind, rows, shards


def test_blocks_are_numbered_by_line(read, write):
    path = write("a.txt", "\n \none\ntwo\n\n\t\n\nthree\n  indented\n\n")
    assert read(path) == [
        Document(2, 3, "one\ntwo", None),
        Document(7, 15, "three\n  indented", None),
    ]


def test_lines(read, write):
    assert read(write("a.txt", "one\n\n two \nthree"), txt="lines") == [
        Document(0, 0, "one", None),
        Reject(1, 4, "empty line"),
        Document(2, 5, " two", None),
        Document(3, 11, "three", None),
    ]


def test_a_file_is_one_document(read, write):
    path = write("a.txt", b"\xef\xbb\xbfone\r\n\n two\n\nthree\n")
    assert read(path, txt="file") == [Document(0, 0, "one\n\n two\n\nthree", None)]
    (row,) = read(write("b.txt", "x\n\n" * 2000), max_row_mb=1e-3, txt="file")
    assert kind(row.reason) == "row longer than 0.001 MiB"
    assert read(write("c.txt", " \n\n"), txt="file") == []


def test_a_row_over_the_limit_names_the_cure(read, write):
    path = write("a.txt", "one\n" * 2000)
    (row,) = read(path, max_row_mb=1e-3)
    assert kind(row.reason) == "row longer than 0.001 MiB"
    assert "use read.txt=lines to" in row.reason
    assert len(read(path, max_row_mb=1e-3, txt="lines")) == 2000
    (row,) = read(write("b.txt", "x" * 2000), max_row_mb=1e-3, txt="lines")
    assert row.reason == "row longer than 0.001 MiB"


def test_windows_line_ends_and_byte_order_mark(read, write):
    path = write("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n\r\nthree\r\n")
    assert read(path) == [Document(0, 0, "one\ntwo", None), Document(3, 15, "three", None)]
    assert [r.text for r in read(path, txt="lines") if isinstance(r, Document)] == [
        "one",
        "two",
        "three",
    ]


@pytest.mark.parametrize("txt", ["blocks", "lines", "file"])
def test_marks_of_files_that_were_joined_are_ignored(write, txt):
    mark = "\ufeff"
    path = write("a.txt", f"{mark}one\n\n{mark}two{mark}\n{mark}three\r\n{mark}four\n{mark}\n")
    wanted = {
        "blocks": ["one", f"two{mark}\nthree\nfour"],
        "lines": ["one", f"two{mark}", "three", "four"],
        "file": [f"one\n\ntwo{mark}\nthree\nfour"],
    }
    plan = ReadPlan(txt=txt)
    (shard,) = shards(find([str(path)], plan, role="corpus"), plan)
    used = [row.text for row in rows(shard, plan) if isinstance(row, Document)]
    assert used == documents(shard, plan)[0].texts.to_pylist() == wanted[txt]


def test_bad_documents(read, write):
    path = write("a.txt", b"good\n\nbad \xff\n\nnul \0\n\nlast")
    assert read(path) == [
        Document(0, 0, "good", None),
        Reject(2, 6, "invalid UTF-8"),
        Reject(4, 13, "text contains NUL"),
        Document(6, 20, "last", None),
    ]


def test_white_space_is_nothing(read, write):
    assert read(write("a.txt", "\n \n\t\n\n" * 1000), shard_mb=1e-4) == []
    assert read(write("b.txt", b"\xef\xbb\xbf\n\n")) == []


def test_other_line_separators_do_not_split(read, write):
    text = "a\u2028b\u0085c\x1cd"
    assert [r.text for r in read(write("a.txt", text), txt="lines")] == [text]
