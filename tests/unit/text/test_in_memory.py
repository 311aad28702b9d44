"""Data in memory becomes one file of the same rows, whatever holds it."""

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pytest

import corpusfit
from corpusfit.cli.options import Name
from corpusfit.core.errors import UsageError
from corpusfit.core.manifest import Finished
from corpusfit.core.plan import ReadPlan
from corpusfit.text import documents, find, shards
from corpusfit.text.in_memory import inputs, listed

TEXTS = ["The first text.", 'A "second" one,\nof two lines.', "Ein drittes: Übung 🙂"]
ROWS = [{"text": text, "n": n} for n, text in enumerate(TEXTS)]


@pytest.fixture
def machine(tmp_path):
    return corpusfit.Machine(cache=tmp_path)


def read(name):
    return [orjson.loads(line) for line in Path(name).read_bytes().splitlines()]


def texts_in_many_forms():
    datasets = pytest.importorskip("datasets")
    large, view = (pa.array(TEXTS, kind) for kind in (pa.large_string(), pa.string_view()))
    return {
        "list": TEXTS,
        "tuple": tuple(TEXTS),
        "iterator": iter(TEXTS),
        "numpy": np.array(TEXTS),
        "series": pd.Series(TEXTS),
        "array": pa.array(TEXTS),
        "large": large,
        "view": view,
        "chunked": pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
        "sliced": pa.array(["not this", *TEXTS]).slice(1),
        "frame": pd.DataFrame({"text": TEXTS}),
        "table": pa.table({"text": TEXTS}),
        "reader": pa.table({"text": TEXTS}).to_reader(),
        "dataset": datasets.Dataset.from_dict({"text": TEXTS}),
        "stream": datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(),
    }


def test_the_same_texts_are_the_same_file_in_every_form(machine):
    found = {
        name: inputs(given, "target", machine) for name, given in texts_in_many_forms().items()
    }

    assert {tuple(names) for names in found.values()} == {tuple(found["list"])}
    assert read(found["list"][0]) == [{"text": text} for text in TEXTS]


def test_data_that_is_used_again_is_not_old(machine):
    (name,) = inputs(TEXTS, "target", machine)
    os.utime(name, (0, 0))
    assert inputs(TEXTS, "target", machine) == [name]
    assert Path(name).stat().st_mtime > 0


def test_other_texts_are_another_file(machine):
    assert inputs(TEXTS, "target", machine) != inputs(TEXTS[:2], "target", machine)


def test_rows_keep_all_their_fields(machine):
    for given in (ROWS, pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS)):
        assert read(inputs(given, "corpus", machine)[0]) == ROWS


def test_texts_stand_in_the_field_that_the_command_reads(machine):
    assert read(inputs(TEXTS, "corpus", machine, "body")[0])[0] == {"body": TEXTS[0]}


def test_a_missing_text_is_null_which_the_reader_rejects(machine):
    frame = pd.DataFrame({"text": ["A text.", None], "n": [1.5, float("nan")]})

    assert read(inputs(frame, "corpus", machine)[0]) == [
        {"text": "A text.", "n": 1.5},
        {"text": None, "n": None},
    ]


def test_arrays_and_dates_in_other_columns_cost_no_row(machine):
    frame = pd.DataFrame({"text": TEXTS[:1], "day": [pd.Timestamp("2026-01-02")]})
    frame["tags"] = [np.array(["a", "b"], object)]
    frame["score"] = [np.float32(0.5)]
    (row,) = read(inputs(frame, "corpus", machine)[0])
    assert (row["text"], row["tags"], row["score"]) == (TEXTS[0], ["a", "b"], 0.5)
    assert row["day"].startswith("2026-01-02")


def test_a_mapping_gives_sources_by_name(machine):
    (folder,) = inputs({"bio": TEXTS[:1], "news/2024": ROWS[1:]}, "corpus", machine)

    found = {file.name: read(file) for file in Path(folder).iterdir()}
    assert found == {"bio.jsonl": [{"text": TEXTS[0]}], "news%2F2024.jsonl": ROWS[1:]}


def test_names_of_a_mapping_may_be_any(machine):
    names = inputs({"_news": TEXTS, ".x": TEXTS, "md5": TEXTS, "a": TEXTS}, "corpus", machine)
    sources = find(names, ReadPlan(), role="corpus")
    assert [s.name for s in sources] == [".x.jsonl", "_news.jsonl", "a.jsonl", "md5.jsonl"]


def test_the_splits_of_a_dataset_are_a_task_with_the_names_of_labels(machine):
    datasets = pytest.importorskip("datasets")
    labels = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    split = datasets.Dataset.from_dict({"text": TEXTS, "label": [1, 0, -1]}, labels)
    task = datasets.DatasetDict({"train": split, "validation": split})

    (folder,) = inputs(task, "task", machine)

    assert {file.name for file in Path(folder).iterdir()} == {"train.jsonl", "validation.jsonl"}
    found = [row["label"] for row in read(Path(folder) / "train.jsonl")]
    assert found == ["yes", "no", None]  # -1 is the number of no label


@pytest.mark.parametrize(
    "given",
    [
        "no such file.jsonl",
        ["no-such-file.jsonl", "pile/"],
        ["no such file.jsonl", "pair:a b.de,a b.en"],
        [Path("a b.jsonl")],
        [],
    ],
)
def test_names_stay_names(machine, given):
    expected = [given] if isinstance(given, str) else list(map(str, given))
    assert inputs(given, "corpus", machine) == expected


@pytest.mark.parametrize("text", ["蛋白质与受体结合在细胞中。", "enzyme"])
def test_many_texts_without_white_space_are_texts(machine, text):
    many = [f"{text}{n}" for n in range(10)]
    (name,) = inputs(many, "target", machine)
    assert read(name) == [{"text": each} for each in many]


@pytest.mark.parametrize(
    "text",
    [
        "What is enzyme number {}?",
        "However, << topiramate >> {} blocks [[ GluR5 ]].",
        "See https://a.org/x for number {}",
        "Read the file number {} in data.txt",
        "hub: the center of number {}",
        f"{{}} {'A long text. ' * 100}*",
    ],
)
def test_texts_that_look_like_names_are_texts(machine, text, tmp_path, monkeypatch):
    """Questions look like patterns, and one text may by chance be called as a file is."""
    monkeypatch.chdir(tmp_path)
    Path("yes").touch()
    many = [text.format(n) for n in range(10)] + ["yes"]
    (name,) = inputs(many, "target", machine)
    assert read(name) == [{"text": each} for each in many]


def test_many_urls_with_spaces_are_names(machine):
    urls = [f"s3://bucket/part {n}.jsonl" for n in range(10)]
    assert inputs(urls, "corpus", machine) == urls


@pytest.mark.parametrize(
    "given",
    [
        ["kinase", "protein"],
        "A sentence in no list.",
        "Is this << a >> [[ name ]]?",
        "很" * 100,
    ],
)
def test_strings_that_name_nothing_are_refused_with_the_form_for_texts(machine, given):
    with pytest.raises(UsageError, match=r"`target` must be names .*or texts; got .*list of dicts"):
        inputs(given, "target", machine)


def test_folders_are_names_whatever_they_are_called(machine):
    assert listed(["no such folder", "another"]) == ["no such folder", "another"]
    assert listed("one folder") == ["one folder"]


def test_a_list_with_one_existing_file_holds_names(machine, tmp_path):
    there = tmp_path / "a file"
    there.touch()
    assert inputs([str(there), "mistyped name"], "corpus", machine) == [str(there), "mistyped name"]


def test_a_finished_run_stands_for_its_folder(machine):
    runs = [Finished(Path("a"), {}), Finished(Path("b"), {})]
    assert inputs(runs[0], "data", machine) == ["a"]
    assert inputs(runs, "data", machine) == ["a", "b"]


def test_on_the_command_line_strings_are_names(tmp_path):
    machine = corpusfit.Machine(cache=tmp_path)
    assert inputs([Name("two words")], "target", machine) == ["two words"]


@pytest.mark.parametrize(
    "given",
    [
        [1, 2],
        [b"bytes"],
        {"text": TEXTS},
        {"text": np.array(TEXTS), "label": np.array(["sport", "news"])},
        dict(pd.DataFrame({"text": TEXTS, "label": TEXTS})),
        [["a", "list"]],
    ],
)
def test_what_is_no_text_is_refused(machine, given):
    with pytest.raises(UsageError):
        inputs(given, "target", machine)


def test_half_a_character_costs_a_row_only_in_its_text(machine):
    rows = [
        {"text": "half of a \ud83d pair"},
        {"text": "A text.", "title": "cut \ud83d", "n": 1e99},
    ]
    (name,) = inputs(rows, "corpus", machine)
    plan = ReadPlan()
    (shard,) = shards(find([name], plan, role="corpus"), plan)
    used, rejected = documents(shard, plan)
    assert used.texts.to_pylist() == ["A text."]
    assert [reject.row for reject in rejected] == [0]


def test_a_data_frame_and_a_column_of_polars(machine):
    polars = pytest.importorskip("polars")
    assert read(inputs(polars.DataFrame(ROWS), "corpus", machine)[0]) == ROWS
    texts = [{"text": text} for text in TEXTS]
    assert read(inputs(polars.Series(TEXTS), "corpus", machine)[0]) == texts
    missing = polars.DataFrame({"text": [TEXTS[0], None]})
    assert read(inputs(missing, "corpus", machine)[0])[1] == {"text": None}


@pytest.mark.parametrize(
    ("value", "read_as"),
    [(2**70, str(2**70)), (pd.NaT, None), (np.float32(0.1), 0.1), (Decimal("1.50"), "1.50")],
)
def test_values_of_a_frame_that_json_lacks(machine, value, read_as):
    assert read(inputs(pd.DataFrame({"n": [value]}), "corpus", machine, "n")[0]) == [{"n": read_as}]


def test_values_of_a_narrow_column_have_no_digits_of_a_wide_one(machine):
    frame = pd.DataFrame({"n": np.array([0.1], np.float32)})
    assert read(inputs(frame, "corpus", machine, "n")[0]) == [{"n": 0.1}]


def test_of_columns_of_a_frame_with_one_name_the_first_counts(machine):
    frame = pd.DataFrame([["first", "second"]], columns=["text", "text"])
    assert read(inputs(frame, "corpus", machine)[0]) == [{"text": "first"}]


@pytest.mark.parametrize("index", ["text", "n", "day", ["n", "text"], ["id", "n"], None])
def test_an_index_of_a_frame_is_as_in_its_parquet_file(machine, tmp_path, index):
    days = pd.to_datetime(["2024-01-02", None, "2024-01-02T03:04:05Z"], utc=True, format="ISO8601")
    frame = pd.DataFrame(ROWS).assign(n=[7, 3, 9], id=["a", None, "c"], day=days)
    frame = frame if index is None else frame.set_index(index)
    frame.to_parquet(tmp_path / "frame.parquet")
    words = {"target": TEXTS, "method": "random", "segments": 3, "engine": "inline"}
    rows = []
    for name, corpus in (("frame", frame), ("file", tmp_path / "frame.parquet")):
        run = corpusfit.select(corpus=corpus, out=tmp_path / name, **words, keep="n,day")
        own = {"source", "row", "score"}
        found = [{k: v for k, v in row.items() if k not in own} for row in run]
        rows.append(sorted(found, key=lambda row: row["text"]))
    assert rows[0] == rows[1]


def test_an_index_without_a_name_or_with_that_of_a_column_adds_nothing(machine):
    frame = pd.DataFrame(ROWS, index=[7, 8, 9])
    for given in (frame, frame.set_index("text", drop=False)):
        assert read(inputs(given, "corpus", machine)[0]) == ROWS


def test_lazy_frames_and_whatever_else_streams_tables(machine):
    class Relation:
        """Any table that offers Arrow's C stream and nothing else, as a relation of DuckDB."""

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.Table.from_pylist(ROWS).__arrow_c_stream__(requested_schema)

    assert read(inputs(Relation(), "corpus", machine)[0]) == ROWS
    polars = pytest.importorskip("polars")
    lazy = polars.DataFrame(ROWS).lazy().filter(polars.col("n") > 0)
    assert read(inputs(lazy, "corpus", machine)[0]) == ROWS[1:]


@pytest.mark.parametrize("given", [object(), 5, 0.5])
def test_what_has_no_rows_is_refused(machine, given):
    with pytest.raises(UsageError, match="names of inputs, texts, dicts, a data frame"):
        inputs(given, "corpus", machine)
