"""A corpus in an archive gives the selection that its folder gives."""

import json
import tarfile
import zipfile

import pytest
from journeys import WORDS, prose, write_rows

import corpusfit
from corpusfit import Machine
from corpusfit.core.errors import CorpusfitError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task, and one corpus as a folder, a zip and a tar."""
    folder = tmp_path_factory.mktemp("archived")
    write_rows(folder / "task.jsonl", prose("task", 40))
    with (
        zipfile.ZipFile(folder / "pile.zip", "w", zipfile.ZIP_DEFLATED) as zipped,
        tarfile.open(folder / "pile.tar", "w") as tarred,
    ):
        for number, topic in enumerate(WORDS):
            (folder / f"pile/{topic}").mkdir(parents=True)
            rows = [{"text": text, "n": n} for n, text in enumerate(prose(topic, 300, number))]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"pile/{topic}/rows.jsonl").write_text(lines, encoding="utf-8")
            zipped.write(folder / f"pile/{topic}/rows.jsonl", f"{topic}/rows.jsonl")
            tarred.add(folder / f"pile/{topic}/rows.jsonl", f"{topic}/rows.jsonl")
    return folder


@pytest.fixture(scope="module")
def select(folder, inline):
    def select(name, out, **words):
        given = {"method": "dsir", "fraction": 0.2, "keep": ["n"], "machine": inline, **words}
        settings = ["read.shard_mb=0.005"]
        return corpusfit.select(
            target=folder / "task.jsonl", corpus=folder / name, out=out, settings=settings, **given
        )

    return select


def rows_of(run, archive=""):
    return [{**row, "source": row["source"].removeprefix(f"{archive}/")} for row in run]


@pytest.fixture(scope="module")
def plain(select, folder):
    return select("pile", folder / "plain")


@pytest.mark.parametrize("name", ["pile.zip", "pile.tar"])
def test_the_selection_is_that_of_the_folder(select, plain, name, tmp_path):
    run = select(name, tmp_path / "out")
    found = rows_of(run, name)
    assert len(found) > 100
    assert found == rows_of(plain)
    again = select(name, tmp_path / "out")
    assert rows_of(again, name) == found
    said = corpusfit.explain(run, row=run[0])
    assert said.source == run[0]["source"]
    assert said.score == corpusfit.explain(plain, row=plain[0]).score


def test_an_archive_that_changed_is_another_corpus(select, folder, tmp_path):
    (folder / "other.zip").write_bytes((folder / "pile.zip").read_bytes())
    select("other.zip", tmp_path / "out")
    with zipfile.ZipFile(folder / "other.zip", "a") as zipped:
        zipped.writestr("more.jsonl", '{"text": "one more", "n": 1}\n')
    with pytest.raises(CorpusfitError, match=r"other\.zip/more\.jsonl"):
        select("other.zip", tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pile.zip", "pile.tar"])
def test_any_number_of_workers(select, plain, name, tmp_path):
    run = select(name, tmp_path / "out", machine=Machine(workers=2))
    assert rows_of(run, name) == rows_of(plain)
