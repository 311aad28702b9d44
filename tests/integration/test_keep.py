"""Columns of the corpus in `selected/`: `choose.keep`."""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from journeys import digests, prose, write_rows

import corpusfit
from corpusfit import Machine
from corpusfit.core.errors import UsageError
from corpusfit.training.inputs import TrainingInputs, rows_read

KEPT = ["url", "meta.license", "tags"]
CUT = ["cut.pieces=20", "read.shard_mb=0.004"]


def rows(n=60):
    """Rows with an address, and with a license and a list that one in three lacks."""
    made = []
    for i, text in enumerate(prose("task", n)):
        row = {"text": text, "id": f"r{i}", "url": f"https://example.org/{i}?q=a,b"}
        if i % 3 != 1:
            row |= {"meta": {"license": "cc-by", "n": i}, "tags": ["a", str(i)]}
        made.append(row)
    return made


def as_jsonl(path, made):
    return write_rows(path / "c.jsonl", made)


def as_archive(path, made):
    data = as_jsonl(path, made).read_bytes()
    (path / "c.jsonl").unlink()
    (path / "c.jsonl.gz").write_bytes(gzip.compress(data))
    return path / "c.jsonl.gz"


def as_table(path, made):
    table = pa.Table.from_pylist(made)
    pq.write_table(table, path / "c.parquet", row_group_size=7)
    return path / "c.parquet"


def as_arrow(path, made):
    table = pa.Table.from_pylist(made)
    with pa.ipc.new_file(path / "c.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=7)
    return path / "c.arrow"


def as_hub(path, made):
    pytest.importorskip("datasets", reason="the extra hub is not installed")
    as_jsonl(path / "set", made)
    return f"hub:{path / 'set'}"


def as_list(path, made):
    del path
    return made


def as_frame(path, made):
    del path
    return pytest.importorskip("pandas").DataFrame(made)


@pytest.fixture
def select(tmp_path, inline, monkeypatch):
    """`select` in this process, of half of the text."""
    monkeypatch.setenv("CORPUSFIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    write_rows(tmp_path / "task.jsonl", prose("task", 20, seed=1))

    def select(corpus, out="out", **words):
        settings = [*CUT, *words.pop("settings", ())]
        given = {"method": "random", "fraction": 0.5, "machine": inline, **words}
        target = tmp_path / "task.jsonl"
        return corpusfit.select(target, corpus, out=tmp_path / out, settings=settings, **given)

    return select


def wanted(row):
    """What is kept of a row of `rows`."""
    meta = row.get("meta") or {}
    return {
        "url": row["url"],
        "meta.license": meta.get("license"),
        "tags": row.get("tags"),
    }


SLOW = [pytest.param(as_hub, marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    "form", [as_jsonl, as_archive, as_table, as_arrow, *SLOW, as_list, as_frame]
)
def test_each_text_has_the_fields_of_its_row(select, tmp_path, form):
    made = rows()
    run = select(form(tmp_path, made), keep=KEPT)
    assert len(run) > 20
    for text in run:
        row = made[text["row"]]
        assert text["text"] in row["text"]
        assert {name: text[name] for name in KEPT} == wanted(row)
        assert text["id"] == row["id"]
    # the shards are cut as without them, also where the fields are many times the text
    assert digests(run.path / "scores") == digests(
        select(form(tmp_path, made), out="without").path / "scores"
    )


def test_columns_of_csv(select, tmp_path):
    lines = [f'"{text}",r{i},"u,{i}"' for i, text in enumerate(prose("task", 40))]
    lines[3] = lines[3].rpartition(",")[0].rpartition(",")[0]  # without the last two values
    (tmp_path / "c.csv").write_text("\n".join(["text,id,url", *lines]) + "\n", "utf-8")
    run = select(tmp_path / "c.csv", keep="url", fraction=1)
    assert {t["row"]: t["url"] for t in run} == {i: None if i == 3 else f"u,{i}" for i in range(40)}


def test_a_part_has_its_row_s_fields_and_joined_ones_have_them_once(select, tmp_path):
    made = [
        {"text": " ".join(prose("task", 8, seed=i, most=12)), "url": f"u{i}"} for i in range(30)
    ]
    run = select(as_jsonl(tmp_path, made), keep="url")
    parts = [t["row"] for t in run]
    assert len(parts) > len(set(parts))
    assert any(t["segments"] > 1 for t in run)
    assert all(t["url"] == f"u{t['row']}" for t in run)


def test_choose_carries_others_without_scoring_again(select, tmp_path, inline):
    made = rows()
    without = select(as_jsonl(tmp_path, made))
    scores, texts = digests(without.path / "scores"), list(without)
    chosen = corpusfit.choose(without, keep="tags, url,url", fraction=0.5, machine=inline)
    own = [{k: v for k, v in t.items() if k not in KEPT} for t in chosen]
    assert own == texts
    assert [(t["tags"], t["url"]) for t in chosen] == [
        (made[t["row"]].get("tags"), made[t["row"]]["url"]) for t in texts
    ]
    assert digests(chosen.path / "scores") == scores
    # the same as if they had been named at first
    fresh = select(tmp_path / "c.jsonl", out="fresh", keep="tags,url")
    assert digests(fresh.path / "selected") == digests(chosen.path / "selected")
    again = corpusfit.choose(without, fraction=0.4, machine=inline)
    assert {"tags", "url"} <= {*again[0]}
    assert not {*KEPT} & {*corpusfit.choose(again, machine=inline, settings=["choose.keep="])[0]}


def test_what_the_text_is_made_of_is_there_once(select, tmp_path):
    made = [{"title": f"t{i}", **row} for i, row in enumerate(rows())]
    template = {"text_field": "{title}: {text}", "target_field": "text"}
    run = select(as_jsonl(tmp_path, made), keep=["title", "url"], **template)
    plain = select(tmp_path / "c.jsonl", out="plain", **template)
    assert [{**t, "url": made[t["row"]]["url"]} for t in plain] == list(run)


def test_a_run_carries_on_what_the_earlier_one_carried(select, tmp_path):
    made = rows()
    first = select(as_jsonl(tmp_path, made), keep=KEPT)
    second = select(first, out="second")
    third = select(first, out="third", keep="meta.license,url")
    assert len(second) > 10
    for text in second:
        assert {name: text[name] for name in KEPT} == wanted(made[text["row"]])
    assert list(third) == list(second)
    with pytest.raises(UsageError, match=r"choose\.keep.*'urls'.*Did you mean 'url'"):
        select(first, out="fourth", keep="urls")


def test_values_of_other_types_are_those_of_json(select, tmp_path):
    n, big = 40, 2**70
    zone = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    columns = {
        "text": prose("task", n),
        "day": pa.array([date(2024, 2, 29)] * n),
        "time": pa.array([zone] * n, pa.timestamp("us", tz="UTC")),
        "price": pa.array([Decimal("1.50")] * n),
        "large": pa.array([2**64 - 1] * n, pa.uint64()),
        "quality": pa.array([float("nan"), 0.1] * (n // 2), pa.float32()),
        "map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
        "kind": pa.array(["x"] * n).dictionary_encode(),
        "blob": pa.array([b"\xff\xfe"] * n),
        "image": pa.array([{"bytes": b"\x89PNG\xff", "path": "a.png"}] * n),
    }
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    names = ["day", "time", "price", "large", "quality", "map", "kind"]
    for text in select(tmp_path / "c.parquet", keep=names):
        assert {name: text[name] for name in names} == {
            "day": "2024-02-29",
            "time": "2024-02-29T12:30:00+00:00",
            "price": "1.50",
            "large": 2**64 - 1,
            "quality": 0.1 if text["row"] % 2 else None,
            "map": {"a": 1},
            "kind": "x",
        }
    for name in ("blob", "image"):
        with pytest.raises(UsageError, match=rf"choose\.keep.*'{name}'"):
            select(tmp_path / "c.parquet", out="refused", keep=name)
    # by two parsers, as NaN is no JSON
    line = '{"text": "%s", "meta": {"n": %d}}\n{"text": "%s", "meta": {"n": %d, "x": NaN}}\n'
    pairs = zip(columns["text"][::2], columns["text"][1::2], strict=True)
    lines = [line % (one, big, other, big) for one, other in pairs]
    (tmp_path / "c.jsonl").write_text("".join(lines), "utf-8")
    for text in select(tmp_path / "c.jsonl", out="big", keep="meta"):
        wanted = {"n": str(big), "x": None} if text["row"] % 2 else {"n": str(big)}
        assert text["meta"] == wanted


def test_large_columns_do_not_cut_the_corpus_otherwise(select, tmp_path):
    """As where the whole page stands beside the text: larger than a row may be."""
    made = [{**row, "page": "<p>" * 20_000} for row in rows()]
    run = select(as_table(tmp_path, made), keep="page", settings=["read.max_row_mb=0.02"])
    assert len(run) > 20
    assert all(len(text["page"]) == 60_000 for text in run)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("urll", "Did you mean 'url'"),
        ("meta.licenses", "Did you mean 'meta.license'"),
        *((name, "other names than selected/ has") for name in ("id", "score", "translation")),
    ],
)
def test_wrong_names_are_refused_before_the_work(select, tmp_path, inline, name, said):
    corpus = as_jsonl(tmp_path, rows()[1:])
    with pytest.raises(UsageError, match=rf"choose\.keep.*'{name}'.*") as error:
        select(corpus, keep=["url", name])
    assert said in str(error.value)
    assert not (tmp_path / "out/scores").exists()
    run = select(corpus)
    before = digests(run.path)
    with pytest.raises(UsageError, match=name):
        corpusfit.choose(run, keep=name, machine=inline)
    assert digests(run.path) == before


def test_what_has_no_columns_is_refused(select, tmp_path):
    texts = prose("task", 20)
    (tmp_path / "c.txt").write_text("\n\n".join(texts), "utf-8")
    for side in ("de", "en"):
        (tmp_path / f"c.{side}").write_text("\n".join(texts), "utf-8")
    for corpus in (tmp_path / "c.txt", f"pair:{tmp_path / 'c.de'},{tmp_path / 'c.en'}"):
        with pytest.raises(UsageError, match=r"choose\.keep.*no fields but the text"):
            select(corpus, keep="url")


def test_texts_of_a_file_without_columns_keep_nothing(select, tmp_path):
    as_jsonl(tmp_path / "c", rows())
    (tmp_path / "c/b.txt").write_text("\n\n".join(prose("market", 20)), "utf-8")
    kept = {"b.txt": set(), "c.jsonl": set()}
    for text in select(tmp_path / "c", keep="url", fraction=1.0):
        kept[text["source"]].add(text["url"])
    assert kept["b.txt"] == {None}
    assert kept["c.jsonl"] == {row["url"] for row in rows()}


def test_as_a_table_values_of_several_types_are_json(select, tmp_path):
    made = [{**row, "any": {"a": [1]} if i % 2 else i} for i, row in enumerate(rows())]
    run = select(as_jsonl(tmp_path, made), keep=["any", "tags"])
    table = run.to_arrow()
    assert table["tags"].to_pylist() == [text["tags"] for text in run]
    assert [json.loads(value) for value in table["any"].to_pylist()] == [t["any"] for t in run]


def test_fields_named_as_those_of_selected_are_found_in_it(select, tmp_path):
    """As a model that is trained on the whole rows finds them."""
    texts = prose("task", 30)
    made = [{"translation": text, "segments": f"s{i}"} for i, text in enumerate(texts)]
    field = "{segments}: {translation}"
    run = select(as_jsonl(tmp_path, made), text_field=field, target_field="text", unit="document")
    read = rows_read(TrainingInputs([], [], [], run.manifest))
    for text in run:
        assert read.text_field.format(**text) == text["text"]


@pytest.mark.slow
def test_it_is_the_same_for_any_number_of_workers(select, tmp_path):
    made, corpora = rows(200), []
    for name, form in (("a", as_table), ("b", as_archive), ("c", as_jsonl)):
        (tmp_path / name).mkdir()
        corpora.append(form(tmp_path / name, made))
    run = select(corpora, keep=KEPT, dedup="none")
    other = select(corpora, out="two", keep=KEPT, dedup="none", machine=Machine(workers=2))
    assert len(run) > 200
    assert digests(run.path / "selected") == digests(other.path / "selected")
