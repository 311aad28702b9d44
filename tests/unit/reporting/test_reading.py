"""Finding the run in a folder by its manifest."""

import json
import re

import pytest

from corpusfit.core.errors import InputError
from corpusfit.reporting.writing import shown, write_report


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


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ({"command": "clusters"}, "points.csv"),
        ({"command": "split"}, "corpusfit split.*no page"),
        ({"command": "compose"}, "manifest"),
        ({"command": "adapt"}, r"losses\.jsonl"),
        ({"command": "evaluate"}, "comparisons"),
        ({"name": "table.json", "recipe": {}}, "table.md.*selections"),
        ({"other": 1}, "^.*x holds no finished run.*corpusfit select"),
    ],
)
def test_no_finished_run_is_an_error_with_a_cure(folder_of, manifest, says):
    folder = folder_of("x", **manifest)
    with pytest.raises(InputError, match=says):
        shown(folder)


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match="nope"):
        shown(tmp_path / "nope")


@pytest.mark.parametrize("text", ["[]", "{", '{"selected": true}', "\u00ff\ud800"])
@pytest.mark.parametrize("name", ["manifest.json", "table.json"])
def test_foreign_files_are_no_run(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match="no finished run"):
        shown(tmp_path)


@pytest.mark.parametrize("command", ["select", "fit"])
def test_a_manifest_that_lies_is_named(folder_of, tmp_path, command):
    folder = folder_of("r", command=command, selected=[1], results=[{"model": "x"}], models=[])
    with pytest.raises(InputError, match=re.escape(str(folder))):
        write_report(folder, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
