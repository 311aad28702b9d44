"""Which quotes of a CSV or TSV file are text, and how it escapes the others."""

import csv
import io

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.splitting import form_of
from corpusfit.text import find, raw_rows, shards


def table(texts, separator="\t", **dialect):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n", **dialect)
    writer.writerows([["id", "text"], *([str(i), text] for i, text in enumerate(texts))])
    return out.getvalue()


def texts_of(rows):
    return [row.text for row in rows]


LITERAL = {
    "one is never closed": ['"Gene therapy works, he said', "plain", "also plain"],
    "closed in another line": ['"Gene therapy works', "plain", 'as he said"', "more"],
    "closed in a word": ['"Gene therapy', "plain", 'Fifth"sentence"', "more"],
    "each is closed": ['"Gene therapy works."', "plain", '"He left."'],
    "two in one": ['"Yes" and "no"', "plain"],
    "as in treebanks": ['"" It works , "" he said .', "plain"],
}


@pytest.mark.parametrize("texts", LITERAL.values(), ids=LITERAL)
def test_quotes_between_tabs_are_text(read, write, texts):
    rows = "".join(f"{i}\t{text}\n" for i, text in enumerate(texts))
    assert texts_of(read(write("a.tsv", "id\ttext\n" + rows))) == texts
    assert texts_of(read(write("b.tsv", rows), columns="id,text")) == texts


QUOTED = [
    ["a\ttab", "plain"],
    ["plain", "two\nlines", 'and "quotes"'],
    ['she said "no"', "plain"],
]


@pytest.mark.parametrize("texts", QUOTED)
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_quoted_values_between_tabs(read, write, texts, quoting):
    """As pandas writes them."""
    assert texts_of(read(write("a.tsv", table(texts, quoting=quoting)))) == texts


def test_quoted_names_say_that_all_is_quoted(read, write):
    path = write("a.tsv", '"id"\t"text"\n1\t"one"\n2\t"he said \\"two\\""\n')
    assert texts_of(read(path)) == ["one", 'he said "two"']  # R's write.table
    path = write("b.tsv", '"id"\t"text"\n"1"\t"one"\n"2"\t"two"\n')
    assert texts_of(read(path)) == ["one", "two"]


SPARK = {
    "a comma": (r'"He said \"hi\", then left"', 'He said "hi", then left'),
    "no comma": (r'"He said \"hi\" then left"', 'He said "hi" then left'),
    "at the end": (r'"He said \"hi\""', 'He said "hi"'),
    "the whole": (r'"\"hi\""', '"hi"'),
    "a backslash": (r'"C:\\, \"D\""', r'C:\, "D"'),
    "a line": ('"one \\"\ntwo\\", three"', 'one "\ntwo", three'),
    "not quoted": (r"He said \"hi\"", 'He said "hi"'),
}


@pytest.mark.parametrize(("raw", "text"), SPARK.values(), ids=SPARK)
def test_quotes_after_backslashes(read, write, raw, text):
    data = f'id,text,label\n0,"first, text",A\n1,{raw},A\n2,"second, text",B\n3,third,C\n'
    for name, content in (("a.csv", data), ("b.csv", data.replace("\n", "\r\n"))):
        rows = read(write(name, content))
        wanted = text if name == "a.csv" else text.replace("\n", "\r\n")
        assert texts_of(rows) == ["first, text", wanted, "second, text", "third"]
        assert rows == read(write(name, content), shard_mb=1e-6)
        assert texts_of(read(write(name, content), escape="\\")) == texts_of(rows)


def test_backslashes_of_doubled_quotes_stay(read, write):
    texts = ["C:\\", 'C:\\ "x"', '\\"', 'a\\"b", c', "plain", 'ends \\"']
    for separator in ",\t;":
        data = table(texts, separator)
        assert texts_of(read(write("a.csv", data))) == texts
        assert texts_of(read(write("a.csv", data), escape='"')) == texts


def test_the_first_quote_decides_wherever_it_is(read, write):
    """Plain rows of two MiB before it, and the parser of each shard knows."""
    many = [f"row {i} " + "of plain words " * 40 for i in range(4000)]
    data = table(many) + '4000\t"he\tsaid ""no"""\n4001\tmore\n'
    assert texts_of(read(write("a.tsv", data)))[-2:] == ['he\tsaid "no"', "more"]
    data = table(many, ",") + '4000,"he, said \\"no\\", twice"\n4001,more\n'
    assert texts_of(read(write("a.csv", data), shard_mb=0.1))[-2:] == [
        'he, said "no", twice',
        "more",
    ]


def test_what_does_not_fit_is_rejected(read, write):
    """Without evidence for another dialect, no row is put together wrongly."""
    path = write("a.csv", 'id,text\n1,"he \\"x\\" y"\n2,plain\n')
    first, second = read(path, escape='"')
    assert str(first.reason).startswith("malformed CSV")
    assert second.text == "plain"


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_a_decision_is_no_matter_of_chunks(read, write, chunk, monkeypatch):
    data = 'id,text\n0,"a\\\\"\n1,"He said \\"hi\\", \\\\\\"x"\n2,"second, text"\n'
    monkeypatch.setattr("corpusfit.text.files.CHUNK", chunk)
    assert texts_of(read(write("a.csv", data), escape="\\")) == [
        "a\\",
        'He said "hi", \\"x',
        "second, text",
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_split_doubles_the_quotes(read, write, name):
    separator = "\t" if name == "a.tsv" else ","
    rows = [("1", rf'"he \"left\" {separator} twice"'), ("2", '"a\nb"'), ("3", "c")]
    lines = "".join(f"{i}{separator}{text}\n" for i, text in rows)
    path = write(name, f"id{separator}text\n" + lines)
    plan = ReadPlan()
    sources = find([str(path)], plan, role="corpus")
    data = form_of(sources, plan).header + b"\n"
    for shard in shards(sources, plan):
        data += b"".join(raw + b"\n" for _, raw in raw_rows(shard, plan))
    again = write(f"again/{name}", data)
    assert texts_of(read(again, escape='"')) == texts_of(read(path))


def test_an_escape_is_one_character():
    with pytest.raises(UsageError, match=r"read\.escape"):
        ReadPlan(escape="ab").check()


def test_a_quote_that_opens_no_value_costs_rows_that_are_counted(read, write):
    """As LF and CRLF alike: a value that goes on in other lines must end where a value may."""
    lines = [
        "id,text,label",
        '3,"Great phone, they said',
        "4,ok,pos",
        '5,"Bad" phone,neg',
        "6,end,x",
    ]
    for end in ("\n", "\r\n"):
        bad, last = read(write("a.csv", end.join(lines) + end))
        assert str(bad.reason).startswith("malformed CSV")
        assert last.text == "end"


def test_of_columns_with_one_name_the_first_counts(read, write):
    path = write("a.csv", "text,id,text\nfirst,1,second\n")
    for settings in ({}, {"where": 'id == "1"'}, {"text_field": "{text}"}):
        assert texts_of(read(path, **settings)) == ["first"]
