"""Datasets named `owner/name`: a path wins, and a local server stands in for the hub."""

import sys

import pytest

from corpusfit.core.errors import InputError, MissingDependencyError
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.text import find, located
from corpusfit.text.formats.hub import with_prefix
from fake_hub import Hub

pytest.importorskip("datasets", reason="the extra hub is not installed")
huggingface_hub = pytest.importorskip("huggingface_hub")


def sources(given, tmp_path):
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


@pytest.mark.parametrize("split", ["", "@test"])
def test_the_same_source_as_with_its_prefix(read, dataset, tmp_path, split):
    bare, full = (sources(f"{prefix}me/chosen{split}", tmp_path) for prefix in ("", "hub:"))
    assert bare == full
    assert bare[0].url == f"hub:me/chosen{split or '@train'}"
    assert [row.text for row in read(f"me/chosen{split}")][:2] == ["row 0", "row 1"]


@pytest.mark.parametrize("place", ["/train.jsonl", "", "/*.jsonl", "@main/test.jsonl"])
def test_files_of_a_repository(read, dataset, place):
    """By the hub's own file system of fsspec, which keeps what it listed."""
    huggingface_hub.HfFileSystem.clear_instance_cache()
    texts = [row.text for row in read(f"hf://datasets/me/chosen{place}")]
    assert len(texts) == {"/train.jsonl": 20, "@main/test.jsonl": 6}.get(place, 26)
    assert texts[0] == "row 0"


def test_a_task(dataset):
    task = read_task("me/chosen", TaskPlan(), seed=0)
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
    (source,) = sources(name, tmp_path)
    assert (source.url, source.name) == (f"hub:{full}", full)
    assert next(iter(read(name))).text == text
    assert located(name, tmp_path) == f"hub:{name}"


def test_the_commit_of_a_revision_is_part_of_what_a_dataset_is(revised, tmp_path):
    (before,) = sources("me/chosen@v1.0", tmp_path)
    revised["me/chosen"]["revisions"]["v1.0"] = revised["me/chosen"]["revisions"]["refs/pr/1"]
    (after,) = sources("me/chosen@v1.0", tmp_path)
    assert before.url == after.url
    assert before.fingerprint != after.fingerprint


def test_no_such_revision(read, revised):
    for name in ("me/chosen@v2", "me/chosen@v2@train"):
        with pytest.raises(InputError, match=rf"^`corpus`? .*'(hub:)?{name}'"):
            read(name)


def test_a_task_at_a_revision(revised):
    task = read_task("me/chosen@v1.0", TaskPlan(kind="language_modeling"), seed=0)
    assert len(task.test) == 1


def test_a_path_wins(read, dataset, write, tmp_path, monkeypatch):
    write("me/chosen/a.jsonl", '{"text": "mine"}\n')
    monkeypatch.chdir(tmp_path)
    assert [row.text for row in read("me/chosen")] == ["mine"]
    assert Hub.asked == []


@pytest.mark.parametrize("given", ["data/corpus", "data/corpus:en@train"])
def test_a_mistyped_folder_is_no_file_first(read, hub, given):
    with pytest.raises(InputError, match=rf"^`corpus\b.*'{given}'.*no such file.*no such dataset"):
        read(given)
    assert len(Hub.asked) == 1


def test_a_mistyped_folder_without_the_library(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingDependencyError, match=r"^There is no file .*'data/corpus'.*corpusfit\[hub\]"
    ):
        read("data/corpus")


@pytest.mark.parametrize("read_as", ["corpus", "task"])
def test_no_hub_is_asked_offline(read, hub, offline, read_as):
    with pytest.raises(InputError, match=rf"^`{read_as}`.*'data/corpus'.*no such file"):
        read("data/corpus") if read_as == "corpus" else read_task("data/corpus", TaskPlan(), seed=0)
    assert Hub.asked == []


@pytest.mark.parametrize(
    "given",
    [
        *(
            "name",
            "a/b/c",
            "./a/b",
            "../b",
            "/a/b",
            "~/b",
            "a/*",
            "a/b/",
            "a/b.txt",
            "a/b.jsonl.gz",
        ),
        *("a/b.conll", "a/b.toml", "ä/b", "hub:a/b", "s3://a/b", "pair:a/b,c/d", "a b/c", "-"),
    ],
)
def test_what_is_no_bare_id(given):
    assert with_prefix(given) == given


@pytest.mark.parametrize("given", ["a/b", "a-1/b_c", "a/b-1.5", "a/b.1.5:en", "a/b@train"])
def test_a_bare_id_repeats_with_its_prefix(given, tmp_path):
    assert located(given, tmp_path) == f"hub:{given}"
    tmp_path.joinpath("a").mkdir()
    tmp_path.joinpath("a/b").touch()
    assert located("a/b", tmp_path) == str(tmp_path / "a/b")
