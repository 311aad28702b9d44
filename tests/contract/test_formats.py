"""Every input format that the registry lists meets the contract of `text/contract.py`."""

import csv
import gzip
import io
import json
import zipfile
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from corpusfit import text as corpus
from corpusfit.core import registry
from corpusfit.core.errors import CorpusfitError, InputError, UsageError
from corpusfit.core.manifest import FORMAT
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.keyed_rows import texts_of as all_texts
from corpusfit.evaluation.keyed_rows import with_every_text
from corpusfit.evaluation.splitting import form_of
from corpusfit.text import contract, current_sources, find
from corpusfit.text.checks import check_format
from corpusfit.text.contract import Named
from corpusfit.text.formats import txt
from corpusfit.text.pairs import carried_text

FORMATS = contract.formats()
PLAN = ReadPlan()
IDS = ("n0", "n1", "n2")
TEXTS = ['first "row", of three', "zweite Zeile: \u00e4\u00f6\u2028\u8a9e", "the third; and last"]
OTHERS = ["1st", "2nd", "3rd"]
LONG = [f"row {i} of many, " + "long " * (i % 9) + "end" for i in range(300)]


def delimited(folder, texts, name, delimiter):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerows([("id", "text"), *((f"n{i}", text) for i, text in enumerate(texts))])
    return written(folder / f"a.{name}", out.getvalue())


def written(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def json_lines(texts):
    rows = [{"id": f"n{i}", "text": text, "more": [i]} for i, text in enumerate(texts)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet(folder, texts):
    ids = [f"n{i}" for i in range(len(texts))]
    table = pa.table({"id": ids, "text": texts})
    pq.write_table(table, folder / "a.parquet", row_group_size=70)
    return str(folder / "a.parquet")


def moses(folder, texts):
    others = [OTHERS[i % 3] for i in range(len(texts))]
    files = [
        written(folder / f"a.{side}", "".join(line + "\n" for line in lines))
        for side, lines in (("de", texts), ("en", others))
    ]
    return f"pair:{files[0]},{files[1]}"


def columns(folder, texts):
    rows = [f"{i}\t{OTHERS[i % 3]}\t{text}\n" for i, text in enumerate(texts)]
    path = written(folder / "a.tsv", "".join(["n\ten\tde\n", *rows]))
    return f"pair:{path}:de,en"


def hub(folder, texts):
    written(folder / "box" / "train.jsonl", json_lines(texts))
    return f"hub:{folder / 'box'}"


def run(folder, texts):
    """The folder of a selection of all texts, as far as a corpus needs it."""
    names = ("text", "source", "row", "segment", "segments", "id")
    rows = [(text, "a.jsonl", i, 0, 1, f"n{i}") for i, text in enumerate(texts)]
    lines = b"".join(json.dumps(dict(zip(names, r, strict=True))).encode() + b"\n" for r in rows)
    manifest = {
        "command": "select",
        "plan": {"read": {"text_field": "text", "id_field": "id"}},
        "corpus": [{"name": "a.jsonl"}],
        "selected": {"segments": len(texts)},
    }
    written(folder / "run/manifest.json", json.dumps(manifest))
    written(folder / "run/.corpusfit/run.json", json.dumps({"format": FORMAT, "texts": texts}))
    written(folder / "run/.corpusfit/parts.json", "[[0]]")
    written(folder / "run/selected/part-00000.jsonl.zst", zstandard.compress(lines))
    return f"run:{folder / 'run'}"


def arrow(folder, texts):
    table = pa.table({"id": [f"n{i}" for i in range(len(texts))], "text": texts})
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as out:
        out.write_table(table)
    return str(folder / "a.arrow")


def pages(folder, texts, name, page="{}"):
    for i, text in enumerate(texts):
        written(folder / f"pages/{i:03d}.{name}", page.format(text))
    return str(folder / "pages")


EXAMPLES = {
    "arrow": arrow,
    "columns": columns,
    "csv": lambda folder, texts: delimited(folder, texts, "csv", ","),
    "html": lambda folder, texts: pages(folder, texts, "html", "<nav>Home</nav><p>{}</p>"),
    "hub": hub,
    "jsonl": lambda folder, texts: written(folder / "a.jsonl", json_lines(texts)),
    "lines": lambda folder, texts: written(folder / "a.txt", "\n".join(texts) + "\n"),
    "markdown": lambda folder, texts: pages(folder, texts, "md", "---\nid: 1\n---\n\n{}\n"),
    "moses": moses,
    "parquet": parquet,
    "run": run,
    "tsv": lambda folder, texts: delimited(folder, texts, "tsv", "\t"),
    "txt": lambda folder, texts: written(folder / "a.txt", "\n\n".join(texts) + "\n"),
}
"""By format: writes texts to a folder and returns the input that names them."""


@pytest.fixture(params=sorted(FORMATS))
def form(request, monkeypatch):
    """Each format in turn."""
    if request.param == "lines":
        monkeypatch.setattr(txt, "_FEWEST", 2)  # the texts are few
    require(request, request.param)
    return FORMATS[request.param]


def require(request, name):
    """Skip a format whose extra is not installed."""
    if name == "hub":
        pytest.importorskip("datasets", reason="the extra hub is not installed")
        request.getfixturevalue("offline")
    if name == "html":
        pytest.importorskip("lxml", reason="the extra html is not installed")


@pytest.fixture
def example(form, tmp_path):
    """Write texts in the format; returns the sources that name them."""

    def example(texts, plan=PLAN):
        return find([EXAMPLES[form.name](tmp_path, texts)], plan, role="corpus")

    return example


def read(sources, plan=PLAN):
    return [row for shard in corpus.shards(sources, plan) for row in corpus.rows(shard, plan)]


def texts_of(rows):
    return [row.text for row in rows]


def test_the_names_of_manifests_stay():
    """`Source.format` of earlier runs."""
    assert {"jsonl", "txt", "csv", "tsv", "parquet", "hub", "moses", "columns"} <= set(FORMATS)


def test_what_it_declares(form):
    others = [other for other in FORMATS.values() if other is not form]
    assert FORMATS[form.name] is form
    assert all(s.startswith(".") and s == s.lower() for s in form.suffixes)
    assert not {s for other in others for s in other.suffixes} & set(form.suffixes)
    # the content decides between `txt` and `lines`
    assert bool(form.suffixes) != isinstance(form, Named) or form.name == "lines"
    assert isinstance(form, Named) or not form.parallel
    assert all(suffix in contract.allowed_suffixes() for suffix in form.suffixes)
    assert form.__doc__


def test_it_reads_the_texts(form, example):
    """Against the texts that the standard library or pyarrow wrote."""
    sources = example(TEXTS)
    rows = read(sources)
    assert [source.format for source in sources] == [form.name] * (3 if form.single else 1)
    assert texts_of(rows) == TEXTS
    if form.parallel:
        assert list(map(carried_text, rows)) == OTHERS
    assert {row.id for row in rows} in ({None}, set(IDS))
    assert form.parallel == corpus.is_parallel(sources)
    assert len(set(corpus.sides(sources))) == 2
    assert all(Path(file).is_file() for source in sources for file in corpus.files_of(source))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == "hub" else ()) for n in sorted(FORMATS)],
)
def test_it_keeps_to_the_contract(name, tmp_path, request):
    require(request, name)
    check_format(EXAMPLES[name], tmp_path)


def test_the_second_text_of_pairs_as_columns(form, example):
    if not form.parallel:
        pytest.skip("it has one text in a row")
    for shard in corpus.shards(example(LONG), PLAN):
        others, _ = corpus.documents(shard, replace(PLAN, text_field="translation"))
        assert others.texts.to_pylist() == list(map(carried_text, corpus.rows(shard, PLAN)))


def test_a_change_is_found(form, example):
    before = example(TEXTS)
    assert current_sources(before, PLAN) == (before, [])
    assert corpus.content(before[0]) == before[0].fingerprint
    example([f"{TEXTS[0]} changed", *TEXTS[1:]])
    now, changed = current_sources(before, PLAN)
    assert changed == [before[0].name]
    assert texts_of(read(now)) == [f"{TEXTS[0]} changed", *TEXTS[1:]]


def packed(form, sources):
    """The paths of the files as gzip archives."""
    if not form.suffixes:
        pytest.skip("it is not named by a suffix")
    files = [Path(source.url) for source in sources]
    return [written(Path(f"{file}.gz"), gzip.compress(file.read_bytes())) for file in files]


def test_packed_files_are_read(form, example):
    found = find(packed(form, example(LONG)), PLAN, role="corpus")
    assert {(source.format, source.compression) for source in found} == {(form.name, "gz")}
    assert texts_of(read(found)) == LONG


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_files_of_archives_are_read(form, example, tmp_path, method):
    sources = example(LONG)
    if not form.suffixes:
        pytest.skip("it is not named by a suffix")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        for source in sources:
            archive.write(source.url, source.name)
    found = find([str(tmp_path / "a.zip")], PLAN, role="corpus")
    assert {(s.format, s.compression) for s in found} == {(form.name, "deflate" if method else "")}
    assert read(found) == read(sources)


def test_shards_of_packed_files_are_read_in_any_order(form, example):
    """As in one pass from the beginning, whatever was read before."""
    plan = ReadPlan(shard_mb=1e-3)
    sources = find(packed(form, example(LONG, plan)), plan, role="corpus")
    unknown = [replace(source, cells=None, blocks=None) for source in sources]
    shards = list(corpus.shards(sources, plan))
    one_pass = [list(corpus.rows(shard, plan)) for shard in corpus.shards(unknown, plan)]
    assert len(shards) == len(one_pass) > 3
    order = [*range(len(shards))[::-2], *range(len(shards)), 2, 2, 1]
    for number in order:
        assert list(corpus.rows(shards[number], plan)) == one_pass[number]


@pytest.mark.parametrize("shard_mb", [4.0, 1e-3])
def test_split_writes_rows_that_read_the_same(form, example, tmp_path, shard_mb):
    """In the form that `split` writes them in, unchanged or not."""
    plan = ReadPlan(shard_mb=shard_mb)
    sources = example(LONG, plan)
    every = with_every_text(sources, plan)
    out = form_of(sources, plan)
    files = [tmp_path / "again" / f"train.{suffix}" for suffix in out.suffixes]
    written(files[0], b"")
    handles = [file.open("wb") for file in files]
    for handle in handles:
        handle.write(out.header + b"\n" * bool(out.header))
    for shard in corpus.shards(sources, plan):
        for row, raw in corpus.raw_rows(shard, plan):
            lines = out.lines(form.name, row, all_texts(row, every), raw, every)
            for handle, line in zip(handles, lines, strict=True):
                handle.write(line + b"\n")
            assert bool(raw) == bool(form.written)
    for handle in handles:
        handle.close()
    name = ",".join(map(str, files))
    columns = f":{sources[0].translation}" if out.header else ""
    again = find([f"pair:{name}{columns}" if out.pair else name], plan, role="data")
    assert [(r.id, all_texts(r, every)) for r in read(again)] == [
        (r.id, all_texts(r, every)) for r in read(sources)
    ]
    assert corpus.sides(again) == corpus.sides(sources)
    assert not form.written or files[0].suffix == f".{form.written}"


def test_an_input_means_the_same_from_elsewhere(form, tmp_path, monkeypatch):
    if isinstance(form, Named) and not form.parallel:
        pytest.skip("the name of a dataset means the same everywhere")
    monkeypatch.chdir(tmp_path)
    here = EXAMPLES[form.name](Path(), TEXTS)
    whole = corpus.located(here, Path.cwd())
    monkeypatch.chdir("/")
    assert texts_of(read(find([whole], PLAN, role="corpus"))) == TEXTS


def test_an_input_that_is_not_there(form, tmp_path):
    """An error in one line that names the setting and the input."""
    missing = form.prefix + str(tmp_path / "no") if isinstance(form, Named) else "no.txt"
    with pytest.raises((InputError, UsageError), match=r"^`corpus` .*no") as caught:
        find([missing], PLAN, role="corpus")
    assert "\n" not in str(caught.value)


def test_an_unknown_name():
    """As from the manifest of a run with a format of a package that is gone."""
    with pytest.raises(CorpusfitError, match=r"jsonl.*got 'gone'"):
        contract.load("gone")


PLUG_IN = '''"""Values separated by bars."""
from corpusfit.text.formats.csv import Csv

class Psv(Csv):
    """Values separated by bars."""

    name = written = "psv"
    suffixes = (".psv",)
    delimiter = "|"
'''


def test_a_format_of_another_package(tmp_path, monkeypatch):
    """An entry point names its module; nothing else is needed to read, or to split."""
    written(tmp_path / "bars_of_a_package.py", PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("psv", "bars_of_a_package", contract.FORMATS.group)
    monkeypatch.setattr(registry, "_entries", lambda group: {"psv": entry})
    contract.formats.cache_clear()
    try:
        path = delimited(tmp_path, TEXTS, "psv", "|")
        sources = find([path], PLAN, role="corpus")
        assert texts_of(read(sources)) == TEXTS
        assert form_of(sources, PLAN).suffixes == ("psv",)
        assert ".psv" in contract.allowed_suffixes()
    finally:
        contract.formats.cache_clear()
