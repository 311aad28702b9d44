"""Targets in other forms than the corpus: another field, or a task with splits and labels."""

import json

import pytest
from journeys import digests, prose

import corpusfit
from corpusfit import selection
from corpusfit.core.errors import ChangedInputError, EmptyInputError
from listening import Listening


@pytest.fixture
def select(tmp_path, inline):
    """`select` with the text of target and corpus in given fields of files of the same names."""

    def select(out, of_target="text", of_corpus="text", **words):
        folder = tmp_path / f"{of_target}-{of_corpus}"
        folder.mkdir(exist_ok=True)
        for name, field, texts in (
            ("target.jsonl", of_target, prose("task", 40)),
            ("corpus.jsonl", of_corpus, prose("market", 60) + prose("task", 30, seed=5)),
        ):
            lines = (json.dumps({field: text, "other": "nothing"}) + "\n" for text in texts)
            (folder / name).write_text("".join(lines), "utf-8")
        given = {"method": "dsir", "fraction": 0.3, "machine": inline} | words
        return corpusfit.select(
            target=folder / "target.jsonl", corpus=folder / "corpus.jsonl",
            out=tmp_path / out, **given,
        )  # fmt: skip

    return select


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (("abstract", "text"), {"target_field": "abstract"}),
        (("abstract", "body"), {"target_field": "abstract", "text_field": "body"}),
        (("body", "body"), {"text_field": "body"}),
    ],
)
def test_the_selection_is_that_of_one_field(select, tmp_path, fields, words):
    select("plain")
    select("named", *fields, **words)
    assert digests(tmp_path / "named", "scores") == digests(tmp_path / "plain", "scores")


def test_without_its_name_the_target_is_empty(select):
    with pytest.raises(EmptyInputError, match="target_field"):
        select("out", "abstract", "text")


def test_a_wrong_field_is_named_before_an_encoder_is_loaded(select, monkeypatch):
    monkeypatch.setattr("corpusfit.selection.resolving.pin_encoder", None)
    with pytest.raises(EmptyInputError, match=r"`target` .*'no'.*target_field.*read.text_field"):
        select("out", text_field="no", method="knn")


@pytest.mark.parametrize("field", ["abstract", "text"])
def test_files_of_the_corpus_without_the_targets_field_are_named(tmp_path, jsonl, inline, field):
    """They gave no text, and the selection came from the files beside them."""
    target = jsonl("target.jsonl", [{"abstract": text} for text in prose("task", 40)])
    rows = [{"text": text} for text in prose("market", 40)]
    (tmp_path / "novel.txt").write_text("\n\n".join(prose("task", 40, seed=4)), "utf-8")
    corpus = [jsonl("market.jsonl", rows), tmp_path / "novel.txt"]
    fields = {"text_field": field, "target_field": "abstract"}
    run = corpusfit.select(
        target=target, corpus=corpus, out=tmp_path / "o", method="dsir", machine=inline, **fields
    )
    named = [w for w in run.manifest["warnings"] if "market.jsonl" in w and "target_field" in w]
    assert len(named) == (field == "abstract")


def test_a_dry_run_reads_the_target_too(tmp_path, inline, jsonl):
    target = jsonl("target.jsonl", [{"abstract": text} for text in prose("task", 40)])
    words = {"corpus": jsonl("corpus.jsonl", prose("market", 60)), "machine": inline}
    with pytest.raises(EmptyInputError, match=r"`target` has no usable text.*target_field"):
        selection.estimate(target=target, method="dsir", **words)
    found = selection.estimate(target=target, target_field="abstract", method="dsir", **words)
    assert found["sources"] == 1


def test_another_field_of_the_target_is_another_run(select):
    select("out", "abstract", "text", target_field="abstract")
    with pytest.raises(ChangedInputError, match="target_field"):
        select("out", "abstract", "text", target_field="other")


def test_an_adaptation_reads_the_target_as_the_selection_did(select, tmp_path, inline, tiny_lm):
    pytest.importorskip("accelerate", reason="the extra train is not installed")
    run = select("out", "abstract", "body", target_field="abstract", text_field="body")
    adapted = corpusfit.adapt(
        model=str(tiny_lm), data=run.path, out=tmp_path / "adapted", max_steps=2, batch=4,
        length=32, settings=["train.device=cpu", "train.precision=fp32"], machine=inline,
    )  # fmt: skip
    assert adapted.manifest["heldout"]["task"] == 40


@pytest.fixture
def of_splits(tmp_path, jsonl):
    """A folder with train, dev and test, whose texts differ, as rows or as words with tags."""

    def of_splits(form):
        for split, seed in (("train", 0), ("dev", 1), ("test", 2)):
            texts = prose("task", 40, seed)
            if form == "rows":
                jsonl(f"rows/{split}.jsonl", [{"text": t, "label": "a"} for t in texts])
                continue
            (tmp_path / form).mkdir(exist_ok=True)
            blocks = ("".join(f"{word}\tO\n" for word in text.split()) for text in texts)
            (tmp_path / form / f"{split}.conll").write_text("\n".join(blocks), "utf-8")
        return tmp_path / form

    return of_splits


@pytest.mark.parametrize("form", ["rows", "words"])
def test_of_a_task_the_training_texts_are_selected_by(tmp_path, inline, jsonl, of_splits, form):
    """The same selection as by a file of them, and dev and test are said to be left out."""
    folder = of_splits(form)
    corpus = jsonl("corpus.jsonl", prose("market", 60) + prose("task", 30, seed=5))
    given = {"corpus": corpus, "method": "dsir", "fraction": 0.3}
    plain = jsonl("plain.jsonl", prose("task", 40, 0))
    corpusfit.select(target=plain, out=tmp_path / "plain-out", machine=inline, **given)
    heard = Listening()
    machine = type(inline)(progress=heard)
    corpusfit.select(target=folder, out=tmp_path / "out", machine=machine, **given)
    assert digests(tmp_path / "out", "scores") == digests(tmp_path / "plain-out", "scores")
    assert sum("dev and test" in note for note in heard.notes) == 1


def test_a_file_of_words_and_tags_is_a_target(tmp_path, inline, jsonl, of_splits):
    corpus = jsonl("corpus.jsonl", prose("market", 60) + prose("task", 30, seed=5))
    run = corpusfit.select(
        target=of_splits("words") / "dev.conll", corpus=corpus, method="dsir", fraction=0.3,
        out=tmp_path / "out", machine=inline,
    )  # fmt: skip
    assert {row["source"] for row in run} == {"corpus.jsonl"}


def test_a_folder_without_a_training_split_is_read_whole(tmp_path, inline, jsonl):
    for name in ("dev", "test"):
        folder = jsonl(f"texts/{name}.jsonl", prose("task", 20, seed=len(name))).parent
    corpus = jsonl("corpus.jsonl", prose("market", 60))
    run = corpusfit.select(
        target=folder, corpus=corpus, method="dsir", out=tmp_path / "out", machine=inline
    )
    assert len(run.manifest["target"]) == 2
