"""Datasets of the hub, their revisions and splits; a local server stands in for the hub."""

import pytest

from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.text import find, located
from fake_hub import Hub

pytest.importorskip("datasets", reason="the extra hub is not installed")
huggingface_hub = pytest.importorskip("huggingface_hub")


def sources(given):
    return find([given], ReadPlan(), role="corpus")


@pytest.fixture
def dataset(hub):
    """A dataset `me/chosen` with train and test."""
    line = '{"text": "row %d", "label": "%d"}\n'
    files = {
        f"{split}.jsonl": "".join(line % (i, i % 2) for i in range(rows)).encode()
        for split, rows in (("train", 20), ("test", 6))
    }
    hub["me/chosen"] = {"kind": "dataset", "private": False, "files": files}
    return hub


@pytest.mark.parametrize("place", ["/train.jsonl", "", "/*.jsonl", "@main/test.jsonl"])
def test_files_of_a_repository(read, dataset, place):
    """By the hub's own file system of fsspec, which keeps what it listed."""
    huggingface_hub.HfFileSystem.clear_instance_cache()
    texts = [row.text for row in read(f"hf://datasets/me/chosen{place}")]
    assert len(texts) == {"/train.jsonl": 20, "@main/test.jsonl": 6}.get(place, 26)
    assert texts[0] == "row 0"


def test_a_task(dataset):
    task = read_task("hub:me/chosen", TaskPlan(), seed=0)
    assert (len(task.train) + len(task.dev), len(task.test)) == (20, 6)


@pytest.fixture
def revised(dataset):
    """The dataset, with a tag and a conversion that have one row of train each."""
    row, test = b'{"text": "%s", "label": "0"}\n', b'{"text": "t"}'
    revisions = {
        name: {"train.jsonl": row % text, "test.jsonl": test}
        for name, text in (("v1.0", b"old"), ("refs/pr/1", b"asked"))
    }
    dataset["me/chosen"]["revisions"] = revisions
    return dataset


@pytest.mark.parametrize(
    ("name", "full", "text"),
    [
        ("me/chosen@v1.0", "me/chosen@v1.0@train", "old"),
        ("me/chosen@v1.0@test", "me/chosen@v1.0@test", "t"),
        ("me/chosen@refs/pr/1", "me/chosen@refs/pr/1@train", "asked"),
        ("me/chosen@refs/pr/1@test", "me/chosen@refs/pr/1@test", "t"),
        ("me/chosen@main@test", "me/chosen@main@test", "row 0"),
        ("me/chosen@test", "me/chosen@test", "row 0"),
    ],
)
def test_a_revision(read, revised, tmp_path, name, full, text):
    """A word after one @ is a split where there is such a split."""
    (source,) = sources(f"hub:{name}")
    assert (source.url, source.name) == (f"hub:{full}", full)
    assert next(iter(read(f"hub:{name}"))).text == text
    assert located(f"hub:{name}", tmp_path) == f"hub:{name}"


def test_the_commit_of_a_revision_is_part_of_what_a_dataset_is(revised):
    (before,) = sources("hub:me/chosen@v1.0")
    revised["me/chosen"]["revisions"]["v1.0"] = revised["me/chosen"]["revisions"]["refs/pr/1"]
    (after,) = sources("hub:me/chosen@v1.0")
    assert before.url == after.url
    assert before.fingerprint != after.fingerprint


def test_no_such_revision(read, revised):
    for name in ("hub:me/chosen@v2", "hub:me/chosen@v2@train"):
        with pytest.raises(InputError, match=rf"^`corpus`? .*'{name}'"):
            read(name)


def test_a_task_at_a_revision(revised):
    task = read_task("hub:me/chosen@v1.0", TaskPlan(kind="language_modeling"), seed=0)
    assert len(task.test) == 1


def test_no_hub_is_asked_offline(read, hub, offline):
    with pytest.raises(InputError, match=r"^`corpus`.*'hub:data/corpus'"):
        read("hub:data/corpus")
    with pytest.raises(InputError, match=r"^`task`.*'hub:data/corpus'"):
        read_task("hub:data/corpus", TaskPlan(), seed=0)
    assert Hub.asked == []


def test_a_name_without_the_prefix_is_a_path(read, dataset):
    with pytest.raises(InputError, match=r"^`corpus`.*hub:OWNER/NAME.*'me/chosen'"):
        read("me/chosen")
    with pytest.raises(InputError, match=r"^`task`.*hub:OWNER/NAME.*me/chosen"):
        read_task("me/chosen", TaskPlan(), seed=0)
    assert Hub.asked == []
