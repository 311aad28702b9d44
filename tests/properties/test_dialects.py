"""The same texts in every dialect of a format: what is read is what was meant.

Where a file can mean two things (it is also well formed by the usual rules, and then says something
else), no reader can know; those are passed over, by the answer of the standard library. All others
are read right, or rejected.
"""

import csv
import io
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corpusfit.core.errors import InputError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.rows import read_rows
from corpusfit.labeled.formats.conll import read_conll, read_conllu
from dialects import MARK, File, archived, check, lines, texts

SIZES = st.sampled_from([4.0, 1e-5, 1e-4])
NO_LINES = "\n\r"


def as_csv(rows, end="\r\n", **words):
    """Records as Python's `csv` writes them, without line ends; it quotes those that it writes."""
    found = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, lineterminator=end, **words).writerow(row)
        found.append(out.getvalue().removesuffix(end))
    return found


def as_spark(rows, separator, every):
    """Records with backslashes: a value is quoted if it must, and then backslashes are doubled."""

    def value(text):
        if not every and not set(text) & {separator, '"', "\n", "\r"}:
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return [separator.join(map(value, row)) for row in rows]


def strict(data, separator, width, **words):
    """The records by the standard library, strictly; none if it finds a fault."""
    stream = io.StringIO(data, newline="")
    try:
        found = list(csv.reader(stream, delimiter=separator, strict=True, **words))
    except csv.Error:
        return None
    return found if all(len(row) == width for row in found) else None


@st.composite
def delimited(draw, name="a.csv", separators=",;|\t"):
    separator = draw(st.sampled_from(separators))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    style = draw(st.sampled_from(["minimal", "all", "strings", "spark", "spark all", "text"]))
    # a line end of the file is never text in a value that is not quoted
    without = {"text": NO_LINES + separator + ("" if separator == "\t" else '"')}.get(style, "")
    meant = draw(texts(without))
    place = draw(st.integers(0, 2))
    rows = [["id", "label"], *([f"n{i}", "A"] for i in range(len(meant)))]
    for row, text in zip(rows, ["text", *meant], strict=True):
        row.insert(place, text)
    plan = {"separator": separator} if draw(st.booleans()) else {}
    if style.startswith("spark"):
        records = as_spark(rows, separator, style == "spark all")
    elif style == "text":
        records = [separator.join(row) for row in rows]
    else:
        quoting = {"minimal": "MINIMAL", "all": "ALL", "strings": "NONNUMERIC"}[style]
        quoted = "\n" if end == "\n" and draw(st.booleans()) else "\r\n"
        quoting = getattr(csv, f"QUOTE_{quoting}")
        records = as_csv(rows, quoted, delimiter=separator, quoting=quoting)
    if draw(st.integers(0, 3)) == 0:
        records, plan = records[1:], {"separator": separator, "columns": ",".join(rows[0])}
    elif name == "a.tsv" and separator == "\t":
        plan = {}
    data = end.join(records) + end * draw(st.booleans())
    if style.startswith("spark") and draw(st.booleans()):
        plan["escape"] = "\\"
    elif style.startswith("spark"):
        assume(strict(data, separator, 3) in (None, rows[-len(records) :]))
    if style == "text" and separator == "\t":
        escapes = {"escapechar": "\\"}
        for words in ({}, escapes, {**escapes, "doublequote": False}):
            found = strict(data, separator, 3, **words) or []
            assume(not {'"', "\t", "\n", "\r"} & {*"".join(v for row in found for v in row)})
        # nor is a text what Spark writes for another text with a quote
        assume(not any(text.startswith('"') and '\\"' in text for text in meant))
    if separator == "\t" and style in ("minimal", "spark"):
        # every line is a record of the table, and nothing in it is doubled
        assume(
            '""' in data
            or '\\"' in data
            or any(line.count("\t") != 2 for line in re.split("\r\n|\r|\n", data))
        )
    mark = b"\xef\xbb\xbf" * draw(st.booleans())
    stored, content = draw(archived(name, mark + data.encode()))
    return File({stored: content}, meant, settings=plan)


AROUND = ["sep=", "comments", "an index", "an index without a name", "an end", "joined", "blanks"]


@st.composite
def dressed(draw):
    """Tables with what programs write around values, and files that were joined."""
    around, quoted = draw(st.sampled_from(AROUND)), draw(st.sampled_from(["MINIMAL", "ALL"]))
    separator = "," if around == "comments" else draw(st.sampled_from(",;|\t"))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    meant = draw(texts(least=2 if around == "an index without a name" else 1))
    rows = [["id", "text"], *([f"n{i}", text] for i, text in enumerate(meant))]
    if around.startswith("an index"):
        first = draw(st.integers(0, 1))
        rows = [rows[0], *([str(i), *row] for i, row in enumerate(rows[1:], first))]
        rows[0] = ["", *rows[0]] if around == "an index" else rows[0]
    if around == "an end":
        more = [""] * draw(st.integers(1, 2))
        rows = [rows[0] + more * draw(st.booleans()), *(row + more for row in rows[1:])]
    if around == "blanks":
        rows[0] = [f" {name} " for name in rows[0]]
    quoting = getattr(csv, f"QUOTE_{quoted}")
    inner = "\n" if end == "\n" else "\r\n"
    records = as_csv(rows, inner, delimiter=separator, quoting=quoting)
    before = {"sep=": f"sep={separator}{end}", "comments": f"# by hand, today{end}#{end}"}
    mark = MARK.decode() * draw(st.booleans())
    if around == "joined":
        at = draw(st.integers(1, len(records)))
        records.insert(at, mark + records[0])
    if separator == "\t" and quoted == "MINIMAL":
        assume('""' in "".join(records) or any(set(text) & set("\t\r\n") for text in meant))
    data = mark + before.get(around, "") + end.join(records) + end * draw(st.booleans())
    name = "a.tsv" if separator == "\t" else "a.csv"
    stored, content = draw(archived(name, data.encode()))
    return File({stored: content}, meant, rejects=around == "joined")


@st.composite
def joined(draw):
    """Files of JSON lines and of plain text that were joined, each with its mark."""
    parts = draw(st.lists(texts(NO_LINES + "\ufeff"), min_size=1, max_size=3))
    name = draw(st.sampled_from(["a.jsonl", "a.txt"]))
    data = b""
    for part in parts:
        lines_of_part = [json.dumps({"text": text}) if "j" in name else text for text in part]
        data += MARK * draw(st.booleans())
        data += "".join(f"{line}\n" for line in lines_of_part).encode()
    meant = [text for part in parts for text in part]
    stored, content = draw(archived(name, data))
    return File({stored: content}, meant, settings={} if "j" in name else {"txt": "lines"})


@st.composite
def unsettled_text(draw):
    """Plain text that says by itself whether lines or blocks are texts."""
    meant = draw(texts(NO_LINES + "\ufeff.", least=10, most=14))
    gap = draw(st.sampled_from([[], [""], ["", " \t"]]))
    records = [line for text in meant for line in (text, *gap)]
    stored, content = draw(archived("a.txt", draw(lines(records))))
    return File({stored: content}, meant)


OTHERS = ['{"text": ["\\r"]}', r'"cut \ud83d"', "1e400", "NaN", "-Infinity", r'["\udc00", -1e999]']


@st.composite
def json_lines(draw):
    meant = draw(texts())
    records = []
    for i, text in enumerate(meant):
        written = json.dumps(text, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            written = written.replace("/", "\\/")
        if draw(st.booleans()):
            written = (
                '"'
                + "".join(
                    f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H")
                )
                + '"'
            )
        space = draw(st.sampled_from(["", " ", "  ", "\t"]))
        fields = [
            f'"text"{space}:{space}{written}',
            f'"id":{space}"n{i}"',
            f'"other": {draw(st.sampled_from(OTHERS))}',
        ]
        fields = draw(st.permutations(fields))
        record = f"{{{space}" + f"{space},{space}".join(fields) + f"{space}}}"
        records.append(space + record + space)
    stored, content = draw(archived("a.jsonl", draw(lines(records))))
    return File({stored: content}, meant)


@st.composite
def plain_text(draw):
    mode = draw(st.sampled_from(["blocks", "lines", "file"]))
    meant = draw(texts(NO_LINES + "\ufeff"))
    if mode == "lines":
        records = meant
    elif mode == "blocks":
        gap = draw(st.sampled_from([[""], ["", ""], [" \t"]]))
        records = [line for text in meant for line in (text, *gap)]
    else:
        records, meant = meant, ["\n".join(meant)]
    stored, content = draw(archived("a.txt", draw(lines(records))))
    return File({stored: content}, meant, settings={"txt": mode})


@st.composite
def progress_text(draw):
    """Files whose lines end in LF and hold CRs."""
    meant = draw(texts("\n", most=4))
    data = draw(lines(meant, ends=["\n"]))
    assume(b"\n" in data)
    stored, content = draw(archived("a.txt", data))
    return File({stored: content}, meant, settings={"txt": "lines"})


@st.composite
def line_aligned(draw):
    meant = draw(texts(NO_LINES + "\ufeff"))
    names = [draw(archived(f"a.{side}", draw(lines(meant)))) for side in ("de", "en")]
    return File(dict(names), meant, name=f"pair:{{}}/{names[0][0]},{{}}/{names[1][0]}")


@st.composite
def pair_columns(draw):
    meant = draw(texts(NO_LINES + '\t\ufeff"'))
    named = draw(st.booleans())
    rows = [
        f"n{i}\t{text}\tother {i}" if named else f"{text}\tother {i}"
        for i, text in enumerate(meant)
    ]
    stored, content = draw(archived("a.tsv", draw(lines(["id\tde\ten", *rows] if named else rows))))
    return File({stored: content}, meant, name=f"pair:{{}}/{stored}" + ":de,en" * named)


@st.composite
def parquet(draw):
    meant = draw(texts())
    kind = draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view(), "dictionary"]))
    if kind == "dictionary":
        column = pa.array(meant).dictionary_encode()
    else:
        column = pa.array(meant, pa.string()).cast(kind)
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"id": list(range(len(meant))), "text": column}),
        sink,
        compression=draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "brotli", "lz4"])),
        row_group_size=draw(st.integers(1, 4)),
        use_dictionary=draw(st.booleans()),
        data_page_version=draw(st.sampled_from(["1.0", "2.0"])),
        store_schema=draw(st.booleans()),
    )
    stored, content = draw(archived("a.parquet", sink.getvalue()))
    return File({stored: content}, meant)


UNFINISHED = ["_temporary/0/{}", "__magic/{}", "_{}", ".{}", ".x/{}", "_spark_metadata/{}"]
SUMS = ["SHA256SUMS.txt", "md5sum.txt", "checksums.csv", "manifest-sha256.txt", "_SUCCESS"]
PARTS = ["part-{}.jsonl", "year=2024/part-{}.jsonl", "_year=1/{}.jsonl", "a_{}.jsonl", "d/{}.jsonl"]


@st.composite
def folder(draw):
    """Folders as Spark, Hive and Arrow write them, with what is not finished or no data."""
    meant = draw(texts())
    files, by_name = dict[str, bytes](), {}
    for number, text in enumerate(meant):
        name = draw(st.sampled_from(PARTS)).format(number)
        files[name] = by_name[name] = (json.dumps({"text": text}) + "\n").encode()
        other = draw(st.sampled_from(["", *UNFINISHED]))
        if other:
            files[other.format(f"{number}.jsonl")] = files[name]
    files |= dict.fromkeys(draw(st.lists(st.sampled_from(SUMS))), b"d41d8 a.jsonl\n")
    meant = [json.loads(by_name[name])["text"] for name in sorted(by_name)]
    return File(files, meant, name=draw(st.sampled_from(["{}", "{}/**", "file://{}"])))


LOGS = [
    "_delta_log/0.json",
    ".hoodie/x",
    "metadata/v2.metadata.json",
    "metadata/00-a.metadata.json",
]


@given(file=folder(), log=st.sampled_from(LOGS), deep=st.sampled_from(["", "t/", "a/b=1/"]))
def test_a_folder_with_the_log_of_a_table_is_refused(file, log, deep):
    with pytest.raises(InputError, match=" table, so "):
        check(replace(file, files={**file.files, deep + log: b"{}"}))


@st.composite
def wide(draw):
    """Encodings that are not read: nothing of them may pass for text."""
    meant = draw(texts(NO_LINES))
    encoding = draw(st.sampled_from(["utf-16", "utf-16-be", "utf-16-le", "utf-32"]))
    name, records = draw(
        st.sampled_from(
            [
                ("a.txt", meant),
                ("a.csv", as_csv([["text"], *([t] for t in meant)])),
                ("a.jsonl", [json.dumps({"text": t}) for t in meant]),
            ]
        )
    )
    data = "\n".join(records).encode(encoding)
    # two letters of ASCII are one of UTF-16
    assume(not data or b"\0" in data or data.decode("utf-8", "replace").encode() != data)
    return File({name: data}, [], settings={"txt": "lines"}, known=False)


CORPUS = {
    "csv": delimited(),
    "tsv": delimited("a.tsv", "\t"),
    "jsonl": json_lines(),
    "txt": plain_text(),
    "txt with CR": progress_text(),
    "moses": line_aligned(),
    "columns": pair_columns(),
    "parquet": parquet(),
    "UTF-16": wide(),
    "around values": dressed(),
    "joined": joined(),
    "unsettled": unsettled_text(),
    "folder": folder(),
}


@pytest.mark.parametrize("form", CORPUS)
@given(data=st.data(), shard_mb=SIZES)
def test_a_corpus(form, data, shard_mb):
    check(data.draw(CORPUS[form]), shard_mb)


def task(file, read):
    """What a reader of tasks makes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in file.files.items():
            Path(folder, name).write_bytes(data)
        found = read([str(Path(folder, name)) for name in file.files])
    return list(zip(found.pieces, found.labels, strict=True))


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
@given(data=st.data())
def test_a_task_of_rows(form, data):
    file = data.draw(CORPUS[form])
    plan = TaskPlan(label_field="id", **file.settings)
    found = task(file, lambda places: read_rows(places, plan, "train").labeled(lambda x: [x], "x"))
    assert found == [([text], [f"n{i}"]) for i, text in enumerate(file.meant)]


WORDS = st.lists(
    st.lists(
        st.sampled_from(["a", '"', '""', "'", "\\", "é", "e\u0301", ",", "\U0001f9ec"]), min_size=1
    ),
    min_size=1,
    max_size=4,
)


@given(data=st.data(), sentences=WORDS)
def test_a_task_of_words(data, sentences):
    blank = data.draw(st.sampled_from([[""], ["", ""], [" "]]))
    separator = data.draw(st.sampled_from(["\t", " "]))
    records = [f"-DOCSTART-{separator}O", ""] if data.draw(st.booleans()) else []
    for words in sentences:
        records += [*(f"{word}{separator}_{separator}B-X" for word in words), *blank]
    stored, content = data.draw(archived("train.conll", data.draw(lines(records))))
    meant = [(words, ["B-X"] * len(words)) for words in sentences]
    assert task(File({stored: content}, []), lambda p: read_conll(p, "train")) == meant

    records = ["# a comment"]
    for words in sentences:
        for i, word in enumerate(words, 1):
            records.append("\t".join([str(i), word, *"_______", "NER=B-X"]))
        records.append("")
    stored, content = data.draw(archived("train.conllu", data.draw(lines(records))))
    assert task(File({stored: content}, []), lambda p: read_conllu(p, "train", "NER")) == meant
