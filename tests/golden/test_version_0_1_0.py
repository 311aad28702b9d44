"""What version 0.1.0 wrote is read, or refused in a sentence (made: version_0_1_0/README.md)."""

import json
import tarfile
from pathlib import Path

import pytest

import corpusfit
from corpusfit.core.errors import ChangedInputError, OutputFolderError, UsageError
from corpusfit.embed.store import VectorStore

FOLDERS = Path(__file__).parent / "version_0_1_0/folders.tar.gz"


@pytest.fixture
def old(tmp_path):
    """The folders, as if they had been written there."""
    with tarfile.open(FOLDERS) as folders:
        folders.extractall(tmp_path, filter="data")
    for path in (*tmp_path.rglob("*.json"), tmp_path / "recipe.toml"):
        path.write_text(path.read_text("utf-8").replace('"/old', f'"{tmp_path}'), "utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_selection_is_opened_explained_and_chosen_from_again(old, inline):
    found = corpusfit.open(old / "select")
    assert len(list(found)) == found.manifest["selected"]["segments"] == 7
    explained = corpusfit.explain(old / "select", text="kinase receptor", machine=inline)
    assert explained.score > 0
    again = corpusfit.choose(old / "select", out=old / "again", fraction=0.3, machine=inline)
    assert len(list(again)) == 9


def test_a_selection_is_not_resumed_by_a_version_with_other_settings(old, inline):
    before = (old / "select/manifest.json").read_bytes()
    with pytest.raises(ChangedInputError, match=r"choose\.dedup.*overwrite"):
        corpusfit.select(
            target=old / "target.jsonl",
            corpus=old / "corpus.jsonl",
            fraction=0.2,
            method="dsir",
            out=old / "select",
            machine=inline,
        )
    assert (old / "select/manifest.json").read_bytes() == before


def test_an_evaluation_is_opened_and_a_selection_reported(old):
    found = corpusfit.open(old / "evaluate")
    assert (found.manifest["seeds"], len(found.manifest["results"])) == (2, 1)
    page = corpusfit.report(old / "select", out=old / "r.html").read_text("utf-8")
    assert "Its highest scores" in page


def test_an_adaptation_of_it_does_not_go_on(old, inline):
    before = (old / "adapt/manifest.json").read_bytes()
    with pytest.raises(ChangedInputError, match=r"train\.keep was"):
        corpusfit.adapt(
            init="tiny",
            data=old / "corpus.jsonl",
            max_steps=2,
            settings=["model.vocabulary=300", "train.length=32"],
            out=old / "adapt",
            machine=inline,
        )
    assert (old / "adapt/manifest.json").read_bytes() == before


def test_the_parts_of_an_experiment_are_opened(old):
    (selection,) = (old / "run/selections").iterdir()
    found = corpusfit.open(selection)
    assert len(list(found)) == found.manifest["selected"]["segments"] > 0
    (model,) = (old / "run/models").iterdir()
    assert corpusfit.open(model).manifest["training"]["steps"] == 2
    results = json.loads((old / "run/table.json").read_text("utf-8"))["results"]
    assert {row["cell"]["task"] for row in results} == {"topics"}


def test_the_folder_of_another_command_stays(old, inline):
    with pytest.raises(OutputFolderError, match="select"):
        corpusfit.split(
            data=old / "corpus.jsonl", out=old / "select", dev=5, test=5, machine=inline
        )


def test_a_recipe_with_an_old_name_is_told_those_that_there_are(old):
    with pytest.raises(UsageError, match=r"corpus.*got .pile."):
        corpusfit.run(old / "recipe.toml", out=old / "run")


def test_a_cache_is_listed_and_its_embeddings_are_read(old, inline):
    machine = type(inline)(cache=old / "cache")
    assert {entry.kind for entry in corpusfit.cache(machine=machine)} == {
        "embeddings of corpora",
        "token ids",
    }
    (stored,) = (old / "cache/embeddings").iterdir()
    units, vectors, _ = VectorStore(stored).read(0)
    assert len(units.row) == len(vectors) == 36
