"""Scores that others published in files beside a corpus: `read.scores`."""

import gzip
import io
import json
import os
import pickle
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpusfit
from corpusfit.core.errors import ChangedInputError, InputError, UsageError

TEXT = "the of a in protein cell market stock court law river music film train data"
WORDS = TEXT.split()
N = 60  # rows of each file
FILES = ("x/a", "b")
SMALL = ("read.shard_mb=0.002",)  # about eight shards of each file


def row(i):
    text = " ".join(WORDS[(i * k + k * k) % len(WORDS)] for k in range(1, 30)) + f" {i}."
    return {"text": text, "id": f"d{i}", "source": "web"}


def rows_of(name):
    return [row(i + N * FILES.index(name)) for i in range(N)]


def quality(name):
    """Different numbers, of which no two in all files are equal."""
    return np.array([(i * 37 % N) + 0.5 * FILES.index(name) for i in range(N)], np.float32)


def lines(rows):
    return "".join(json.dumps(each) + "\n" for each in rows).encode()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, data)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(data), path, row_group_size=7)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines(data)))
    elif path.suffix == ".zst":
        with pa.output_stream(path, compression="zstd") as out:
            out.write(lines(data))
    elif path.suffix == ".csv":
        names = list(data[0])
        values = (",".join(str(each[name]) for name in names) for each in data)
        path.write_text("\n".join([",".join(names), *values]) + "\n")
    else:
        path.write_bytes(lines(data))


def dolma(name):
    """Attributes in two spans, whose mean by length is the quality, in the order of the rows."""
    return [
        {"id": each["id"], "source": "s", "attributes": {"q": [[0, 30, 2 * v], [30, 60, 0.0]]}}
        for each, v in zip(rows_of(name), quality(name).tolist(), strict=True)
    ]


def by_id(name, *, order=1):
    listed = zip(rows_of(name), quality(name).tolist(), strict=True)
    return [{"id": each["id"], "quality": v, "lang": "en"} for each, v in listed][::order]


@pytest.fixture
def corpus(tmp_path):
    for name in FILES:
        write(tmp_path / "documents" / f"{name}.jsonl.zst", rows_of(name))
    write(tmp_path / "t.jsonl", [row(i) for i in range(500, 530)])
    return tmp_path


def select(home, scores="side", out="out", **options):
    options = {"engine": "inline", "segments": 7, "settings": SMALL, **options}
    return corpusfit.select(
        target=str(home / "t.jsonl"),
        corpus=options.pop("corpus", str(home / "documents")),
        scores=home / scores,
        out=home / out,
        cache=home / "cache",
        **options,
    )


def of_file(source):
    return source.partition(".")[0]


def scored(run):
    return {(of_file(r["source"]), r["row"]): r["score"] for r in run}


def best(n=7):
    every = {(name, i): v for name in FILES for i, v in enumerate(quality(name).tolist())}
    return dict(sorted(every.items(), key=lambda item: -item[1])[:n])


LAYOUTS = {
    "side/{}.npy": (quality, "side"),
    "side/{}__choice.npy": (quality, "side"),
    "side/scores_q/{}.npy": (quality, "scores_q"),
    "side/logits/{}__logits.npy": (lambda name: np.stack([quality(name)] * 2, 1), "logits_1"),
    "side/tagger/{}.jsonl.gz": (dolma, "q"),
    "side/other/{}.jsonl.zst": (dolma, "other.q"),
    "side/{}.parquet": (by_id, "quality"),
    "side/{}.jsonl": (partial(by_id, order=-1), "side.quality"),
    "side/shuffled/{}.parquet": (partial(by_id, order=-1), "quality"),
    "side/nested/{}.ndjson": (
        lambda name: [{"m": {"q": v}} for v in quality(name).tolist()],
        "m.q",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_field_of_side_files_is_the_score(corpus, layout):
    of_rows, field = LAYOUTS[layout]
    for name in FILES:
        write(corpus / layout.format(name), of_rows(name))
    run = select(corpus, method=f"field:{field}")
    assert scored(run) == pytest.approx(best())
    assert run.manifest["counts"]["documents"] == 2 * N
    assert "score 59" in str(corpusfit.explain(run, row=f"x/a.jsonl.zst:{quality('x/a').argmax()}"))
    assert scored(corpusfit.choose(run, segments=3, engine="inline")) == pytest.approx(best(3))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".jsonl.gz"])
@pytest.mark.parametrize("layout", ["side/{}.npy", "side/{}.jsonl"])
def test_files_of_any_format_have_side_files(tmp_path, suffix, layout):
    of_rows, field = LAYOUTS[layout]
    write(tmp_path / "t.jsonl", [row(i) for i in range(500, 530)])
    for name in FILES:
        write(tmp_path / f"documents/{name}{suffix}", rows_of(name))
        write(tmp_path / layout.format(name), of_rows(name))
    assert scored(select(tmp_path, method=f"field:{field}")) == pytest.approx(best())
    again = select(tmp_path, out="other", method=f"field:{field}", settings=())
    assert scored(again) == pytest.approx(best())  # the files share a shard


def weborganizer(home):
    for name in FILES:
        write(home / f"scores_q/{name}.npy", quality(name))
        write(home / f"domains/{name}__choice.npy", np.arange(N) % 3)
        write(home / f"tokens/{name}.npy", np.arange(N))


def test_several_sets_filter_balance_and_are_kept(corpus):
    weborganizer(corpus)
    where = "domains != 2 and tokens < 50"
    settings = {"method": "field:scores_q", "balance": "field:domains", "quota": "even"}
    run = select(corpus, ".", where=where, keep="domains,tokens", segments=10, **settings)
    assert Counter(r["domains"] for r in run) == {0: 5, 1: 5}
    assert all((r["row"] % 3, r["row"]) == (r["domains"], r["tokens"]) for r in run)
    counts = run.manifest["counts"]
    assert (
        counts["left_out"]
        == 2 * N - counts["documents"]
        == 2 * sum(i % 3 == 2 or i >= 50 for i in range(N))
    )
    # a field of side files needs no method that reads it
    only = select(corpus, ".", "only", method="random", balance="field:domains", quota="even")
    assert {r["row"] % 3 for r in only} == {0, 1, 2}


@pytest.mark.parametrize(("workers", "settings"), [(1, SMALL), (2, SMALL), (2, ())])
def test_workers_and_shards_change_nothing(corpus, workers, settings):
    for name in FILES:
        write(corpus / f"side/s/{name}.npy", quality(name))
        write(corpus / f"side/t/{name}.jsonl.gz", dolma(name)[::-1])
    options = {"method": "field:s", "where": "t.q > 3", "keep": "t.q", "engine": "local"}
    run = select(corpus, workers=workers, settings=settings, **options)
    assert scored(run) == pytest.approx(best())
    assert all(r["t.q"] == r["score"] for r in run)


def test_side_files_are_part_of_the_run(corpus):
    for name in FILES:
        write(corpus / f"side/{name}.npy", quality(name))
    first = select(corpus, method="field:side")
    assert scored(select(corpus, method="field:side")) == scored(first)  # resumes
    write(corpus / "side/b.npy", -quality("b"))
    with pytest.raises(ChangedInputError, match=r"b\.jsonl"):
        select(corpus, method="field:side")
    with pytest.raises(ChangedInputError, match=r"b\.jsonl"):
        corpusfit.choose(first, segments=3, engine="inline")
    again = select(corpus, method="field:side", overwrite=True)
    assert {source for source, _ in scored(again)} == {"x/a"}


def test_rows_that_are_rejected_keep_their_numbers(tmp_path):
    rows = rows_of("b")
    rows[3] = {"text": None, "id": "none"}
    write(tmp_path / "t.jsonl", [row(i) for i in range(500, 530)])
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/b.jsonl").write_bytes(lines(rows[:9]) + b"no json\n" + lines(rows[10:]))
    values = quality("b")
    values[20] = np.nan
    write(tmp_path / "side/b.npy", values)
    run = select(tmp_path, method="field:side", segments=N)
    assert scored(run) == {("b", i): values[i] for i in range(N) if i not in (3, 9, 20)}
    assert run.manifest["counts"]["rejected"] == 3


def test_rank_takes_a_field_of_side_files(corpus):
    for name in FILES:
        write(corpus / f"side/{name}.npy", quality(name))
    found = corpusfit.rank(
        target=str(corpus / "t.jsonl"),
        corpus=str(corpus / "documents"),
        scores=corpus / "side",
        methods=["field:side"],
        settings=["fit.background=100"],
        cache=corpus / "cache",
        engine="inline",
    )
    assert {each.method for each in found} == {"field:side", "random"}


def few(rows):
    return rows[:-1]


def many(rows):
    return [*rows, rows[-1]] if isinstance(rows, list) else np.append(rows, 1)


def changed(number, **values):
    def change(rows):
        return [*rows[:number], {**rows[number], **values}, *rows[number + 1 :]]

    return change


@pytest.mark.parametrize(
    ("layout", "change", "field", "message"),
    [
        ("side/{}.npy", few, "side", r"b\.npy has 59 rows, fewer than b\.jsonl"),
        ("side/{}.npy", many, "side", r"as many rows as b\.jsonl\.zst, 60; got 61"),
        ("side/tagger/{}.jsonl.gz", few, "q", "has no id 'd119', of row 59"),
        ("side/tagger/{}.jsonl.gz", many, "q", "id 'd119' twice"),
        ("side/{}.jsonl", changed(5, id="d7"), "quality", r"id 'd(7|114)'"),
        ("side/{}.parquet", changed(5, id="else"), "quality", "has no id 'd65', of row 5"),
        ("side/{}.parquet", changed(5, id="d64"), "quality", "id 'd64' twice"),
        ("side/{}.parquet", changed(5, id=None), "quality", "id in each row; row 5"),
        ("side/{}.jsonl", changed(5, quality="high"), "quality", "cannot be read: 'quality'"),
        ("side/{}.parquet", lambda rows: rows, "lang", "numbers in 'lang'; row 0 has 'en'"),
        ("side/{}.npy", lambda rows: rows.astype(str), "side", "must have numbers"),
        ("side/{}.npy", lambda rows: rows[None, None], "side", "must have numbers"),
        (
            "side/{}.parquet",
            lambda rows: [{**r, "source": 1} for r in rows],
            "source",
            "both|is in",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(corpus, layout, change, field, message):
    of_rows, _ = LAYOUTS[layout]
    write(corpus / layout.format("x/a"), of_rows("x/a"))
    write(corpus / layout.format("b"), change(of_rows("b")))
    with pytest.raises(InputError, match=message):
        select(corpus, method=f"field:{field}")
    # what was read of a file that is refused is not used again
    with pytest.raises(InputError, match=message):
        select(corpus, out="two", method=f"field:{field}")


def test_a_worker_refuses_what_cannot_be_joined(corpus):
    write(corpus / "side/x/a.npy", quality("x/a"))
    write(corpus / "side/b.npy", many(quality("b")))
    with pytest.raises(InputError, match="60; got 61"):
        select(corpus, method="field:side", engine="local", workers=2)


def test_the_number_of_rows_is_checked_where_nothing_is_scored_by_them(corpus):
    write(corpus / "side/x/a.npy", quality("x/a"))
    write(corpus / "side/b.npy", many(quality("b")))
    with pytest.raises(InputError, match="60; got 61"):
        select(corpus, method="random", keep="side")


def test_a_row_without_an_id_is_refused(tmp_path):
    rows = rows_of("b")
    write(tmp_path / "t.jsonl", rows)
    del rows[4]["id"]
    write(tmp_path / "documents/b.jsonl", rows)
    write(tmp_path / "side/b.parquet", by_id("b"))
    with pytest.raises(InputError, match=r"Row 4 of b\.jsonl must have an 'id'"):
        select(tmp_path, method="field:quality")


def test_folders_that_do_not_fit_are_refused(corpus):
    with pytest.raises(UsageError, match=r"`read\.scores` must be a folder.*no folder"):
        select(corpus, "nowhere", method="field:side")
    with pytest.raises(UsageError, match=r"`read\.scores` must be a folder"):
        select(corpus, "t.jsonl", method="field:side")
    write(corpus / "side/b.npy", quality("b"))
    with pytest.raises(InputError, match=r"one side file x/a .*x/a\.jsonl\.zst; .* has none"):
        select(corpus, method="field:side")
    write(corpus / "side/x/a.npy", quality("x/a"))
    with pytest.raises(UsageError, match=r"`method\.name` must .*side.*'sides'.*'side'"):
        select(corpus, method="field:sides")
    write(corpus / "side/b.parquet", by_id("b"))
    with pytest.raises(InputError, match="both"):
        select(corpus, method="field:side")
    write(corpus / "texts/b.txt.jsonl", rows_of("b"))
    Path(corpus / "texts/c.txt").write_text("A text.\n\nAnother.\n")
    with pytest.raises(UsageError, match=r"named fields.*c\.txt"):
        select(corpus, corpus=str(corpus / "texts"), method="field:side")


def test_a_field_of_two_sets_needs_the_name_of_its_set(corpus):
    for name in FILES:
        write(corpus / f"side/one/{name}.jsonl.gz", dolma(name))
        write(corpus / f"side/two/{name}.jsonl.gz", dolma(name))
    with pytest.raises(InputError, match=r"both have the field 'q'. Name it one\.q or two\.q"):
        select(corpus, method="field:q")
    assert scored(select(corpus, method="field:two.q")) == pytest.approx(best())


def test_ids_that_a_corpus_has_twice_are_joined_where_both_files_have_one_order(tmp_path):
    # as in Dolma 1.7; in another order they would be ambiguous
    rows = [{**r, "id": f"d{n // 2}"} for n, r in enumerate(rows_of("b"))]
    write(tmp_path / "t.jsonl", rows)
    write(tmp_path / "documents/b.jsonl.gz", rows)
    side = [{"id": r["id"], "quality": v} for r, v in zip(rows, quality("b").tolist(), strict=True)]
    write(tmp_path / "side/b.jsonl.gz", side)
    run = select(tmp_path, method="field:quality", segments=N)
    assert scored(run) == {("b", i): v for i, v in enumerate(quality("b").tolist())}
    write(tmp_path / "side/b.jsonl.gz", side[::-1])
    with pytest.raises(InputError, match="twice"):
        select(tmp_path, method="field:quality", overwrite=True)


@pytest.mark.parametrize("order", [1, -1])
def test_each_id_of_a_corpus_is_found_whatever_else_the_files_have(tmp_path, order):
    """An id twice in the corpus, one in place of it in the side file, and one more."""
    rows = rows_of("b")
    rows[7]["id"] = rows[3]["id"]
    write(tmp_path / "t.jsonl", rows)
    write(tmp_path / "documents/b.jsonl", rows)
    side = by_id("b")
    write(tmp_path / "side/b.jsonl", [*side, {**side[0], "id": "another"}][::order])
    values = quality("b").tolist()
    values[7] = values[3]
    run = select(tmp_path, method="field:quality", segments=N)
    assert scored(run) == {("b", i): v for i, v in enumerate(values)}
    write(tmp_path / "side/b.jsonl", [each for each in side if each["id"] != rows[7]["id"]])
    with pytest.raises(InputError, match=f"no id '{rows[7]['id']}', of row 3"):
        select(tmp_path, method="field:quality", out="two")


def test_json_lines_have_byte_order_marks_and_nan(tmp_path):
    """As Python writes them, and as files are put together."""
    write(tmp_path / "t.jsonl", rows_of("b"))
    write(tmp_path / "documents/b.jsonl", rows_of("b"))
    side = by_id("b")
    side[4]["quality"] = np.nan
    mark = "\ufeff".encode()
    path = tmp_path / "side/b.jsonl"
    path.parent.mkdir()
    path.write_bytes(mark + lines(side[:9]) + mark + lines(side[9:]))
    run = select(tmp_path, method="field:quality", segments=N)
    assert scored(run) == {("b", i): v for i, v in enumerate(quality("b").tolist()) if i != 4}


def test_columns_of_parquet_are_read_as_those_of_a_corpus(tmp_path):
    """Decimals, ids in bytes, and two columns of one name."""
    write(tmp_path / "t.jsonl", rows_of("b"))
    write(tmp_path / "documents/b.jsonl", rows_of("b"))
    ids = pa.array([each["id"].encode() for each in rows_of("b")])
    numbers = pa.array(quality("b")).cast(pa.decimal128(9, 1))
    names = ["id", "quality", "quality"]
    (tmp_path / "side").mkdir()
    table = pa.Table.from_arrays([ids, numbers, pa.nulls(N)], names)
    pq.write_table(table, tmp_path / "side/b.parquet")
    run = select(tmp_path, method="field:quality", segments=N)
    assert scored(run) == {("b", i): v for i, v in enumerate(quality("b").tolist())}


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def arrays(kind, planted):
    file = io.BytesIO()
    if kind == "npz":
        np.savez(file, side=np.zeros(N))
    elif kind == "objects":
        np.save(file, np.array([planted] * N, object), allow_pickle=True)
    elif kind == "pickle":
        pickle.dump(planted, file)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["empty", "npz", "objects", "pickle"])
def test_a_file_that_is_no_array_of_numbers_is_refused_and_not_unpickled(tmp_path, kind):
    write(tmp_path / "t.jsonl", rows_of("b"))
    write(tmp_path / "documents/b.jsonl", rows_of("b"))
    (tmp_path / "side").mkdir()
    (tmp_path / "side/b.npy").write_bytes(arrays(kind, Planted(tmp_path / "planted")))
    with pytest.raises(InputError, match=r"b\.npy cannot be read"):
        select(tmp_path, method="field:side")
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("of_corpus", [int, float])
def test_ids_of_other_types_are_the_same_ids(tmp_path, of_corpus):
    rows = [{**r, "id": of_corpus(n)} for n, r in enumerate(rows_of("b"))]
    write(tmp_path / "t.jsonl", rows)
    write(tmp_path / "documents/b.parquet", rows)
    side = [{"id": str(n), "quality": v} for n, v in enumerate(quality("b").tolist())]
    write(tmp_path / "side/b.jsonl", side[::-1])
    run = select(tmp_path, method="field:quality", segments=N)
    assert scored(run) == {("b", i): v for i, v in enumerate(quality("b").tolist())}


def keyed(key, *, order=1):
    """Rows of a corpus file, and of a side file in this order, with ids in a field `key`."""
    rows = [{"text": r["text"], key: r["id"], "old": n % 5} for n, r in enumerate(rows_of("b"))]
    both = zip(rows, quality("b").tolist(), strict=True)
    return rows, [{**r, "quality": v} for r, v in both][::order]


def joined(home, side, rows, suffixes=(".parquet", ".parquet"), **options):
    write(home / "t.jsonl", [row(i) for i in range(500, 530)])
    write(home / f"documents/b{suffixes[0]}", rows)
    write(home / f"side/b{suffixes[1]}", side)
    options = {"method": "field:quality", "segments": N, **options}
    return select(home, **options)


BY_KEY = (*SMALL, "read.id_field=doc_id")
VALUES = {("b", i): v for i, v in enumerate(quality("b").tolist())}
FORMS = [
    (".parquet", ".parquet"),
    (".jsonl", ".jsonl"),
    (".jsonl.gz", ".parquet"),
    (".csv", ".jsonl"),
]


@pytest.mark.parametrize("suffixes", FORMS)
def test_a_shuffled_side_file_is_never_joined_by_row_number(tmp_path, suffixes):
    rows, side = keyed("doc_id", order=-1)
    with pytest.raises(InputError, match=r"'doc_id'.*row 0 .*`read\.id_field=doc_id`"):
        joined(tmp_path, side, rows, suffixes)
    run = joined(tmp_path, side, rows, suffixes, settings=BY_KEY)  # as the error says
    assert scored(run) == VALUES
    assert all(r["id"] == rows[r["row"]]["doc_id"] for r in run)
    assert [each[2] for each in run.manifest["corpus"][0]["scores"]] == ["doc_id"]


@pytest.mark.parametrize("suffixes", FORMS)
def test_columns_that_agree_by_row_are_joined_by_row_number(tmp_path, suffixes):
    rows, side = keyed("doc_id")
    run = joined(tmp_path, side, rows, suffixes)
    assert scored(run) == VALUES
    assert [each[2] for each in run.manifest["corpus"][0]["scores"]] == [""]
    side[50]["old"] += 1  # in a late shard; its values are no ids
    with pytest.raises(InputError, match=r"'old'.*row 50 differs\. Leave"):
        joined(tmp_path, side, rows, suffixes, overwrite=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_named_field_of_ids_joins_with_any_number_of_workers_and_resumes(tmp_path, workers):
    rows, side = keyed("doc_id", order=-1)
    ids = [{**r, "doc_id": n} for n, r in enumerate(rows)]
    side = [{**r, "doc_id": str(N - 1 - n).encode()} for n, r in enumerate(side)]
    options = {"workers": workers, "engine": "local", "settings": BY_KEY}
    options |= {"balance": "field:old", "quota": "even", "keep": "old"}
    with pytest.raises(InputError, match=r"'old' is in .*side\.old"):
        joined(tmp_path, side, ids, **options)
    side = [{"doc_id": r["doc_id"], "quality": r["quality"]} for r in side]
    run = joined(tmp_path, side, ids, **options)
    assert scored(run) == VALUES
    assert all(r["old"] == r["row"] % 5 for r in run)
    assert scored(select(tmp_path, method="field:quality", **{**options, "segments": N})) == VALUES
    assert len(corpusfit.choose(run, segments=3, engine="inline")) == 3


def test_ids_that_both_files_have_are_named_without_the_folder(tmp_path):
    rows, side = keyed("doc_id", order=-1)
    settings = (*SMALL, "read.id_field=side.doc_id")
    with pytest.raises(UsageError, match=r"`read\.id_field=doc_id`"):
        joined(tmp_path, side, rows, settings=settings)
    rows, side = ([{**r, "m": {"id": r.pop("doc_id")}} for r in each] for each in (rows, side))
    settings = (*SMALL, "read.id_field=m.id")
    with pytest.raises(UsageError, match="column 'id'"):
        joined(tmp_path, side, rows, settings=settings)
    side = [{**r, "id": r["m"]["id"]} for r in side]
    assert scored(joined(tmp_path, side, rows, settings=settings)) == VALUES


@pytest.mark.parametrize("both", [False, True])
def test_ids_of_a_side_file_may_be_called_id(tmp_path, both):
    rows, side = keyed("doc_id", order=-1)
    side = [{"id": r["doc_id"], "quality": r["quality"]} for r in side]
    if both:  # they share `id`
        rows = [{**r, "id": r["doc_id"], "doc_id": f"u{n}"} for n, r in enumerate(rows)]
    run = joined(tmp_path, side, rows, settings=BY_KEY)
    assert scored(run) == VALUES
    assert {r["id"] for r in run} == {r["doc_id"] for r in rows}
    named = run.manifest["corpus"][0]["scores"][0][2]
    assert named == ("id" if both else "doc_id")


def test_an_id_that_only_a_side_file_has_is_a_field(tmp_path):
    rows, side = keyed("doc_id")
    rows = [{"text": r["text"]} for r in rows]
    run = joined(tmp_path, side, rows, settings=BY_KEY)
    assert scored(run) == VALUES
    assert {r["id"] for r in run} == {r["doc_id"] for r in side}


def test_a_named_id_twice_is_refused_in_another_order_only(tmp_path):
    rows, side = keyed("doc_id")
    for each in (*rows, *side):
        each["doc_id"] = f"d{int(each['doc_id'][1:]) // 2}"
    assert scored(joined(tmp_path, side, rows, settings=BY_KEY)) == VALUES
    with pytest.raises(InputError, match=r"doc_id 'd[0-9]+' twice"):
        joined(tmp_path, side[::-1], rows, settings=BY_KEY, overwrite=True)


@pytest.mark.parametrize("place", ["side/pool.zip/pool", "side/pool", "side", "side/q/pool"])
def test_files_of_an_archive_have_side_files_as_those_of_a_folder(tmp_path, place):
    write(tmp_path / "t.jsonl", [row(i) for i in range(500, 530)])
    with zipfile.ZipFile(tmp_path / "pool.zip", "w") as archive:
        archive.writestr("pool/b.jsonl", lines(rows_of("b")))
    options = {"corpus": str(tmp_path / "pool.zip"), "method": "field:quality", "segments": N}
    write(tmp_path / "side/else.parquet", by_id("b"))
    with pytest.raises(InputError, match="in the archive"):
        select(tmp_path, **options)
    write(tmp_path / place / "b.parquet", by_id("b", order=-1))
    run = select(tmp_path, **options)
    assert {r["row"]: r["score"] for r in run} == dict(enumerate(quality("b").tolist()))
