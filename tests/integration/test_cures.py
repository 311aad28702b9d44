"""A file that cannot be read as it is: what the message says to type makes it readable."""

import bz2
import gzip
import json
import lzma
import re
import subprocess
import zipfile
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from journeys import prose

TEXTS = [f"caf\u00e9 {text}" for text in prose("market", 30)]
ROWS = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in TEXTS)
TABLE = "id;text\n" + "".join(f"{i};{text}\n" for i, text in enumerate(TEXTS))
LIST = json.dumps([{"text": text} for text in TEXTS], indent=1)
DATA = json.dumps({"n": [1, {"n": [{}]}], "my data": json.loads(LIST)}, indent=1)
LOOSE = [{"text": f'{text} \\\\ "}} {{" ,] ,}}', "n": [1, {"a": []}]} for text in TEXTS]
COMMAND = re.compile(r"(?:gzip -dk|iconv|mv|python -[cm]) .*(?<=[ ])(\S+)$", re.M)
OPTION = re.compile(r"--(?:set [^\s)]+|text-field|target-field \w+)")


def parquet(path):
    pq.write_table(pa.table({"text": TEXTS}), path)
    return path.read_bytes()


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("rows.jsonl", ROWS)
    return path.read_bytes()


def loose(between, comma="", **words):
    """The rows as JSON with what another program writes between them, or before an end."""
    written = (json.dumps(row, ensure_ascii=False, **words) for row in LOOSE)
    return between.join(re.sub(r"(\n?)}$", rf"{comma}\1}}", row) for row in written)


FILES = {
    "latin.jsonl": lambda _: ROWS.encode("cp1252"),
    "latin.txt": lambda _: "\n\n".join(TEXTS).encode("cp1252"),
    "wide.txt": lambda _: "\n\n".join(TEXTS).encode("utf-16"),
    "wide.csv": lambda _: "\n".join(["text", *TEXTS]).encode("utf-16"),
    "gzip.jsonl": lambda _: gzip.compress(ROWS.encode()),
    "zstd.csv": lambda _: zstandard.compress(b"text\na\n"),
    "bzip2.txt": lambda _: bz2.compress("\n\n".join(TEXTS).encode()),
    "xz.jsonl": lambda _: lzma.compress(ROWS.encode()),
    "columns.jsonl": parquet,
    "list.json": lambda _: LIST.encode(),
    "list.jsonl": lambda _: LIST.replace("\n", "").encode(),
    "indented.jsonl": lambda _: LIST.encode(),
    "list.jsonl.gz": lambda _: gzip.compress(LIST.encode()),
    "list.json.gz": lambda _: gzip.compress(LIST.encode()),
    "le.jsonl": lambda _: ROWS.encode("utf-16-le"),
    "be.txt": lambda _: "\n\n".join(TEXTS).encode("utf-16-be"),
    "le.csv.gz": lambda _: gzip.compress(TABLE.encode("utf-16-le")),
    "four.csv": lambda _: TABLE.encode("utf-32-le"),
    "four.tsv": lambda _: TABLE.replace(";", "\t").encode("utf-32"),
    "python.jsonl": lambda _: "".join(f"{row}\n" for row in [*LOOSE[1:], {"text": "a", "n": None}]),
    "commas.jsonl": lambda _: loose("\n", comma=","),
    "ends.jsonl": lambda _: loose(",\n") + ",",
    "last.json": lambda _: "[\n" + loose(",\n") + ",\n]\n",
    "rows over lines.jsonl": lambda _: loose("\n", indent=2),
    "rows over lines.json": lambda _: loose("\n\n", indent=2, comma=","),
    "joined.jsonl": lambda _: loose(""),
    "data.json": lambda _: DATA.encode(),
    "one line.json": lambda _: DATA.replace("\n", "").encode(),
    "data.jsonl": lambda _: DATA.encode(),
    "latin.jsonl.gz": lambda _: gzip.compress(ROWS.encode("cp1252")),
    "zstd.jsonl.gz": lambda _: zstandard.compress(ROWS.encode()),
    "rows.zip.gz": lambda path: gzip.compress(archive(path)),
    "tabs.csv": lambda _: TABLE.replace(";", "\t").replace("text", "text\tn;", 1).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_the_command_in_the_message_makes_the_file_readable(name, cli, task, tmp_path):
    path = tmp_path / "my file" / name
    path.parent.mkdir()
    content = FILES[name](path)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    words = ("select", "--target", task, "--method", "random", "--fraction", "0.5", "--corpus")
    failed = cli(*words, path, "--out", tmp_path / "out")
    assert failed.code == 1
    command = COMMAND.search(failed.err)
    assert command, failed.err
    subprocess.run(command[0], shell=True, check=True)
    unpacked = path.with_name(name.removesuffix(".gz"))
    others = (path, unpacked, path.with_name(f"{name}.old"))
    made = [file for file in path.parent.iterdir() if file not in others] or [unpacked]
    done = cli(*words, *made, "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["counts"]["documents"] == (1 if name == "zstd.csv" else 30)


@pytest.mark.parametrize("separator", [";", "|"])
def test_the_separator_in_the_message_is_that_of_the_file(separator, cli, task, tmp_path):
    (tmp_path / "a.csv").write_text(TABLE.replace(";", separator).replace("id", "i\td"))
    words = ("--corpus", tmp_path / "a.csv", "--method", "random", "--out", tmp_path / "out")
    failed = cli("select", "--target", task, *words, "--fraction", "0.5")
    (option,) = OPTION.findall(failed.err)
    again = option.replace("'", "").split()
    assert cli("select", "--target", task, *words, "--fraction", "0.5", *again).code == 0


def test_the_header_in_the_message_makes_a_file_without_one_readable(cli, task, tmp_path):
    table = tmp_path / "a.csv"
    rows = "".join(f"The train number {i} to Denver is late.,delay\n" for i in range(30))
    table.write_text(rows)
    words = (
        "--corpus",
        table,
        "--method",
        "random",
        "--out",
        tmp_path / "out",
        "--fraction",
        "0.5",
    )
    failed = cli("select", "--target", task, *words)
    (header,) = re.findall(r"such as '(.+)'", failed.err)
    table.write_text(f"{header}\n{rows}")
    done = cli("select", "--target", task, *words, "--json")
    assert json.loads(done.out)["counts"]["documents"] == 30


def test_other_fields_in_target_and_corpus(cli, task, tmp_path):
    (tmp_path / "a.jsonl").write_text(ROWS.replace('"text"', '"body"'))
    words = ("--corpus", tmp_path / "a.jsonl", "--method", "random", "--out", tmp_path / "out")
    failed = cli("select", "--target", task, *words, "--fraction", "0.5")
    field, target = OPTION.findall(failed.err)
    more = (field, "body", *target.split())
    assert cli("select", "--target", task, *words, "--fraction", "0.5", *more).code == 0


@pytest.mark.parametrize(("name", "tool"), [("a.pdf", "pdftotext"), ("a.docx", "pandoc")])
def test_what_makes_text_of_a_document_is_named(name, tool, cli, task, tmp_path):
    (tmp_path / name).write_bytes(b"%PDF")
    done = cli("select", "--target", task, "--corpus", tmp_path / name, "--out", tmp_path / "out")
    assert done.code == 1
    assert re.search(rf"{tool} .*{name}.*a\.txt$", done.err, re.M)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("enwiki pages-articles.xml.bz2", bz2.compress(b'<mediawiki xmlns="u">\n</mediawiki>\n')),
        ("enwiki.xml", b'<mediawiki xmlns="u">\n</mediawiki>\n'),
        ("AA/wiki_00", b'<doc id="1" url="u" title="A">\nA\n\nText.\n</doc>\n'),
    ],
)
def test_what_makes_rows_of_a_dump_is_named(name, content, cli, task, tmp_path):
    file = tmp_path / "wiki" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    words = ("--corpus", tmp_path / "wiki", "--out", tmp_path / "out")
    done = cli("select", "--target", task, *words)
    assert done.code == 1
    assert re.search(r"wikiextractor .+ --json .*> \S.*\.jsonl'?$", done.err, re.M), done.err


def test_a_target_in_the_corpus_is_warned_of(cli, task, tmp_path):
    words = ("--method", "random", "--fraction", "0.5", "--out", tmp_path / "out", "--json")
    done = cli("select", "--target", task, "--corpus", task, *words)
    assert len(json.loads(done.out)["warnings"]) == 1


def latin(text):
    return json.dumps({"text": text}, ensure_ascii=False).encode("cp1252") + b"\n"


PARTLY = {
    "latin.jsonl": (b"".join(map(latin, TEXTS[:10] + prose("task", 20))), "iconv"),
    "gzip.jsonl": (gzip.compress(ROWS.encode()), "mv"),
    "mark.csv": (TABLE.replace("id", "a|b").encode(), "read.separator=;"),
    "few.jsonl": (b"".join(map(latin, TEXTS[:1] + prose("task", 20))), ""),
    "own.jsonl": (b'{"body": "a"}\n' * 30, "target_field"),
}


@pytest.mark.parametrize("size", ["0.004", "4"])
@pytest.mark.parametrize("name", PARTLY)
def test_one_file_of_several_that_loses_rows_has_its_cure(name, size, cli, task, pile, tmp_path):
    content, cure = PARTLY[name]
    (pile / name).write_bytes(content)
    words = ("--corpus", pile, "--method", "random", "--fraction", "0.5", "--json")
    words += ("--out", tmp_path / "out", "--set", f"read.shard_mb={size}")
    done = cli("select", "--target", task, *words)
    warned = json.loads(done.out)["warnings"]
    assert len(warned) == bool(cure)
    assert all(re.search(f"{name} (is|has|has the text field) .*{cure}", each) for each in warned)


def test_a_target_that_loses_rows_has_the_cure_of_its_file(cli, pile, task, tmp_path):
    (tmp_path / "latin.jsonl").write_bytes(PARTLY["latin.jsonl"][0])
    words = ("--corpus", pile, "--method", "random", "--fraction", "0.5", "--out", tmp_path / "out")
    targets = ("--target", task, "--target", tmp_path / "latin.jsonl")
    done = cli("select", *targets, *words, "--json")
    (warned,) = json.loads(done.out)["warnings"]
    assert re.search(r"\b10\b.*latin.jsonl is not in UTF-8.*iconv", warned)


def test_translations_in_another_encoding_have_the_cure_of_their_file(cli, task, tmp_path):
    (tmp_path / "a.en").write_text("".join(f"a caf\u00e9 of {i}\n" for i in range(9)), "utf-8")
    (tmp_path / "a.fr").write_text("".join(f"un caf\u00e9 {i}\n" for i in range(9)), "latin-1")
    for names in (("fr", "en"), ("en", "fr")):
        pairs = f"pair:{tmp_path}/a.{names[0]},{tmp_path}/a.{names[1]}"
        done = cli("select", "--target", task, "--corpus", pairs, "--out", tmp_path / "out")
        assert re.search(rf"iconv .* {tmp_path}/a\.fr >", done.err)


def test_a_damaged_archive_has_one_cure_whatever_its_bytes_look_like(cli, pile, task, tmp_path):
    random = Random(1).randbytes(3000)
    (pile / "latin.jsonl.gz").write_bytes(gzip.compress(latin("caf\u00e9") + random)[:-99])
    (pile / "bytes.jsonl.gz").write_bytes(random)
    words = ("select", "--target", task, "--corpus", pile)
    done = cli(*words, "--method", "random", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    (warning,) = [line for line in done.err.splitlines() if line.startswith("Warning")]
    assert "latin.jsonl.gz (0 usable rows; truncated .gz archive). Fetch it again" in warning
    assert "bytes.jsonl.gz (0 usable rows; corrupt .gz archive). If it should be no" in warning
    assert "iconv" not in warning


def test_a_split_names_the_cure_of_a_file(cli, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "latin.jsonl").write_bytes(PARTLY["latin.jsonl"][0])
    (folder / "rows.jsonl").write_text(ROWS)
    done = cli("split", "--data", folder, "--dev", "0.1", "--out", tmp_path / "split")
    assert done.code == 0, done.err
    assert re.search(r"\b10\b[^.]*\n*.*latin\.jsonl is not in UTF-8.*iconv", done.err, re.S)
