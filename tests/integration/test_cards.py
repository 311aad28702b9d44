"""The cards of selections and models, README.md in their folders."""

from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

import corpusfit
from corpusfit.core.escaping import harmless
from corpusfit.selection import publishing as cards
from corpusfit.training.adapting import Adapted


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return corpusfit.select(
        target=[f"The protein binds receptor {n} of the cell." for n in range(20)],
        corpus={"bio": [f"The enzyme {n} binds." for n in range(40)]},
        out=folder / "out",
        method="moore_lewis",
        fraction=0.25,
        machine=corpusfit.Machine("inline", cache=folder),
    )


def test_a_readme_of_the_users_own_stays(run, tmp_path):
    (tmp_path / "README.md").write_text("mine", "utf-8")
    cards.write_selection_card(tmp_path, run.manifest)
    assert (tmp_path / "README.md").read_text("utf-8") == "mine"


def test_a_card_does_not_tell_the_folders_of_this_machine(run):
    card = (run.path / "README.md").read_text("utf-8")
    assert str(run.path.parent) not in card
    assert "10 of 40 segments" in card
    assert "| `bio.jsonl` | 40 | 10 |" in card
    assert "corpusfit contamination --task" in card


def test_a_command_that_repeats_a_run_sets_no_embedder_that_is_not_used(run):
    assert "cut.pieces" in " ".join(run.manifest["repeat"])
    assert "embed.embedder" not in " ".join(run.manifest["repeat"])


def test_the_card_of_a_model_says_what_was_selected_from_what(run, tmp_path):
    adapted = model(tmp_path)
    selection = {name: run.manifest[name] for name in cards.SELECTED}
    cards.write_model_card(tmp_path, {**adapted.manifest, "selection": selection})
    card = (tmp_path / "README.md").read_text("utf-8")
    for fact in ("10 of 40 segments", "| `bio.jsonl` | 40 | 10 |", "Method: moore", "Target: `"):
        assert fact in card
    assert "part-00000" not in card


def test_a_name_ends_neither_its_cell_nor_its_quotes(run, tmp_path):
    counts = {"segments": 40, "selected": 10, "tokens": 5}
    selected = {**run.manifest["selected"], "by_source": {"a|b`c\n": counts}}
    cards.write_selection_card(tmp_path, {**run.manifest, "selected": selected})
    assert "| `a¦b'c\N{REPLACEMENT CHARACTER}` | 40 |" in (tmp_path / "README.md").read_text(
        "utf-8"
    )


def model(folder: Path, objective="mlm", **counts) -> Adapted:
    losses = {"task": 3.0}, {"task": 2.5}
    manifest = {
        "command": "adapt",
        "corpusfit": "0.1.0",
        "base": {"name": "/models/bert-tiny"},
        "plan": {"seed": 0, "objective": {"name": objective}},
        "words": "mlm for 60 steps.",
        "data": [{"name": "part-00000.jsonl.zst"}],
        "losses": dict(zip(("before", "after"), losses, strict=True)),
        "counts": counts,
        "repeat": ["corpusfit", "adapt", "--data", "/home/me/out", "--set", 'model.name="/m/b"'],
    }
    return Adapted(folder, manifest)


def test_a_name_changes_nothing_else_of_a_card(tmp_path):
    """The header is YAML, the rest Markdown, and both are those of PyYAML and markdown-it."""
    foe = "a\nlicense: mit\n---\n\n# b\n```\n<b>c</b> [d](javascript:e) \x1b[2J"
    manifest = model(tmp_path).manifest
    words = {"base": {"name": foe}, "words": foe, "repeat": ["corpusfit", foe], "corpusfit": foe}
    losses = {"before": {foe: 3.0}, "after": {foe: 2.0}}
    cards.write_model_card(tmp_path, {**manifest, **words, "losses": losses})
    _, header, body = (tmp_path / "README.md").read_text("utf-8").split("---\n", 2)
    assert yaml.safe_load(header) == {"tags": ["corpusfit"], "base_model": harmless(foe)}
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(body)
    every = [inner.type for token in tokens for inner in (token, *(token.children or ()))]
    assert every.count("heading_open") == every.count("fence") == 1
    assert not {"html_block", "html_inline", "link_open"} & {*every}
    assert "\x1b" not in body


@pytest.mark.parametrize(
    ("holders", "said"),
    [
        (3, "3 training texts"),
        (0, "None of 900 training texts contains one of 546 held-out texts."),
    ],
)
def test_a_model_has_what_was_left_out_in_its_card(tmp_path, holders, said):
    guard = {"texts": 546, "data": {"texts": 900, "holders": holders, "held": 0}}
    cards.write_model_card(tmp_path, model(tmp_path, guard=guard).manifest)
    card = (tmp_path / "README.md").read_text("utf-8")
    assert said in card
    assert "| task | 3.000 | 2.500 |" in card
    assert "/home/me" not in card


def test_a_sentence_encoder_names_its_library(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    cards.write_model_card(tmp_path, model(tmp_path).manifest)
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "library_name: sentence-transformers" in card


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/home/me/a.jsonl", "a.jsonl"),
        ("pair:/home/me/a.de,/home/me/a.en", "pair:a.de,a.en"),
        ("run:/home/me/words", "run:words"),
        ("file:///home/me/x.jsonl", "x.jsonl"),
        ("hub:/home/me/box@train", "box@train"),
        ("/home/me/lang=de/x.jsonl", "x.jsonl"),
        ("https://me:pass@h/x?token=SECRET", "https://h/x"),
        ("s3://key:secret@bucket/x", "s3://bucket/x"),
        ('model.name="/home/me/bert"', "model.name=bert"),
        ("train.learning_rate=0.0003", "train.learning_rate=0.0003"),
        ("hub:owner/name@train", "hub:owner/name@train"),
        ("bert-base-uncased", "bert-base-uncased"),
    ],
)
def test_a_word_of_the_command_shows_no_folder_and_no_secret(word, shown, run, tmp_path):
    cards.write_selection_card(tmp_path, {**run.manifest, "repeat": ["corpusfit", "select", word]})
    assert f"corpusfit select {shown} --out" in (tmp_path / "README.md").read_text("utf-8")
