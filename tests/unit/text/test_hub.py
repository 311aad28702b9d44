"""Hugging Face datasets: a local folder stands in for the hub."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from corpusfit.core.errors import InputError, MissingDependencyError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import current_sources, find, rows, shards

pytest.importorskip("datasets", reason="the extra hub is not installed")


@pytest.fixture
def dataset(write, offline):
    rows = [{"text": f"row {i}", "id": i, "label": i % 2} for i in range(200)]
    rows[3]["text"] = None
    rows[4]["text"] = ""
    path = write("box/train.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write("box/test.jsonl", '{"text": "held out", "id": 0, "label": 0}\n')
    return path.parent


def test_a_split(read, dataset):
    found = read(f"hub:{dataset}")
    assert len(found) == 200
    assert found[0] == Document(0, 0, "row 0", 0)
    assert [(r.row, str(r.reason)) for r in found if isinstance(r, Reject)] == [
        (3, "text is null"),
        (4, "text is empty"),
    ]
    assert read(f"hub:{dataset}", shard_mb=1e-3) == found
    assert [r.text for r in read(f"hub:{dataset}@test")] == ["held out"]


def test_kept_fields_do_not_cut_it_otherwise(write, offline):
    made = [{"text": f"row {i}", "page": f"{i}" * (50 * (i % 7) + 1)} for i in range(100)]
    made[40]["text"] = "long " * 500
    path = write("pages/train.jsonl", "".join(json.dumps(row) + "\n" for row in made))
    sources = find([f"hub:{path.parent}"], ReadPlan(), role="corpus")
    plan = ReadPlan(shard_mb=2e-4, max_row_mb=2e-3)
    keeping = plan.keeping(("page", "nothing"))
    plain, kept = (list(shards(sources, each)) for each in (plan, keeping))
    assert len(plain) > 4
    assert [(s.first_row, s.rejects) for s in kept] == [(s.first_row, s.rejects) for s in plain]
    found = [row for shard in kept for row in rows(shard, keeping)]
    assert [row.row for row in found if isinstance(row, Reject)] == [40]
    documents = [row for row in found if isinstance(row, Document)]
    assert len(documents) == 99
    assert all(d.fields == {"page": made[d.row]["page"], "nothing": None} for d in documents)


def test_name_and_fingerprint(dataset):
    def one(given):
        return find([given], ReadPlan(), role="corpus")[0]

    train, test = one(f"hub:{dataset}"), one(f"hub:{dataset}@test")
    assert (train.name, test.name, train.format) == ("box@train", "box@test", "hub")
    assert train.fingerprint == one(f"hub:{dataset}@train").fingerprint != test.fingerprint
    (dataset / "train.jsonl").write_text('{"text": "other", "id": 1, "label": 0}\n')
    assert one(f"hub:{dataset}").fingerprint != train.fingerprint


def test_no_such_field(read, dataset):
    row = read(f"hub:{dataset}@test", text_field="body")[0]
    assert str(row.reason) == "missing field 'body': fields are text, id, label"
    assert row.reason.fields == ("text", "id", "label")


def test_no_such_split(read, dataset):
    with pytest.raises(InputError, match=r"^`corpus\b.*train.*@dev"):
        read(f"hub:{dataset}@dev")


@pytest.mark.parametrize("given", ["hub:nobody/nothing", "hub:/no/such/folder"])
def test_unreachable(read, offline, given):
    with pytest.raises(InputError, match=r"^`corpus\b.*'.*no") as caught:
        read(given)
    assert "\n" not in str(caught.value)


def test_without_the_library(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[hub\]"):
        read("hub:owner/name")


def test_a_library_that_would_run_scripts(read, dataset, monkeypatch):
    monkeypatch.setattr("datasets.__version__", "3.6.0")
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[hub\]"):
        read(f"hub:{dataset}")


def test_a_script_is_not_run(read, dataset, write, tmp_path):
    write("box/box.py", f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(InputError, match=r"hub:.*box"):
        read(f"hub:{dataset}")
    assert not (tmp_path / "ran").exists()


def test_the_extra_asks_for_a_library_without_scripts():
    project = tomllib.loads(Path(__file__).parents[3].joinpath("pyproject.toml").read_text("utf-8"))
    assert project["project"]["optional-dependencies"]["hub"] == ["datasets>=4"]


@pytest.mark.parametrize("given", ["hub:box", "hub:../a@b:c/box@train", "hub:./box/@train"])
def test_a_folder_is_found_from_elsewhere(dataset, tmp_path, monkeypatch, given):
    inside = tmp_path / "a@b:c"
    inside.mkdir()
    dataset.rename(inside / "box")
    monkeypatch.chdir(inside)
    sources = find([given], ReadPlan(), role="corpus")
    assert (sources[0].name, sources[0].url) == ("box@train", f"hub:{inside}/box@train")
    monkeypatch.chdir(tmp_path)
    assert current_sources(sources, ReadPlan())[1] == []
    assert len([r for s in shards(sources, ReadPlan()) for r in rows(s, ReadPlan())]) == 200


def test_it_fails_while_streaming(dataset):
    plan = ReadPlan()
    sources = find([f"hub:{dataset}"], plan, role="corpus")
    (dataset / "train.jsonl").unlink()
    with pytest.raises(InputError, match=r"^hub:[^\n]*\.$"):
        list(shards(sources, plan))


def test_values_that_json_does_not_have(monkeypatch):
    import datasets

    from corpusfit.core.types import Source

    given = [{"text": object()}, {"text": "\ud800"}, {"text": "fine", "id": 3}]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: given)
    source = Source("x", "hub:x@train", "hub", "", 0, "")
    plan = ReadPlan()
    found = [r for s in shards([source], plan) for r in rows(s, plan)]
    half = "malformed JSON: half of a character in the text"
    assert [str(r.reason) for r in found[:2]] == ["text is not a string: object", half]
    assert found[2].text == "fine"


@pytest.mark.parametrize("place", ["../mine.jsonl", "{0}/mine.jsonl", "{0}/*.jsonl"])
def test_a_card_names_no_files_of_others(read, dataset, tmp_path, place):
    assert dataset.parent == tmp_path
    (tmp_path / "mine.jsonl").write_text('{"text": "mine"}\n')
    head = "---\nconfigs:\n- config_name: default\n  data_files: {}\n---\n"
    (dataset / "README.md").write_text(head.format(place.format(tmp_path)))
    with pytest.raises(InputError, match=r"mine\.jsonl"):
        read(f"hub:{dataset}")
