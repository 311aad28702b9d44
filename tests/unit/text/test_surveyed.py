"""Kept surveys: nothing is read again, and no change goes unseen."""

import os

import pytest

from corpusfit.core.plan import ReadPlan
from corpusfit.text import surveyed as module
from corpusfit.text.shards import survey
from corpusfit.text.surveyed import Kept, surveyed


@pytest.fixture
def scans():
    return []


@pytest.fixture
def look(tmp_path, monkeypatch, scans):
    """Survey files, and check that the answer is that of a survey."""
    monkeypatch.setattr(module, "_LEAST", 0)
    monkeypatch.setattr(module, "_SETTLED", -1.0)
    plan = ReadPlan(shard_mb=0.0001)

    def counted(files, *rest):
        scans.append(len(files))
        return survey(files, *rest)

    monkeypatch.setattr(module, "survey", counted)

    def look(*files, verify=False):
        given = [(str(file), file.suffix == ".jsonl") for file in files]
        found = surveyed(given, plan, None, Kept(tmp_path / "kept", verify))
        for (digest, size, cells), (true, true_size, true_cells) in zip(
            found, survey(given, plan), strict=True
        ):
            assert (digest, size, cells is None) == (true, true_size, true_cells is None)
            if cells is not None:
                assert cells.begins.tolist() == true_cells.begins.tolist()
                assert cells.rows.tolist() == true_cells.rows.tolist()
        return found

    return look


@pytest.fixture
def files(tmp_path):
    lines, archive, small = (tmp_path / name for name in ("a.jsonl", "b.parquet", "c.jsonl"))
    lines.write_text('{"text": "some words"}\n' * 40)
    archive.write_bytes(bytes(500))
    small.write_text('{"text": "x"}\n')
    return lines, archive, small


def test_a_second_survey_reads_nothing(look, files, scans):
    look(*files)
    look(*files)
    assert len(scans) == 1


def test_a_change_of_the_same_size_and_time_is_seen(look, files, scans):
    look(*files)
    state = files[0].stat()
    files[0].write_text('{"text": "same words"}\n' * 40)
    os.utime(files[0], ns=(state.st_atime_ns, state.st_mtime_ns))
    look(*files)
    assert scans == [3, 1]


def test_to_verify_finds_a_change_that_no_state_shows(look, files, scans, monkeypatch):
    states = module.states_of(map(str, files))
    monkeypatch.setattr(module, "states_of", lambda _: states)
    before = look(*files)
    files[0].write_text('{"text": "same words"}\n' * 40)
    with pytest.raises(AssertionError):
        look(*files)
    assert look(*files, verify=True)[0][0] != before[0][0]
    look(*files)
    assert len(scans) == 2


def test_only_new_files_are_read(look, files, scans, tmp_path):
    look(*files)
    look(*files[:2])
    look(files[1], files[0], files[2])
    new = tmp_path / "d.jsonl"
    new.write_text('{"text": "new"}\n' * 30)
    look(new, *files)
    look(*files, new)
    assert scans == [3, 1]


def test_of_too_many_files_those_of_other_commands_are_forgotten(look, files, scans, monkeypatch):
    look(files[0])
    monkeypatch.setattr(module, "_MOST", 1)
    look(*files[1:])
    look(*files[1:])
    look(*files)
    assert scans == [1, 2, 1]


def test_a_damaged_survey_is_made_again(look, files, scans, tmp_path):
    look(*files)
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:40])
    look(*files)
    look(*files)
    assert len(scans) == 2


def test_files_that_changed_just_now_are_not_kept(look, files, scans, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED", 60.0)
    look(*files)
    look(*files)
    assert len(scans) == 2


def test_a_cache_that_cannot_be_written_changes_nothing(look, files, scans, tmp_path):
    (tmp_path / "kept").write_text("a file")
    look(*files)
    look(*files)
    assert len(scans) == 2
