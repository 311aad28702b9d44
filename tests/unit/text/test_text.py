"""Plain text: blocks and lines."""

import gzip
import re
import textwrap
from random import Random

import pytest

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import documents, find, rows, shards
from corpusfit.text.formats.txt import by_lines
from corpusfit.text.rejects import stored


def test_blocks_are_numbered_by_line(read, write):
    path = write("a.txt", "\n \none\ntwo\n\n\t\n\nthree\n  indented\n\n")
    assert read(path) == [
        Document(2, 3, "one\ntwo", None),
        Document(7, 15, "three\n  indented", None),
    ]


def test_lines(read, write):
    assert read(write("a.txt", "one\n\n two \nthree"), txt="lines") == [
        Document(0, 0, "one", None),
        Reject(1, 4, stored("empty line")),
        Document(2, 5, " two", None),
        Document(3, 11, "three", None),
    ]


def test_a_file_is_one_document(read, write):
    path = write("a.txt", b"\xef\xbb\xbfone\r\n\n two\n\nthree\n")
    assert read(path, txt="file") == [Document(0, 0, "one\n\n two\n\nthree", None)]
    (row,) = read(write("b.txt", "x\n\n" * 2000), max_row_mb=1e-3, txt="file")
    assert str(row.reason.kind) == "row longer than 0.001 MiB"
    assert read(write("c.txt", " \n\n"), txt="file") == []


def test_a_row_over_the_limit_names_the_cure(read, write):
    path = write("a.txt", "one\n" * 2000)
    (row,) = read(path, max_row_mb=1e-3, txt="blocks")
    assert str(row.reason.kind) == "row longer than 0.001 MiB"
    assert "use read.txt=lines to" in str(row.reason)
    assert len(read(path, max_row_mb=1e-3, txt="lines")) == 2000
    (row,) = read(write("b.txt", "x" * 2000), max_row_mb=1e-3, txt="lines")
    assert str(row.reason) == "row longer than 0.001 MiB"


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
        Reject(2, 6, stored("invalid UTF-8")),
        Reject(4, 13, stored("text contains NUL")),
        Document(6, 20, "last", None),
    ]


def test_white_space_is_nothing(read, write):
    assert read(write("a.txt", "\n \n\t\n\n" * 1000), shard_mb=1e-4) == []
    assert read(write("b.txt", b"\xef\xbb\xbf\n\n")) == []


def test_other_line_separators_do_not_split(read, write):
    text = "a\u2028b\u0085c\x1cd"
    assert [r.text for r in read(write("a.txt", text), txt="lines")] == [text]


RANDOM = Random(3)
WORDS = ("the", "a", "of", "cell", "gene", "court", "law", "market", "stock", "river", "theory")


def sentences(n, words=(4, 20), stop="."):
    for _ in range(n):
        chosen = RANDOM.choices(WORDS, k=RANDOM.randint(*words))
        yield " ".join(chosen).capitalize() + stop


def ideographs(n):
    for _ in range(n):
        yield "".join(RANDOM.choices("天地玄黃宇宙洪荒日月盈昃", k=RANDOM.randint(8, 40))) + "。"


def broken(width, n=12, **words):
    return textwrap.fill(" ".join(sentences(n)), width, **words)


PROSE = "".join(ideographs(40))
DIVIDED = {
    # each line is a text
    "sentences": ("\n".join(sentences(40)), True),
    "of one length": ("\n".join(sentences(40, (9, 9))), True),
    "without stops": ("\n".join(sentences(40, stop="")), True),
    "numbered": ("\n".join(f"text number {i:03} about genes" for i in range(10)), True),
    "of two sentences": ("\n".join(" ".join(sentences(2)) for _ in range(20)), True),
    "Chinese": ("\n".join(ideographs(40)), True),
    "blank lines around": ("\n\n\n" + "\n".join(sentences(40)) + "\n \n\n", True),
    "CR": ("\r".join(sentences(40)), True),
    "CRLF and a mark": ("\ufeff" + "\r\n".join(sentences(40)), True),
    "a stray blank line": ("\n\n".join("\n".join(sentences(300)) for _ in range(2)), True),
    # lines of paragraphs, and what blank lines divide
    "broken": (broken(72, 60), False),
    "broken narrowly": (broken(40, 60), False),
    "indented, without full lines": (
        "\n".join(broken(72, 2, initial_indent="   ") for _ in range(20)),
        False,
    ),
    "lower case": ("\n".join(sentence.lower() for sentence in sentences(40)), True),
    "lower case without stops": ("\n".join(s.lower() for s in sentences(40, stop="")), True),
    "indented": ("\n".join(broken(72, initial_indent="   ") for _ in range(6)), False),
    "Chinese, broken": ("\n".join(PROSE[i : i + 30] for i in range(0, len(PROSE), 30)), False),
    "blocks": ("\n\n".join(sentences(60)), False),
    "broken blocks": ("\n\n".join(broken(72) for _ in range(6)), False),
    "few": ("\n".join(sentences(5)), False),
    "UTF-16": ("\n".join(sentences(40)).encode("utf-16-le"), False),
    "nothing": ("", False),
    # either may be meant
    "paragraphs": ("\n".join(" ".join(sentences(8)) for _ in range(20)), None),
    "verses": ("\n\n".join("\n".join(sentences(4)) for _ in range(10)), None),
    "sonnets": ("\n\n".join("\n".join(sentences(14, stop="")) for _ in range(10)), None),
}


@pytest.mark.parametrize("kind", DIVIDED)
def test_a_file_shows_whether_its_lines_are_texts(kind):
    content, lines = DIVIDED[kind]
    assert by_lines(content if isinstance(content, bytes) else content.encode(), 1) is lines


def found(folder, role="corpus", **settings):
    """The texts of a folder, and the notes on it."""
    plan, said = ReadPlan(**settings), []
    sources = find([str(folder)], plan, role=role, note=said.append)
    read = [r.text for shard in shards(sources, plan) for r in rows(shard, plan)]
    columns = [documents(shard, plan)[0].texts.to_pylist() for shard in shards(sources, plan)]
    assert read == [text for texts in columns for text in texts]
    return read, said


@pytest.mark.parametrize("shard_mb", [4.0, 1e-4])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_lines_is_a_text_a_line_which_is_said(write, shard_mb, packed):
    texts = list(sentences(40))
    content = "\n".join(texts).encode()
    path = write("a.txt.gz", gzip.compress(content)) if packed else write("a.txt", content)
    read, said = found(path, shard_mb=shard_mb)
    assert read == texts
    assert len(said) == 1
    for mode, count in (("blocks", 1), ("file", 1), ("lines", 40)):
        read, said = found(path, txt=mode, shard_mb=shard_mb)
        assert (len(read), said) == (count, [])


def test_each_file_has_the_form_that_it_shows(write, tmp_path):
    write("in/lines.txt", "\n".join(sentences(40)))
    write("in/blocks.txt", "\n\n".join(sentences(7)))
    write("in/verses.txt", DIVIDED["verses"][0])
    read, said = found(tmp_path / "in")
    assert len(read) == 40 + 7 + 10
    assert [re.search(r"\w+\.txt", note)[0] for note in said] == ["lines.txt", "verses.txt"]


def test_empty_files_do_not_say_how_another_is_read(write, tmp_path):
    write("in/part-0.txt", "\n".join(sentences(15)))
    for number in range(1, 9):
        write(f"in/part-{number}.txt", "")
    assert len(found(tmp_path / "in")[0]) == 15


@pytest.mark.parametrize(("lines", "count"), [(250, 5000), (150, 20)])
def test_of_many_files_each_may_be_a_document(write, tmp_path, lines, count):
    for number in range(20):
        write(f"in/{number}.txt", "\n".join(sentences(lines)))
    read, said = found(tmp_path / "in")
    assert (len(read), len(said)) == (count, count > 20)


def test_many_files_of_a_folder_are_read_alike(write, tmp_path):
    for number in range(20):
        write(f"in/a/{number}.txt", "\n".join(sentences(250)))
        write(f"in/b/{number}.txt", "\n".join(sentences(5 if number else 250)))
    read, said = found(tmp_path / "in")
    assert len(read) == 20 * 250 + 20
    assert [re.search(r"\d+", note)[0] for note in said] == ["20", "20"]
