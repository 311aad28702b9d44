"""What is said about files that no command makes readable, by their names and first bytes."""

import contextlib
import gzip
import re
import shutil
import sqlite3
import subprocess

import pytest

from corpusfit import text as corpus
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reason
from corpusfit.text import cures, find, rejects


@pytest.mark.parametrize(
    ("name", "content", "cure"),
    [
        ("a.xlsx", b"PK\3\4", "Save the sheet as CSV first"),
        ("a.pdf", b"%PDF", r"pdftotext .*a\.pdf .*a\.txt"),
        ("a.pdf.gz", b"\x1f\x8b", r"gzip -dk \S*a\.pdf\.gz && pdftotext \S*a\.pdf \S*a\.txt$"),
        ("a.doc", b"\xd0\xcf", r"save its text as \.txt"),
        ("a.json", b'{"n": 1,\n "data": {}}', r"If each line is a row"),
        ("a.json", b'{"text": "a"}\n', r"rename it to end in \.jsonl"),
        ("a.data", b"PAR1", r"It is Parquet: add \.parquet to its name"),
        ("a.data", b"\0\1", "Rename the file to match its content"),
    ],
)
def test_a_file_named_itself_that_has_no_reader(write, name, content, cure):
    with pytest.raises(CorpusfitError, match=cure):
        find([str(write(name, content))], ReadPlan(), role="corpus")


DOCUMENTS = ["b.pdf", "a.docx", "in/a.doc.gz", "sheet.XLSX"]
OTHERS = ["README", "LICENSE", "notes.rst", "page.xml", "a.json", ".hidden.pdf", "a.rar"]


@pytest.mark.parametrize("pattern", ["", "**", "file://"])
def test_documents_in_a_folder_are_named_with_a_cure(write, tmp_path, pattern):
    for name in (*DOCUMENTS, *OTHERS):
        write(f"pile/{name}", "")
    pile = str(tmp_path / "pile") if pattern != "file://" else f"file://{tmp_path / 'pile'}"
    given = f"{pile}/{pattern}" if pattern == "**" else pile
    said = []

    def found():
        return find([given], ReadPlan(), role="corpus", note=said.append)

    with pytest.raises(CorpusfitError, match=r"To read a\.docx, make .*: pandoc .*docx .*a\.txt$"):
        found()
    assert not said
    write("pile/in/a.txt", "a")
    assert len(found()) == 1
    (note,) = said
    assert re.search(r"corpus.*\b8 files \(1 \.doc\.gz, 1 \.docx, .*1 \.xlsx.*a\.txt$", note)


def test_files_about_the_data_are_not_named(write, tmp_path):
    about = ["README", "LICENSE.md", "_SUCCESS", "a.txt.md5", "SHA256SUMS", "dataset_info.json"]
    for name in (*about, ".hidden.pdf", ".part-0.crc", "a.txt"):
        write(f"pile/{name}", "a")
    said = []
    find([str(tmp_path / "pile")], ReadPlan(), role="corpus", note=said.append)
    assert not said


PASSED_OVER = ["a.jsonl.lz4", "part-00000", "part-00001", "one.json", "notes.rst", "in/x.gz"]


@pytest.mark.parametrize("given", ["{}", "{}/*", "{}/**", "{}/**/*", "file://{}", "memory://{}"])
def test_every_file_that_is_passed_over_is_counted(write, tmp_path, given):
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in (*PASSED_OVER, "a.jsonl"):
        memory.pipe(str(write(f"pile/{name}", "{}")), b"{}")
    said = []
    place = given.format(tmp_path / "pile")
    (source,) = find([place], ReadPlan(), role="corpus", note=said.append)
    assert source.name == "a.jsonl"
    (note,) = said
    assert f" {len(PASSED_OVER)} files " in note
    assert "2 without suffix" in note


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv", "a.jsonl.gz", "a.txt"])
def test_a_file_without_a_byte_is_named(write, tmp_path, name):
    write("in/b.jsonl", '{"text": "x"}')
    write(f"in/{name}", b"")
    said = []
    sources = find([str(tmp_path / "in")], ReadPlan(), role="corpus", note=said.append)
    (note,) = said
    assert f" {name}." in note
    assert len(sources) == 2


JSON_LINES = '{"text": "a"}\n{"text": "b"}\n'


def test_json_is_read_where_each_line_is_a_row(write, tmp_path):
    """As C4 is published; of files that differ in numbers the first decides."""
    for number in range(3):
        name = f"pile/c4-train.0000{number}-of-00003.json.gz"
        write(name, gzip.compress(JSON_LINES.encode() if number < 2 else b'{"text": "c"}\n'))
    write("pile/state.json", '{"text": "a"}\n')
    write("pile/list.json", f"[{JSON_LINES.strip()}]".replace("\n", ",\n"))
    write("pile/pretty.json", '{\n"text": "a"\n}\n')
    write("pile/rows.jsonlines", JSON_LINES)
    said = []
    found = find([str(tmp_path / "pile")], ReadPlan(), role="x y", note=said.append)
    assert [source.format for source in found] == ["jsonl"] * 4
    plan = ReadPlan()
    rows = [row for shard in corpus.shards(found, plan) for row in corpus.rows(shard, plan)]
    assert "".join(row.text for row in rows) == "ababcab"
    assert "2 .json" in said[0]
    (alone,) = find([str(write("c.json", JSON_LINES))], ReadPlan(), role="corpus")
    assert alone.format == "jsonl"


@pytest.mark.parametrize(
    ("name", "content", "reason", "cure"),
    [
        ("a.jsonl.gz", b'{"text": "a"}', rejects.corrupt("gz", ""), r"is not a \.gz archive"),
        ("a.csv", b"text,id\na,1\n", Reason("another"), "otherwise"),
        ("a.csv", b"id;body\n1;a\n", Reason("another"), "otherwise"),  # the separator is found
        ("a.csv", b"id;body|x\n1;a\n", Reason("another"), r"has ';' .*`read\.separator=;`$"),
        ("a.jsonl", b'["a"]\n["b"]\n', rejects.NOT_AN_OBJECT, "otherwise"),
        ("a.jsonl", b'{"a": [{}]}\n', rejects.missing_field("text", "a"), "otherwise"),
    ],
)
def test_a_file_whose_rows_cannot_be_read(write, name, content, reason, cure):
    plan = ReadPlan()
    sources = find([str(write(name, content))], plan, role="corpus")
    said = cures.of_content(sources, plan, {reason.kind: 1}, "otherwise")
    assert re.search(cure, said)


def test_a_separator_that_is_not_that_of_a_file_may_be_left_out(write):
    plan = ReadPlan(separator=";")
    path = str(write("a.csv", "id,body\n1,a\n"))
    sources = find([path], plan, role="corpus")
    said = cures.of_content(sources, plan, {rejects.missing_field("text", ()): 1}, "otherwise")
    assert re.search(r"a\.csv has ',' .*[Ll]eave out `read\.separator`", said)


@pytest.mark.parametrize("name", ["a.sqlite", "a.db", "a.dat"])
def test_a_table_of_a_database_is_made_first(tmp_path, name):
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as database:
        database.execute("CREATE TABLE t (text)")
        database.execute("INSERT INTO t VALUES (?)", ['one, "two"\nthree'])
        database.commit()
    with pytest.raises(CorpusfitError) as refused:
        find([str(tmp_path / name)], ReadPlan(), role="corpus")
    command = str(refused.value).partition(" first: ")[2].replace("TABLE", "t")
    if shutil.which("sqlite3"):
        subprocess.run(command, shell=True, check=True)
        (source,) = find([str(tmp_path / "a.csv")], ReadPlan(), role="corpus")
        (shard,) = corpus.shards([source], ReadPlan())
        (row,) = corpus.rows(shard, ReadPlan())
        assert row.text == 'one, "two"\nthree'
