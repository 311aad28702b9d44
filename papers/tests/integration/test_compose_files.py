"""What a composition shares with the other commands: pairs, cures, the lock, a full disk."""

import inspect
import json
import re
import shutil

import pytest
import zstandard
from test_cures import PARTLY, ROWS

import corpusfit_papers
from corpusfit.core.errors import OutputFolderError, UsageError
from corpusfit.core.gone import GONE
from corpusfit.core.keywords import MACHINE
from corpusfit.core.manifest import locked

pytest.importorskip("sentencex", reason="the extra languages is not installed")


@pytest.fixture
def recipe(tmp_path):
    """Makes a recipe of English texts."""

    def make(texts, more=""):
        path = tmp_path / "recipe.toml"
        path.write_text(
            'composition = "E_D"\nbudget = 50\n[[sources]]\nname = "s"\nkind = "specific"\n'
            f'language = "en"\npath = {json.dumps(str(texts))}\n{more}\n'
        )
        return path

    return make


def test_a_composition_reads_the_first_text_of_pairs(recipe, tmp_path, inline):
    """It refuses pairs whose second text is in the language of the source."""
    for name in ("de", "en"):
        lines = (f"{name} line {n} about something else\n" for n in range(60))
        (tmp_path / f"both.{name}").write_text("".join(lines))
    german, english = (f"{tmp_path}/both.{name}" for name in ("de", "en"))
    composed = corpusfit_papers.compose(
        recipe(f"pair:{english},{german}"), out=tmp_path / "out", machine=inline
    )
    texts = [
        json.loads(line)["text"]
        for part in (composed.path / "composed").iterdir()
        for line in zstandard.decompress(part.read_bytes(), 10**6).splitlines()
    ]
    assert len(texts) == 50
    assert all(text.startswith("en line") for text in texts)
    with pytest.raises(UsageError, match="first text is in en"):
        corpusfit_papers.compose(
            recipe(f"pair:{german},{english}"), out=tmp_path / "other", machine=inline
        )


def test_the_cure_of_a_file_is_named(cli, recipe, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "latin.jsonl").write_bytes(PARTLY["latin.jsonl"][0])
    (folder / "rows.jsonl").write_text(ROWS)
    done = cli("compose", recipe(folder), "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert re.search(r"\b10\b[^.]*\n*.*latin\.jsonl is not in UTF-8.*iconv", done.err, re.S)
    (folder / "mark.csv").write_bytes(PARTLY["mark.csv"][0] * 2)
    done = cli("compose", recipe(folder), "--out", tmp_path / "other")
    assert (done.code, "--set" in done.err) == (0, False)  # a recipe has no separator


def test_a_disk_that_may_be_too_small_is_warned_of(cli, recipe, pile, tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    assert "GB" in cli("compose", recipe(pile), "--out", tmp_path / "out").err
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest.get("warnings", []) == []


def test_a_second_command_on_one_out_writes_nothing(recipe, tmp_path, jsonl, inline):
    texts = jsonl("corpus.jsonl", [f"text {n} about something" for n in range(50)])
    out = tmp_path / "out"
    with locked(out / ".corpusfit", "first", make=True):
        with pytest.raises(OutputFolderError, match="`corpusfit first`"):
            corpusfit_papers.compose(recipe(texts), out=out, machine=inline)
        assert [path.name for path in out.rglob("*")] == [".corpusfit", "lock"]


@pytest.mark.parametrize("command", ["compose", "run"])
def test_a_recipe_that_is_not_there_is_named(cli, command, tmp_path):
    done = cli(command, "no-recipe", "--out", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert "no-recipe" in done.err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["compose", "run"])
def test_a_function_lists_its_keywords(name):
    words = [*inspect.signature(getattr(corpusfit_papers, name)).parameters]
    assert words[-len(MACHINE) :] == [*MACHINE]


def test_what_run_no_longer_takes_is_refused(cli):
    done = cli("run", "--no-report")
    assert done.code == 2
    assert GONE["run --no-report"] in " ".join(done.err.split())
