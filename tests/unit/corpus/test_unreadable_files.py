"""What is said about files that no command makes readable, by their names and first bytes."""

from __future__ import annotations

import re

import pytest

from corpusfit.corpus import cures, find, rejects
from corpusfit.errors import CorpusfitError
from corpusfit.plan import ReadPlan


@pytest.mark.parametrize(
    ("name", "content", "cure"),
    [
        ("a.xlsx", b"PK\3\4", "Save the sheet as CSV first"),
        ("a.pdf", b"%PDF", r"pdftotext .*a\.pdf .*a\.txt"),
        ("a.json", b'{"text": "a"}\n', r"rename it to end in \.jsonl"),
        ("a.data", b"PAR1", r"It is Parquet: add \.parquet to its name"),
        ("a.data", b"\0\1", "Rename the file to match its content"),
    ],
)
def test_a_file_named_itself_that_has_no_reader(write, tmp_path, name, content, cure):
    with pytest.raises(CorpusfitError, match=cure):
        find([str(write(name, content))], ReadPlan(), spool=tmp_path, role="corpus")


@pytest.mark.parametrize(
    ("name", "content", "reason", "cure"),
    [
        ("a.jsonl.gz", b'{"text": "a"}', rejects.corrupt("gz", ""), r"is not a \.gz archive"),
        ("a.csv", b"text,id\na,1\n", "another", "otherwise"),
    ],
)
def test_a_file_whose_rows_cannot_be_read(write, tmp_path, name, content, reason, cure):
    plan = ReadPlan()
    sources = find([str(write(name, content))], plan, spool=tmp_path, role="corpus")
    said = cures.of_content(sources, plan, {rejects.kind(reason): 1}, "otherwise")
    assert re.search(cure, said)
