"""Finding runs in folders by their manifests."""

import json
import re

import pytest

from corpusfit.core.errors import InputError
from corpusfit.reporting.reading import found_in
from corpusfit.reporting.writing import write_report


@pytest.fixture
def folder_of(tmp_path):
    def make(place, name="manifest.json", **manifest):
        folder = tmp_path / place
        folder.mkdir(parents=True, exist_ok=True)
        if name == "manifest.json":
            manifest = {"versions": {}, "plan": {}, "counts": {}, **manifest}
        (folder / name).write_text(json.dumps(manifest))
        return folder

    return make


def test_kinds_and_their_order(folder_of, tmp_path):
    folder_of("all/b/model", command="adapt")
    folder_of("all/b/selection", command="select", selected={"segments": 1})
    folder_of("all/a", command="evaluate")
    folder_of("all/.hidden", command="evaluate")
    found = found_in([tmp_path / "all"])
    assert [(f.kind, f.title) for f in found] == [
        ("evaluate", "a"),
        ("adapt", "b/model"),
        ("select", "b/selection"),
    ]


def test_recipe_brings_its_selections_and_models(folder_of, tmp_path):
    table = {
        "recipe": {"name": "Table 3"},
        "adapted": [
            {"key": "m1", "label": "auto for chemprot", "losses": {"after": {"data": 2.0}}},
            {"key": "m2", "label": "gone", "losses": {}},
        ],
        "selections": {"s1": "auto for chemprot"},
        **{key: [] for key in ("results", "gains", "pairs")},
    }
    folder_of("r", "table.json", **table)
    folder_of("r/models/m1", command="adapt", losses={"after": {"data": 2.0, "task": 9.0}})
    folder_of("r/selections/s1", command="select", selected={"segments": 1})
    found = found_in([tmp_path / "r"])
    assert [(f.kind, f.title) for f in found] == [
        ("run", "Table 3"),
        ("select", "auto for chemprot"),
        ("adapt", "auto for chemprot"),
    ]
    assert found[2].manifest["losses"] == {"after": {"data": 2.0}}


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ({"command": "split"}, "corpusfit split.*no report"),
        ({"other": 1}, "^.*x holds no finished run.*corpusfit select"),
    ],
)
def test_no_finished_run_is_an_error_with_a_cure(folder_of, manifest, says):
    folder = folder_of("x", **manifest)
    with pytest.raises(InputError, match=says):
        found_in([folder])


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match="nope"):
        found_in([tmp_path / "nope"])


def test_equal_names_become_distinct(folder_of, tmp_path):
    folders = [folder_of(f"{name}/out", selected={"segments": 1}) for name in "xyz"]
    folders.append(folder_of("corpus", selected={"segments": 1}))
    titles = [run.title for run in found_in(folders)]
    assert titles == ["out", "out (2)", "out (3)", "corpus (2)"]


@pytest.mark.parametrize("text", ["[]", "{", '{"selected": true}', "\u00ff\ud800"])
@pytest.mark.parametrize("name", ["manifest.json", "table.json"])
def test_foreign_files_are_ignored(folder_of, tmp_path, name, text):
    folder_of("all/ours", command="adapt")
    (tmp_path / "all/site").mkdir()
    (tmp_path / "all/site" / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert [run.kind for run in found_in([tmp_path / "all"])] == ["adapt"]


def test_a_recipe_brings_no_runs_from_elsewhere(folder_of, tmp_path):
    table = {
        "recipe": {"name": "Table 3"},
        "adapted": [{"key": "../../mine", "label": "b", "losses": {}}],
        "selections": {"../../mine": "a", str(tmp_path / "mine"): "c"},
        **{key: [] for key in ("results", "gains", "pairs")},
    }
    folder_of("r", "table.json", **table)
    folder_of("mine", command="select", selected={"segments": 1})
    assert [f.kind for f in found_in([tmp_path / "r"])] == ["run"]


@pytest.mark.parametrize("command", ["select", "adapt", "evaluate", "clusters"])
def test_a_manifest_that_lies_is_named(folder_of, tmp_path, command):
    folder = folder_of("r", command=command, selected=[1], results=[{"model": "x"}], models=[])
    with pytest.raises(InputError, match=re.escape(str(folder))):
        write_report([folder], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
