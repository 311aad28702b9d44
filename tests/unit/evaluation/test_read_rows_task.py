"""Classification tasks: every format, missing splits, labels, and errors."""

import csv
import gzip
import io
import json
import random
import re
import subprocess
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import nested_places

ROWS = [(f'a text, number {i}\nwith "two" lines', "ab"[i % 2]) for i in range(10)]


def jsonl(rows, text="text", label="label"):
    return "".join(json.dumps({text: t, label: n}) + "\n" for t, n in rows)


def separated(rows, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([("text", "label"), *rows])
    return out.getvalue()


def parquet(rows):
    table = pa.table({"text": [t for t, _ in rows], "label": [n for _, n in rows]})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def read(place, seed=0, **settings):
    return read_task(str(place), TaskPlan(**settings), seed=seed)


def pairs(task, split):
    examples = getattr(task, split)
    return [
        (t, task.labels[n]) for (t,), (n,) in zip(examples.pieces, examples.labels, strict=True)
    ]


def three(write, rows=ROWS, suffix="jsonl", encode=jsonl):
    for name, part in (("train", rows[:6]), ("dev", rows[6:8]), ("test", rows[8:])):
        folder = write(f"{name}.{suffix}", encode(part))
    return folder


@pytest.mark.parametrize(
    ("suffix", "encode"),
    [
        ("jsonl", jsonl),
        ("jsonl.zst", lambda rows: zstandard.compress(jsonl(rows).encode())),
        ("jsonl.gz", lambda rows: gzip.compress(jsonl(rows).encode())),
        ("csv", lambda rows: separated(rows, ",")),
        ("tsv", lambda rows: separated(rows, "\t")),
        ("parquet", parquet),
    ],
)
def test_every_format_gives_the_rows_back(write, suffix, encode):
    task = read(three(write, suffix=suffix, encode=encode))
    assert (task.name, task.kind, task.labels) == ("task", "classification", ("a", "b"))
    assert task.learnable == 2
    assert [pairs(task, s) for s in ("train", "dev", "test")] == [ROWS[:6], ROWS[6:8], ROWS[8:]]
    assert task.notes == ()


@pytest.mark.parametrize("name", ["dev", "valid", "validation", "val", "devel", "Dev"])
def test_names_of_the_dev_split(write, name):
    write("train.jsonl", jsonl(ROWS[:6]))
    write(f"{name}.csv", separated(ROWS[6:8], ","))
    write("README.md", "not a split")
    write("train_dev.jsonl", jsonl(ROWS))
    task = read(write("test.jsonl", jsonl(ROWS[8:])))
    assert (pairs(task, "dev"), len(task.train)) == (ROWS[6:8], 6)


def test_folders_and_parts_of_a_split(write):
    write("train/a.jsonl", jsonl(ROWS[:3]))
    write("train/b.jsonl", jsonl(ROWS[3:6]))
    write("train/README.txt", "Not one of the texts.")
    write("dev/.hidden.jsonl", jsonl(ROWS))
    write("dev/all.jsonl", jsonl(ROWS[6:8]))
    write("test-00000-of-00002.parquet", parquet(ROWS[8:9]))
    task = read(write("test-00001-of-00002.parquet", parquet(ROWS[9:])))
    assert [pairs(task, s) for s in ("train", "dev", "test")] == [ROWS[:6], ROWS[6:8], ROWS[8:]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([10, 9, 2], ("2", "9", "10")),
        (["10", "-1.5", "2"], ("-1.5", "2", "10")),
        ([True, False, True], ("False", "True")),
        (["10", "9", "x"], ("10", "9", "x")),
    ],
)
@pytest.mark.parametrize(("suffix", "encode"), [("jsonl", jsonl), ("parquet", parquet)])
def test_labels_are_words_in_order(write, labels, expected, suffix, encode):
    rows = [(f"text {i}", n) for i, n in enumerate(labels * 2)]
    task = read(three(write, rows=rows[:6] + rows[:4], suffix=suffix, encode=encode))
    assert task.labels == expected
    assert pairs(task, "train") == [(t, str(n)) for t, n in rows]


def test_labels_missing_from_train_come_last(write):
    write("train.jsonl", jsonl([("a", "y"), ("b", "x"), ("c", "y")]))
    write("dev.jsonl", jsonl([("d", "x"), ("e", "q")]))
    folder = write("test.jsonl", jsonl([("f", "a"), ("g", "q"), ("h", "x"), ("i", "a")]))
    task = read(folder)
    assert (task.labels, task.learnable) == (("x", "y", "a", "q"), 2)
    dev, test = task.notes
    assert dev.startswith("dev has a label")
    assert "'q' (1 of 2 examples)" in dev
    assert test.startswith("test has 2 labels")
    assert "'a', 'q' (3 of 4 examples)" in test
    assert task.test.flat.tolist() == [2, 3, 0, 2]


def test_other_fields(write):
    write("train.jsonl", jsonl(ROWS, text="sentence", label="gold"))
    folder = write("test.jsonl", jsonl(ROWS, text="sentence", label="gold"))
    assert len(read(folder, text_field="sentence", label_field="gold").test) == 10
    with pytest.raises(
        EmptyInputError,
        match=r"train split .*sentence, gold.*with `task\.text_field.*and `task\.label_field",
    ):
        read(folder)
    with pytest.raises(EmptyInputError, match=r"'label'.*sentence, gold"):
        read(folder, text_field="sentence")


def test_skipped_rows_are_counted(write):
    bad = [("", "a"), ("fine", None), ("fine", 1.5), ("fine", ["a"]), ("fine", " "), (None, "a")]
    write("train.jsonl", jsonl(ROWS + bad) + "\n{broken\n")
    folder = write("test.jsonl", jsonl([("fine", None), *ROWS]))
    task = read(folder)
    train, test = task.notes[:2]
    assert train.startswith("7 of 17 rows of train")
    assert "row 10" in train
    assert test.startswith("1 of 11 rows of test")
    assert "row 0 has no label in 'label'" in test
    assert len(task.test) == 10


def test_an_empty_split(write):
    write("train.jsonl", jsonl(ROWS))
    with pytest.raises(EmptyInputError, match=r"test split of `task` must"):
        read(write("test.jsonl", ""))


def test_missing_splits_are_taken_from_train(write):
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(100)]
    folder = write("train.jsonl", jsonl(rows))
    task = read(folder, seed=3)
    assert [len(task.train), len(task.dev), len(task.test)] == [70, 10, 20]
    for note, split, size in zip(task.notes, ("test", "dev"), (20, 10), strict=True):
        assert note.startswith(f"No {split} split: {size} of 100")
        assert "seed 3" in note
    parts = [pairs(task, s) for s in ("train", "dev", "test")]
    assert sorted(chain(*parts), key=rows.index) == rows
    assert all(part == sorted(part, key=rows.index) for part in parts)
    assert parts != [rows[:70], rows[70:80], rows[80:]]
    again, other = read(folder, seed=3), read(folder, seed=4)
    assert pairs(again, "test") == parts[2] != pairs(other, "test")
    write("test.jsonl", jsonl(rows[:5]))
    task = read(folder, dev_share=0.25)
    assert [len(task.train), len(task.dev), len(task.test)] == [75, 25, 5]


def test_a_single_file(write):
    folder = write("reviews.csv.gz", gzip.compress(separated(ROWS, ",").encode()))
    task = read(folder / "reviews.csv.gz")
    assert task.name == "reviews"
    assert [len(task.train), len(task.dev), len(task.test)] == [7, 1, 2]


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_size_limits_a_split(write, split):
    for name in ("train", "dev", "test"):
        folder = write(f"{name}.jsonl", jsonl(ROWS))
    task = read(folder, seed=1, **{f"{split}_size": 4})
    assert pairs(task, split) == [ROWS[i] for i in nested_places(10, 4, 1)]
    assert len(task.train) + len(task.dev) + len(task.test) == 24
    assert len(task.notes) == 1
    assert task.notes[0].startswith(f"4 of 10 {split} examples")
    assert len(getattr(read(folder, **{f"{split}_size": 10}), split)) == 10


def test_one_class_only(write):
    write("test.jsonl", jsonl(ROWS))
    write("dev.jsonl", jsonl(ROWS))
    folder = write("train.jsonl", jsonl([(t, "a") for t, _ in ROWS]))
    with pytest.raises(InputError, match=r"^`task\b.*train.* 10 .*'a'"):
        read(folder)


def test_no_train(write):
    with pytest.raises(InputError, match=r"^`task\b.*train.*test\.jsonl\."):
        read(write("test.jsonl", jsonl(ROWS)))


def test_too_few_examples_for_all_splits(write):
    with pytest.raises(InputError, match=r"^`task\b.*test and dev.* 2, .* 2\."):
        read(write("train.jsonl", jsonl(ROWS[:2])))


def test_two_files_for_a_split(write):
    write("train.jsonl", jsonl(ROWS))
    with pytest.raises(InputError, match=r"^`task\b.* train; .*train.csv, train.jsonl"):
        read(write("train.csv", separated(ROWS, ",")))


def test_splits_in_two_formats(write):
    write("train.jsonl", jsonl(ROWS))
    with pytest.raises(InputError, match=r"^`task\b.*train: rows; test: conll"):
        read(write("test.conll", "a O\n"))


def test_a_folder_without_a_readable_file(write):
    with pytest.raises(InputError, match=r"^`task\b.*train has none"):
        read(write("train/notes.md", "x"))


def test_no_such_place(tmp_path):
    with pytest.raises(InputError, match=r"^`task\b.*nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"^`task\b.*'s3://bucket/task'"):
        read("s3://bucket/task")


def test_an_unknown_suffix(write):
    with pytest.raises(InputError, match=r"^`task\b.*\.jsonl.*task\.xml"):
        read(write("task.xml", "<x/>") / "task.xml")


def test_the_wrong_kind(write):
    with pytest.raises(UsageError, match=r"task.kind.*classification.*'tagging'"):
        read(three(write), kind="tagging")


@pytest.mark.parametrize("share", [0.01, 0.9])
def test_a_truncated_archive_is_an_error(write, share):
    rows = [(random.Random(i).randbytes(500).hex(), "ab"[i % 2]) for i in range(1000)]
    whole = zstandard.compress(jsonl(rows).encode())
    folder = write("train.jsonl.zst", whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=r"train\.jsonl\.zst.*truncated \.zst"):
        read(folder)


def test_a_broken_parquet_file(write):
    with pytest.raises(InputError, match=r"train\.parquet.*unreadable parquet"):
        read(write("train.parquet", b"PAR1 and no more"))


MULTI_HOT = [[1, 0, 1], [0, 0, 0], [0, 1, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]]
SETS = [{"0", "2"}, set(), {"1", "2"}, {"1"}, {"0"}, {"0", "1", "2"}]


def lists(folder, write_as, splits=("train", "dev", "test"), labels=MULTI_HOT):
    for split in splits:
        for suffix, encode in write_as.items():
            (folder / f"{split}.{suffix}").write_bytes(encode(labels))
    return folder


def labels_of(task, split="train"):
    return [{task.labels[i] for i in np.flatnonzero(own)} for own in getattr(task, split).labels]


def json_rows(labels, turn=lambda v: v):
    rows = ({"text": f"text {i}", "label": list(map(turn, own))} for i, own in enumerate(labels))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def csv_rows(labels, spell=json.dumps):
    return separated([(f"text {i}", spell(own)) for i, own in enumerate(labels)], ",").encode()


@pytest.mark.parametrize(
    ("suffix", "encode"),
    [
        ("jsonl", json_rows),
        ("jsonl", lambda labels: json_rows(labels, bool)),
        ("jsonl", lambda labels: json_rows(labels, float)),
        ("jsonl", lambda labels: json_rows(labels, str)),
        ("csv", csv_rows),
        ("csv", lambda labels: csv_rows(labels, lambda own: str(list(map(bool, own))))),
        ("parquet", lambda labels: parquet([(f"text {i}", o) for i, o in enumerate(labels)])),
    ],
)
def test_lists_of_zeros_and_ones_are_multi_hot(tmp_path, suffix, encode):
    task = read(lists(tmp_path, {suffix: encode}))
    assert task.kind == "multilabel"
    assert task.labels == ("0", "1", "2")
    assert [labels_of(task, split) for split in ("train", "dev", "test")] == [SETS] * 3
    assert sum("3 classes" in note for note in task.notes) == 1


def test_the_classes_of_multi_hot_lists_have_names(tmp_path):
    folder = lists(tmp_path, {"jsonl": json_rows})
    task = read(folder, label_names="toxic, insult, threat")
    assert labels_of(task)[0] == {"toxic", "threat"}
    with pytest.raises(UsageError, match=r"label_names"):
        read(folder, label_names="toxic,insult")


@pytest.mark.parametrize(
    "labels",
    [[[2, 5], [5], []], [[0], [1], [0]], [[0, 1], [1], [0]], [[0, 2], [1, 2], [2, 0]]],
)
def test_other_lists_of_numbers_are_class_numbers(tmp_path, labels):
    task = read(lists(tmp_path, {"jsonl": json_rows}, labels=labels))
    assert labels_of(task) == [set(map(str, own)) for own in labels]
    assert any("numbers of classes" in note for note in task.notes)


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        (["['joy' 'love']", "['joy']", "['anger']"], [{"joy", "love"}, {"joy"}, {"anger"}]),
        (["[2 5]", "[7]", "[2]"], [{"2", "5"}, {"7"}, {"2"}]),
        (["{'x', 'y'}", "{'y', 'x'}", "set()"], [{"x", "y"}, {"x", "y"}, set()]),
        (["('x', 'y')", "('x',)", "()"], [{"x", "y"}, {"x"}, set()]),
        (["['x', 'y']", "x", "['y']"], [{"x", "y"}, {"x"}, {"y"}]),
        (['["x ", " y"]', '["x", "y"]', '["e\u0301"]'], [{"x", "y"}, {"x", "y"}, {"é"}]),
    ],
)
def test_lists_as_pandas_and_python_spell_them(tmp_path, spelled, expected):
    """Of arrays of numpy, which have no commas, Python would join the strings."""
    task = read(lists(tmp_path, {"csv": lambda own: csv_rows(own, str)}, labels=spelled))
    assert task.kind == "multilabel"
    assert labels_of(task) == expected


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    ("values", "kind"), [([[1], ["x"], ["x", "y"]], "multilabel"), ([1.5, 2, 3], "regression")]
)
def test_a_blank_label_is_a_missing_one(tmp_path, values, kind, blank):
    rows = [{"text": f"text {i}", "label": v} for i, v in enumerate([*values, blank])]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    task = read(tmp_path)
    assert (task.kind, len(task.train)) == (kind, 3)
    assert sum("1 of 4 rows" in note for note in task.notes) == 3


@pytest.mark.parametrize(
    ("suffix", "encode"), [("jsonl", jsonl), ("csv", lambda r: separated(r, ","))]
)
def test_white_space_and_the_form_of_accents_make_no_other_label(write, suffix, encode):
    rows = [("a", "pos"), ("b", "pos "), ("c", " caf\u00e9"), ("d", "cafe\u0301")]
    for split in ("train", "dev", "test"):
        folder = write(f"{split}.csv", separated(rows, ","))
    assert read(folder).labels == ("caf\u00e9", "pos")


@pytest.mark.parametrize("place", ["hub:", ""])
def test_numbers_of_a_class_label_have_its_names_and_minus_1_is_none(tmp_path, place):
    """SNLI has such rows in all splits: huggingface/datasets 296, 1963, 2275."""
    datasets = pytest.importorskip("datasets", reason="the extra hub is not installed")
    names = ["entailment", "neutral", "contradiction"]
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=names)
    )
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate([2, -1, 0, 1, -1])]
    for split in ("train", "validation", "test"):
        data = datasets.Dataset.from_list(rows, features=features)
        data.to_parquet(tmp_path / f"{split}.parquet")
    task = read(f"{place}{tmp_path}")
    assert task.labels == ("contradiction", "entailment", "neutral")
    assert [task.labels[n] for n in task.train.flat] == ["contradiction", "entailment", "neutral"]
    assert [note[:6] for note in task.notes] == ["2 of 5"] * 3


def test_label_names_are_those_of_numbers(write):
    for split in ("train", "dev", "test"):
        folder = write(f"{split}.csv", separated([("a", "0"), ("b", "1"), ("c", "-1")], ","))
    assert read(folder, label_names="neg, pos").labels == ("neg", "pos")
    assert read(folder).labels == ("-1", "0", "1")
    with pytest.raises(UsageError, match=r"label_names.*'1'"):
        read(folder, label_names="only")
    write("train.csv", separated([("a", "x"), ("b", "y")], ","))
    with pytest.raises(UsageError, match=r"label_names.*'x'"):
        read(folder, label_names="neg,pos")


@pytest.mark.parametrize(
    ("labels", "noted"), [(["1.5", "2.0"], True), (["1.0", "2.0"], True), (["1", "2"], False)]
)
def test_classes_that_look_like_decimals_are_noted(write, labels, noted):
    for split in ("train", "dev", "test"):
        folder = write(f"{split}.csv", separated([("a", labels[0]), ("b", labels[1])], ","))
    task = read(folder)
    assert task.kind == "classification"
    assert any("task.kind=regression" in note for note in task.notes) is noted


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1.0, 0.0], ("0", "1")),
        ([1.0, None, 0.0], ("0", "1")),
        ([1, 1.0, 0, 0.0, -1], ("-1", "0", "1")),
        ([1.0, 2.0, 3.0, 4.0, 5.0], ("1", "2", "3", "4", "5")),
    ],
)
def test_whole_numbers_in_few_values_are_classes_in_every_format(tmp_path, suffix, labels, names):
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(labels * 2)]
    for split in ("train", "dev", "test"):
        path = tmp_path / f"{split}.{suffix}"
        if suffix == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif suffix == "csv":
            cells = [("" if row["label"] is None else row["label"]) for row in rows]
            path.write_text(separated([(f"text {i}", c) for i, c in enumerate(cells)], ","))
        else:
            texts, values = ([row[name] for row in rows] for name in ("text", "label"))
            pq.write_table(pa.table({"text": texts, "label": pa.array(values, pa.float64())}), path)
    task = read(tmp_path)
    assert (task.kind, task.labels) == ("classification", names)
    assert sum("task.kind=regression" in note for note in task.notes) == 1
    assert read(tmp_path, kind="regression").kind == "regression"
    assert len(read(tmp_path, kind="classification").notes) == len(task.notes) - 1


@pytest.mark.parametrize("labels", [[1.5, 2.0], [float(i) for i in range(30)]])
def test_fractions_and_many_whole_decimals_are_amounts(tmp_path, labels):
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    task = read(tmp_path)
    assert task.kind == "regression"
    assert len(task.notes) == (len(labels) == 30)


@pytest.mark.parametrize(
    "labels",
    [
        [[0, 0, 1], [1, 0]],  # of two lengths
        [[0, 3, 0, 1], [1, 0, 0, 2]],  # counts
        [[True, False], [True]],
        [[1.0, 0.0], [1.0]],
    ],
)
def test_lists_that_are_neither_are_refused(tmp_path, labels):
    with pytest.raises(InputError, match=r"train has \["):
        read(lists(tmp_path, {"jsonl": json_rows}, labels=labels))


@pytest.mark.parametrize("odd", [[1, 0], [0, 1, 2], [1, 0, 0, 1]])
def test_a_split_of_other_lists_than_train_is_refused(tmp_path, odd):
    folder = lists(tmp_path, {"jsonl": json_rows})
    (folder / "test.jsonl").write_bytes(json_rows([*MULTI_HOT, odd]))
    with pytest.raises(InputError, match=r"of 3 .* test has \["):
        read(folder)


def test_a_text_in_several_strings_is_no_row_of_words(tmp_path):
    rows = [{"text": ["one part", "another"], "label": "ab"[i % 2]} for i in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = read(tmp_path)
    assert task.kind == "classification"
    assert task.train.pieces[0] == ["one part\nanother"]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("every", [1, 9])
def test_a_task_that_is_not_in_utf8_gets_a_cure_that_works(tmp_path, suffix, encoding, every):
    texts = [f"sales rose to {i} m" + "\u00a3" * (i % every == 0) for i in range(30)]
    data = separated([(text, "ab"[i % 2]) for i, text in enumerate(texts)], ",").encode(encoding)
    file = tmp_path / f"train.{suffix}"
    file.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    try:
        said = " ".join(read(tmp_path).notes)
    except InputError as e:
        said = str(e)
    assert str(file) in said
    command = re.search(r"(gzip|iconv) -.*?\.old && mv \S+ \S+\.csv", said)[0]
    subprocess.run(["sh", "-c", command], check=True)
    task = read(tmp_path)
    assert sorted(t for own in (task.train, task.dev, task.test) for (t,) in own.pieces) == sorted(
        texts
    )


@pytest.mark.parametrize("rows", [3, 1])
def test_a_file_that_ends_within_a_row_is_refused(write, rows):
    data = jsonl([*ROWS[:rows], ("cut off", "a")])
    folder = write("train.jsonl", data[: -len('label": "a"}')])
    write("test.jsonl", jsonl(ROWS))
    with pytest.raises(InputError, match=r"train\.jsonl ends within a row"):
        read(folder)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n", "git lfs pull"),
        ('<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "fetch it again"),
        ("<!DOCTYPE html>\n<html></html>\n", "fetch it again"),
    ],
)
def test_what_came_in_place_of_a_file_is_named(write, content, says):
    folder = three(write)
    write("test.jsonl", content)
    with pytest.raises(InputError, match=rf"test\.jsonl is .*{says}"):
        read(folder)


def test_rows_of_json_in_text_files_are_refused_with_a_cure_that_works(write):
    folder = three(write, suffix="txt")
    for _ in range(3):
        with pytest.raises(InputError) as caught:
            read(folder)
        command = re.search(r"mv \S+\.txt \S+\.jsonl", str(caught.value))[0]
        subprocess.run(["sh", "-c", command], check=True)
    assert pairs(read(folder), "test") == ROWS[8:]


def test_columns_that_are_not_in_utf8_get_the_same_cure(tmp_path):
    (tmp_path / "train.conll").write_bytes("caf\u00e9\tO\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"iconv -f WINDOWS-1252 .*train\.conll\.old"):
        read(tmp_path)


def test_a_split_without_a_label_of_train_is_refused_before_the_work(write):
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(10)]
    folder = three(write, rows[:8] + [(text, label.upper()) for text, label in rows[8:]])
    with pytest.raises(InputError, match=r"in test .*'A', 'B'"):
        read(folder)


def test_a_plain_text_task_of_lines_has_an_example_per_line(tmp_path):
    texts = [f"The short text number {n}." for n in range(40)]
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    task = read_task(str(tmp_path / "lines.txt"), TaskPlan(kind="language_modeling"), seed=0)
    assert [pieces[0] for pieces in task.test.pieces] == texts
    assert len(task.notes) == 1


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_field_of_a_template_that_no_row_has(write, suffix):
    """It is refused if no split has it, and noted of a split; of single rows it may be missing."""
    rows = [{"title": f"title {i}", "text": f"text {i}", "label": "ab"[i % 2]} for i in range(4)]

    def write_split(split, rows):
        if suffix == "jsonl":
            return write(f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        lines = [",".join(rows[-1]), *(",".join(row.values()) for row in rows)]
        return write(f"{split}.csv", "\n".join(lines))

    for split in ("train", "dev", "test"):
        folder = write_split(split, rows)
    with pytest.raises(UsageError, match=r"task\.text_field.*\{headline\} \{text\}.*'headline'"):
        read(folder, text_field="{headline} {text}")
    without = [{k: v for k, v in row.items() if k != "title"} for row in rows]
    write_split("test", without)
    task = read(folder, text_field="{title} {text}")
    assert [note for note in task.notes if "'title'" in note and "of test" in note]
    if suffix == "jsonl":
        write_split("test", [*without, rows[0]])
        assert not read(folder, text_field="{title} {text}").notes
