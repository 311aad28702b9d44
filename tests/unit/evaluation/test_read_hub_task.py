"""Tasks from Hugging Face datasets, with a local folder in place of the hub."""

import json

import pytest

from corpusfit.core.errors import InputError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task

pytest.importorskip("datasets", reason="the extra hub is not installed")
pytestmark = pytest.mark.usefixtures("offline")


def rows(name, n):
    texts = ({"sentence": f"{name} {i}", "label": i % 3, "idx": i} for i in range(n))
    return "".join(json.dumps(row) + "\n" for row in texts)


def read(place):
    return read_task(place, TaskPlan(text_field="sentence"), seed=0)


def test_splits_by_their_names(write):
    write("train.jsonl", rows("train", 12))
    write("validation.jsonl", rows("validation", 5))
    folder = write("test.jsonl", rows("test", 4))
    task = read(f"hub:{folder}")
    assert [len(task.train), len(task.dev), len(task.test)] == [12, 5, 4]
    assert task.labels == ("0", "1", "2")
    assert task.dev.pieces[4] == ["validation 4"]
    assert task.dev.flat.tolist() == [0, 1, 2, 0, 1]
    assert task.notes == ()


def test_a_single_split_is_divided(write):
    folder = write("train.jsonl", rows("train", 20))
    task = read(f"hub:{folder}@train")
    assert [len(task.train), len(task.dev), len(task.test)] == [14, 2, 4]


def test_no_train_split(write):
    folder = write("test.jsonl", rows("test", 20))
    with pytest.raises(InputError, match=r"^`task\b.*train, dev and test.* has test\b"):
        read(f"hub:{folder}")


def test_unreachable():
    with pytest.raises(InputError, match=r"^`task\b.*'nobody/nothing'"):
        read("hub:nobody/nothing")
