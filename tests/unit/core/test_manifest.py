"""The run folder: what it contains, and which differences are named."""

import errno
import json
import re

import pytest

import corpusfit
from corpusfit.core.errors import ChangedInputError, InputError, OutputFolderError, StorageError
from corpusfit.core.manifest import FORMAT, OutFolder, is_inside, read_kept, undamaged
from corpusfit.evaluation.evaluating import EvaluateFolder
from corpusfit.evaluation.keyed_rows import SplitFolder
from corpusfit.selection.folder import SelectionFolder

IDENTITY = {
    "seed": 0,
    "cut": {"gamma": 15},
    "choose": {"fraction": 0.1},
    "corpus": {"a.jsonl": "f1"},
}


def test_a_folder_with_something_else_is_refused_and_an_empty_one_is_not(tmp_path):
    SelectionFolder(tmp_path).claim()
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(OutputFolderError, match=re.escape(str(tmp_path))):
        SelectionFolder(tmp_path).claim()
    with pytest.raises(OutputFolderError):
        SelectionFolder(tmp_path / "thesis.tex").claim()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, r"seed .*0.*1"),
        ({"cut": {"gamma": 5}}, r"cut\.gamma .*15.*5"),
        ({"corpus": {"a.jsonl": "f2"}}, r"corpus .*a\.jsonl"),
        ({"corpus": {}}, r"corpus .*a\.jsonl"),
        ({"corpus": {"a.jsonl": "f1", "b": "f"}}, r"corpus file b "),
        ({"corpus": {"b": "f1"}}, r"corpus .*a\.jsonl.*b[ .]"),
    ],
)
def test_a_difference_is_named_and_overwrite_starts_anew(tmp_path, change, words):
    folder = SelectionFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    folder.begin(IDENTITY, overwrite=False)
    folder.scores.mkdir()
    folder.scored.mkdir()
    (folder.scored / "part-00000.json").touch()
    with pytest.raises(
        ChangedInputError, match=f"(?s)^`out.*{words}.*another `out`, or pass `overwrite` "
    ):
        folder.begin({**IDENTITY, **change}, overwrite=False)
    folder.begin({**IDENTITY, **change}, overwrite=True)
    assert not folder.scores.exists()


def test_a_run_in_which_nothing_was_scored_may_be_begun_otherwise(tmp_path):
    folder = SelectionFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    folder.begin({**IDENTITY, "seed": 1}, overwrite=False)
    folder.begin({**IDENTITY, "seed": 1}, overwrite=False)


def test_another_amount_after_the_end_points_to_choose(tmp_path):
    folder = SelectionFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    with pytest.raises(InputError, match="corpusfit select"):
        folder.require_scored()
    folder.keep_scored({})
    with pytest.raises(ChangedInputError, match=re.escape(f"corpusfit choose {tmp_path}")):
        folder.begin({**IDENTITY, "choose": {"fraction": 0.2}}, overwrite=False)


def test_overwriting_takes_marks_away_before_what_they_vouch_for(tmp_path, monkeypatch):
    folder = SelectionFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    for name in (folder.scores, folder.scored, folder.selected):
        name.mkdir()
    folder.keep_scored({})
    folder.finish({})

    def stop(path):
        assert not (tmp_path / "manifest.json").exists()
        assert folder.scored_so_far() is None
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", stop)
    with pytest.raises(KeyboardInterrupt):
        folder.begin({**IDENTITY, "seed": 1}, overwrite=True)
    assert folder.finished() is None


def test_scores_deleted_by_hand_are_missed(tmp_path):
    folder = SelectionFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    folder.keep_scored({})
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        folder.require_scored()


@pytest.mark.parametrize("kind", [SelectionFolder, SplitFolder])
def test_of_files_that_inputs_name_only_its_own_are_thrown_away(tmp_path, kind):
    folder = kind(tmp_path)
    folder.begin({**IDENTITY, "command": "any"}, overwrite=False)
    mine = ["selected.txt", "train.py", "selected.de"]
    for name in [*mine, "selected.en", "train.en"]:
        (tmp_path / name).write_text("x")
    folder.will_write(["selected.en", "train.en"])
    folder.begin({**IDENTITY, "command": "any", "seed": 1}, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == sorted(mine)
    folder.remove_written()
    assert (tmp_path / "selected.de").exists()


def test_a_damaged_identity_is_named_and_overwrite_starts_anew(tmp_path):
    folder = OutFolder(tmp_path / "out")
    folder.begin({"command": "split", "seed": 0}, overwrite=False)
    begun = folder.work / "run.json"
    begun.write_bytes(begun.read_bytes()[:20])
    with pytest.raises(OutputFolderError, match=r"run\.json.*overwrite"):
        folder.begin({"command": "split", "seed": 0}, overwrite=False)
    folder.begin({"command": "split", "seed": 0}, overwrite=True)
    assert folder.identity()["seed"] == 0


def test_a_damaged_manifest_marks_no_complete_run(tmp_path):
    folder = OutFolder(tmp_path / "out")
    folder.finish({"command": "split"})
    assert folder.finished() == {"command": "split"}
    (folder.path / "manifest.json").write_text('{"comm')
    assert folder.finished() is None


def test_a_run_that_another_command_took_over_does_not_finish(tmp_path):
    """As in a store, which has no lock."""
    ours, other = SelectionFolder(tmp_path), SelectionFolder(tmp_path)
    ours.begin(IDENTITY, overwrite=False)
    other.begin({**IDENTITY, "seed": 1}, overwrite=True)
    with pytest.raises(OutputFolderError, match=re.escape(str(tmp_path))):
        ours.finish({})
    other.finish({})
    assert other.finished() == {}


def test_only_files_of_the_folder_are_deleted(tmp_path):
    """A folder of a stranger may list any path as a file that it wrote."""
    folder, beside = SelectionFolder(tmp_path / "out"), tmp_path / "mine"
    for path in (beside, folder.path / "old.de"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    folder.will_write(["../mine", str(beside), "..", "old.de"])
    folder.remove_written()
    assert beside.exists()
    assert not (folder.path / "old.de").exists()


@pytest.mark.parametrize("content", [b"", b"[1]", b"\x80\x04", b"{", b"[" * 100_000, b"null"])
def test_a_damaged_file_is_named(tmp_path, content):
    folder = SelectionFolder(tmp_path)
    (tmp_path / ".corpusfit").mkdir()
    for name, read in (
        (".corpusfit/run.json", folder.identity),
        (".corpusfit/scored.json", folder.require_scored),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=re.escape(name)):
            read()


def test_only_what_damage_can_cause_is_called_damage(tmp_path):
    for error in (MemoryError, KeyboardInterrupt, OutputFolderError):
        with pytest.raises(error), undamaged(tmp_path):
            raise error


def test_names_inside_a_folder():
    inside = ["", "a", "1_Pooling", "a/b.safetensors", "...", "a..b"]
    outside = ["..", "a/..", "a\\..\\..", "/a", "\\a", "C:a", "C:/a", "\\\\host\\a", "a\0", None, 3]
    assert list(map(is_inside, inside)) == [True] * len(inside)
    assert list(map(is_inside, outside)) == [False] * len(outside)


def test_only_files_of_the_folder_are_removed_by_the_names_in_it(tmp_path):
    folder = OutFolder(tmp_path / "run")
    for name in ("outside", "run/own", "run/below/own"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    names = ["../outside", str(tmp_path / "outside"), "a\0b", 3, "below", "own"]
    folder.will_write([*names, "below/own"])
    folder.remove_written()
    assert sorted(p.name for p in tmp_path.rglob("*")) == [".corpusfit", "below", "outside", "run"]
    folder.will_write([])
    for damaged in ("3", json.dumps(["n" * 300])):
        (folder.work / "files.json").write_text(damaged)
        with pytest.raises(InputError, match=r"files\.json"):
            folder.remove_written()


@pytest.mark.parametrize("at", ["scores", "selected/part-0", ".corpusfit/fit/a/b", "models/1/x"])
def test_a_finished_run_with_a_link_in_it_is_refused(tmp_path, at):
    folder = OutFolder(tmp_path / "run")
    manifest = {"command": "adapt", "versions": {}, "plan": {}}
    folder.finish(manifest)
    assert folder.finished() == manifest
    (tmp_path / "elsewhere").mkdir()
    (folder.path / at).parent.mkdir(parents=True, exist_ok=True)
    (folder.path / at).symlink_to(tmp_path / "elsewhere")
    for open_run in (folder.finished, folder.claim, lambda: corpusfit.report(folder.path)):
        with pytest.raises(OutputFolderError, match=re.escape(at)):
            open_run()
    assert not (folder.path / "report.html").exists()


def test_outcomes_are_those_of_the_folder(tmp_path):
    folder = EvaluateFolder(tmp_path)
    assert folder.outcome("../../outside", 0, 1).parent == folder.outcomes
    assert folder.outcome("abc", 0, 1).name == "abc-0-1.json"


def test_a_kept_value_is_the_right_one_or_none(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"

    def kept():
        return read_kept(path, lambda value: value["n"] > 1)

    assert kept() is None
    for damaged in ("", "[", "3", "[1]", "null", '{"m": 2}', '{"n": "2"}', '{"n": 1}', "[" * 9999):
        path.write_text(damaged)
        assert kept() is None
    path.write_text('{"n": 2}')
    assert kept() == {"n": 2}

    def closed(_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("corpusfit.core.manifest.read_bytes", closed)
    with pytest.raises(StorageError, match=r"kept\.json"):
        kept()


def of_another_version(folder):
    """The folder of a run, as if another version had made it."""
    begun = folder.work / "run.json"
    begun.write_text(json.dumps({**json.loads(begun.read_text()), "format": FORMAT - 1}))
    return folder


def test_a_run_of_another_version_is_refused_wherever_it_is_opened(tmp_path):
    folder = SelectionFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    folder.keep_scored({})
    folder.finish(
        {"command": "select", "versions": {}, "plan": {}, "selected": {"n": 1}, "counts": {}}
    )
    of_another_version(folder)
    for opened in (
        folder.finished,
        folder.identity,
        folder.require_scored,
        lambda: corpusfit.open(tmp_path),
        lambda: corpusfit.report(tmp_path),
        lambda: corpusfit.choose(tmp_path, fraction=0.1),
    ):
        with pytest.raises(InputError, match="another version"):
            opened()
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(OutputFolderError, match=r"another version.*`overwrite`"):
        folder.begin(IDENTITY, overwrite=False)
    assert (tmp_path / "manifest.json").read_bytes() == before
    folder.begin(IDENTITY, overwrite=True)
    assert folder.identity() == IDENTITY
    assert folder.finished() is None
