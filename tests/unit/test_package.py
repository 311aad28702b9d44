"""What a package index shows: absolute links that lead to files, and one version."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import corpusfit

ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (.+)$", text, re.M)[1] == corpusfit.__version__


@pytest.mark.parametrize(("folder", "least"), [("", 10), ("papers/", 5)])
def test_the_links_of_the_published_readme_lead_to_files(monkeypatch, folder, least):
    setuptools = pytest.importorskip("setuptools")
    given = {}
    monkeypatch.setattr(setuptools, "setup", lambda **words: given.update(words))
    url = runpy.run_path(str(ROOT / folder / "setup.py"))["URLS"]["Repository"]
    own = re.findall(r"\]\(([^)#]+)", (ROOT / folder / "README.md").read_text("utf-8"))
    links = re.findall(r"\]\(([^)#]+)", given["long_description"])
    assert len(links) == len(own) > least
    for link in links:
        assert link.startswith("https://")
        if link.startswith(f"{url}/"):
            kind, _, path = link.removeprefix(f"{url}/").partition("/main/")
            assert (ROOT / path).exists()
            assert (kind == "raw") == path.endswith((".png", ".svg"))  # a picture, not its page


def test_both_packages_are_published_alike():
    """Of one version, with the same license and requirements of what both use."""
    ours, papers = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
        for folder in ("", "papers")
    )
    version = f"=={papers['version']}"
    assert papers["version"] == corpusfit.__version__
    assert papers["dependencies"][0] == f"corpusfit{version}"
    assert set(papers["dependencies"][1:]) <= {*ours["dependencies"]}
    extras = [line for lines in papers["optional-dependencies"].values() for line in lines]
    assert all(line.endswith(version) for line in extras if line.startswith("corpusfit"))
    same = ("requires-python", "license", "authors", "classifiers")
    assert [papers[name] for name in same] == [ours[name] for name in same]
    texts = [(ROOT / folder / "LICENSE").read_bytes() for folder in ("", "papers")]
    assert texts[0] == texts[1]


def test_ci_runs_the_command_that_the_readme_names_for_the_tests():
    """So that it is green where a reader's clone is; after it, what else must hold."""
    readme, ci, makefile = (
        (ROOT / name).read_text("utf-8") for name in ("README.md", ".ci/run", "Makefile")
    )
    named = re.findall(r"`make (\w*test\w*)`", readme)
    run = re.findall(r"^(?:exec )?make (.+)$", ci, re.M)
    targets = re.findall(r"^([\w-]+):", makefile, re.M)
    assert named == ["test"]
    assert named == run[:1]
    assert re.search("^set -e", ci, re.M)  # what fails ends it
    assert {*named, *run, "lint", "types", "quick"} <= {*targets}
    recipe = re.search(r"^test:(.*\n(?:\t.*\n)+)", makefile, re.M)[1]
    assert {"lint", "types", "quick"} <= {*recipe.split()}


def test_a_long_test_is_slow(request):
    """By a hook for all folders with tests, so that `-m "not slow"` never runs one."""
    of_all = request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    items = [
        pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        for name in ("long", "plain")
    ]
    items[0].add_marker("long")
    of_all.pytest_collection_modifyitems(items)
    assert [item.get_closest_marker("slow") is not None for item in items] == [True, False]


def test_every_file_beside_the_code_is_installed():
    """Templates, assets and the static model are package data, wherever they move."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["corpusfit"]
    package = ROOT / "src/corpusfit"
    files = {file for file in package.rglob("*") if file.is_file() and file.suffix != ".py"}
    data = {file for file in files if "__pycache__" not in file.parts}
    assert len(data) > 10
    assert data == {file for pattern in patterns for file in package.glob(pattern)}
