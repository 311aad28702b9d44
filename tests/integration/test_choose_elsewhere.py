"""`choose --out`: another selection in a folder of its own, and the earlier one as it was."""

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.artifacts import copy
from corpusfit.core.errors import OutputFolderError, StorageError, UsageError


@pytest.fixture
def first(task, pile, inline, tmp_path):
    words = {"target": task, "corpus": pile, "machine": inline, "fraction": 0.3}
    return corpusfit.select(**words, method="dsir", out=tmp_path / "first")


def test_both_selections_stay(first, inline, tmp_path):
    before = digests(first.path)
    second = corpusfit.choose(first.path, out=tmp_path / "second", segments=5, machine=inline)
    assert second.path == tmp_path / "second"
    assert second.manifest["selected"]["segments"] == 5
    assert digests(first.path) == before
    again = corpusfit.choose(first.path, segments=5, machine=inline)
    assert digests(again.path) == digests(second.path)
    back = corpusfit.choose(second.path, fraction=0.3, machine=inline)
    assert digests(back.path) == before
    assert corpusfit.explain(back.path, text="the selected text", machine=inline)


def test_what_is_not_named_is_as_the_run_has_it(task, pile, inline, tmp_path, monkeypatch):
    words = {"target": task, "corpus": pile, "machine": inline, "method": "dsir"}
    halves = {"balance": "source", "settings": ["choose.quota=even"]}
    first = corpusfit.select(**words, **halves, fraction=0.3, out=tmp_path / "first")
    even = first.manifest["selected"]["quota"]
    assert len({*even}) == 1 < len(even)
    fewer = corpusfit.choose(first.path, out=tmp_path / "fewer", segments=4, machine=inline)
    assert fewer.manifest["selected"]["quota"] == even
    assert fewer.manifest["selected"]["segments"] == 4
    fresh = corpusfit.select(**words, **halves, segments=4, out=tmp_path / "fresh")
    assert digests(fewer.path) == digests(fresh.path)
    # in its own folder, one after the other
    one = corpusfit.choose(first.path, segments=4, machine=inline)
    assert digests(one.path) == digests(fresh.path)
    with pytest.raises(UsageError, match="quota"):
        corpusfit.choose(first.path, settings=["choose.balance="], machine=inline)
    unbalanced = ["choose.balance=", "choose.quota=target"]
    corpusfit.choose(first.path, dedup="near", settings=unbalanced, machine=inline)
    last = corpusfit.choose(first.path, fraction=0.3, machine=inline)
    assert last.manifest["selected"]["quota"] is None
    plain = corpusfit.select(**words, fraction=0.3, dedup="near", out=tmp_path / "plain")
    assert digests(last.path, "selected") == digests(plain.path, "selected")


@pytest.mark.parametrize(
    "words",
    [
        {"keep": "nosuch"},
        {"quota": "nosuch=30%", "balance": "source"},
        {"quota": "even"},
        {"balance": "field:nosuch"},
    ],
    ids=str,
)
def test_what_is_refused_makes_no_folder(words, first, inline, tmp_path):
    with pytest.raises(UsageError, match=r"nosuch|even"):
        corpusfit.choose(first.path, out=tmp_path / "second", **words, machine=inline)
    assert not (tmp_path / "second").exists()


def test_weights_are_of_all_segments_unless_an_amount_is_named(first, inline, tmp_path):
    segments = first.manifest["counts"]["segments"]
    assert first.manifest["selected"]["segments"] < segments
    for words, kept in (({}, segments), ({"fraction": 0.5}, None)):
        weighted = corpusfit.choose(
            first.path, policy="continuous", dedup="none", machine=inline, **words
        )
        selected = weighted.manifest["selected"]["segments"]
        assert selected == kept if kept else selected < segments
    again = corpusfit.choose(first.path, dedup="none", machine=inline)
    assert again.manifest["selected"]["segments"] == selected


def test_what_is_no_folder_is_named_by_its_kind(first):
    for frame in (first.to_arrow(), 3, ["a"]):
        with pytest.raises(UsageError, match=type(frame).__name__):
            corpusfit.choose(frame, segments=5)
    for row in (0, {"source": "a"}):
        with pytest.raises(UsageError, match=r"run\[0\]"):
            corpusfit.explain(first, row=row)


def test_a_plan_names_what_differs_from_its_defaults(first, inline, tmp_path):
    plan = corpusfit.Plan().with_overrides(["choose.segments=5"])
    (tmp_path / "plan.toml").write_text("choose.segments = 5\n", "utf-8")
    corpusfit.choose(first.path, dedup="none", machine=inline)
    for named in (plan, tmp_path / "plan.toml"):
        again = corpusfit.choose(first.path, plan=named, machine=inline)
        assert again.manifest["plan"]["choose"]["dedup"] == "none"
        assert again.manifest["selected"]["segments"] == 5


@pytest.mark.parametrize("step", ["_finish", "write_selection_card"])
def test_a_stopped_one_is_resumed(first, inline, tmp_path, monkeypatch, step):
    def stop(*_, **__):
        raise KeyboardInterrupt

    words = {"policy": "resample", "segments": 5, "machine": inline}
    with monkeypatch.context() as patch:
        patch.setattr(f"corpusfit.selection.commands.{step}", stop)
        with pytest.raises(KeyboardInterrupt):
            corpusfit.choose(first.path, out=tmp_path / "second", **words)
    second = corpusfit.choose(first.path, out=tmp_path / "second", **words)
    again = corpusfit.choose(first.path, **words)
    assert digests(second.path) == digests(again.path)


@pytest.mark.parametrize("copied", range(4))
def test_a_stopped_copy_is_resumed(first, inline, tmp_path, monkeypatch, copied):
    left = iter(range(copied))

    def full(file, to):
        if next(left, None) is None:
            raise StorageError("No space left on device")
        copy(file, to)

    words = {"segments": 5, "machine": inline}
    with monkeypatch.context() as patch:
        patch.setattr("corpusfit.selection.folder.copy", full)
        with pytest.raises(StorageError):
            corpusfit.choose(first.path, out=tmp_path / "second", **words)
    second = corpusfit.choose(first.path, out=tmp_path / "second", **words)
    assert digests(second.path) == digests(corpusfit.choose(first.path, **words).path)


def test_a_folder_with_something_in_it_is_refused(first, inline, tmp_path):
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    second = corpusfit.choose(first.path, out=tmp_path / "second", segments=5, machine=inline)
    before = digests(second.path)
    for out in (tmp_path, second.path, first.path):
        with pytest.raises(OutputFolderError):
            corpusfit.choose(first.path, out=out, segments=7, machine=inline)
    assert digests(second.path) == before
    assert (tmp_path / "notes.txt").read_text("utf-8") == "mine"
