"""Lines end in LF, CRLF or CR in every text format; a CR between LFs is text."""

import gzip

import pytest

from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.text import documents, find, packed
from corpusfit.text.pairs import carried_text

LINES = {
    "csv": ["id,text", "1,the kinase binds", '2,"closed, it said"', "3,last"],
    "tsv": ["id\ttext", "1\tthe kinase binds", "2\tclosed, it said", "3\tlast"],
    "jsonl": ['{"text": "the kinase binds"}', '{"text": "closed, it said"}', '{"text": "last"}'],
    "txt": ["the kinase binds", "", "closed, it said", "", "last"],
}
TEXTS = ["the kinase binds", "closed, it said", "last"]
ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


@pytest.mark.parametrize("archive", ["", ".gz"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("suffix", LINES)
def test_every_line_end(read, write, suffix, end, last, archive):
    data = (ENDS[end].join(LINES[suffix]) + ENDS[end] * last).encode()
    path = write(f"a.{suffix}{archive}", gzip.compress(data) if archive else data)
    for shard_mb in (4.0, 1e-6):
        assert [row.text for row in read(path, shard_mb=shard_mb)] == TEXTS


def test_large_and_small_files_agree(read, write):
    """A worker reads small files whole, one process cuts large ones, several share a shard."""
    texts = [f"text {i}" for i in range(400)]
    data = "".join(f'{{"text": "{text}"}}\r' for text in texts)
    path = write("box/a.jsonl", data)
    write("box/b.jsonl", data.replace("\r", "\n"))
    assert [row.text for row in read(path, shard_mb=1e-3)] == texts
    plan = ReadPlan()
    found = list(packed(find([str(path.parent)], plan, role="corpus"), plan))
    assert [t for s in found for t in documents(s, plan)[0].texts.to_pylist()] == 2 * texts


@pytest.mark.parametrize("txt", ["blocks", "lines", "file"])
def test_a_progress_bar_stays_one_line(read, write, txt):
    (row,) = read(write("a.txt", "10 %\r20 %\rdone\n"), txt=txt)
    assert row.text == "10 %\r20 %\rdone"


def test_a_carriage_return_in_a_value(read, write):
    path = write("a.csv", 'id,text\n1,"a\rb"\n2,c\rd\n')
    assert [row.text for row in read(path)] == ["a\rb", "c\rd"]
    path = write("b.csv", 'id,text\r1,"a\rb\nc"\r2,d\r')
    assert [row.text for row in read(path)] == ["a\rb\nc", "d"]


def test_mixed_line_ends_are_named(read, write):
    """A header before a lone CR has no columns, in a file whose other lines end in LF."""
    for row in read(write("a.csv", "id,text\r1,one\n2,two\r\n3,three\n")):
        assert str(row.reason).startswith(("malformed CSV", "missing field"))
    rows = read(write("b.csv", "id,text\n1,one\r2,two\n3,three\n"))
    assert [isinstance(row, Document) for row in rows] == [False, True]


def test_pairs_keep_their_numbers(read, write):
    german, english = write("a.de", "eins\rzwei\r"), write("a.en", "one\ntwo\n")
    rows = read(f"pair:{german},{english}")
    assert [(row.text, carried_text(row)) for row in rows] == [("eins", "one"), ("zwei", "two")]
    write("a.de", "eins\rnoch eins\nzwei\n")
    assert [row.text for row in read(f"pair:{german},{english}")] == ["eins\rnoch eins", "zwei"]
    write("a.de", "eins\rzwei\rdrei\r")
    with pytest.raises(InputError, match="line 3"):
        read(f"pair:{german},{english}")
    table = write("a.tsv", "de\ten\reins\tone\rzwei\ttwo\r")
    assert [carried_text(row) for row in read(f"pair:{table}:de,en")] == ["one", "two"]
