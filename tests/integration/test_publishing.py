"""Selections and models on a local server that answers as the Hugging Face hub does."""

import json
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

import corpusfit
from corpusfit.core.errors import StorageError, UsageError
from corpusfit.core.escaping import harmless
from corpusfit.core.manifest import FORMAT, Finished
from corpusfit.selection import publishing as cards
from corpusfit.training.adapting import Adapted

pytest.importorskip("huggingface_hub")


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


def test_a_selection_becomes_a_dataset_with_its_card(run, hub):
    url = run.push_to_hub("me/chosen")

    made = hub["me/chosen"]
    assert url.endswith("/datasets/me/chosen")
    assert (made["kind"], made["private"]) == ("dataset", True)
    assert set(made["files"]) == {"README.md", "selected/part-00000.jsonl.zst"}
    assert made["files"]["README.md"] == (run.path / "README.md").read_bytes()


def test_another_selection_takes_the_place_of_the_first(run, hub):
    run.push_to_hub("me/chosen")
    old = {"selected/part-00007.jsonl.zst": b"old", "mine.txt": b"stays"}
    hub["me/chosen"]["files"].update(old)
    run.push_to_hub("me/chosen")
    names = {"README.md", "selected/part-00000.jsonl.zst", "mine.txt"}
    assert set(hub["me/chosen"]["files"]) == names


def test_the_command_prints_the_url(run, hub, cli):
    done = cli("push", run.path, "me/chosen", "--public", "--json")
    assert json.loads(done.out)["url"].endswith("/datasets/me/chosen")
    assert not hub["me/chosen"]["private"]


def test_a_selections_card_says_which_held_out_texts_are_in_it(run, hub, cli, tmp_path):
    held_out = [next(iter(run))["text"], "Nobody has ever written this sentence before today."]
    task = tmp_path / "test.jsonl"
    task.write_text("".join(json.dumps({"words": text}) + "\n" for text in held_out), "utf-8")
    cli("push", run.path, "me/chosen", "--task", task, "--task-field", "words")
    card = hub["me/chosen"]["files"]["README.md"].decode()
    assert "Held-out texts of `test.jsonl` in these texts: 1 of 2 of test.jsonl. 1 of 10" in card
    assert "were not compared" not in card
    compared = corpusfit.contamination(task=task, data=run, task_field="words")
    run.push_to_hub("me/again", compared=compared)
    assert hub["me/again"]["files"]["README.md"].decode() == card
    run.push_to_hub("me/chosen")
    assert "were not compared" in hub["me/chosen"]["files"]["README.md"].decode()


def test_without_a_login_the_cure_is_to_log_in(run, hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(StorageError, match="nobody is logged in"):
        run.push_to_hub("me/chosen")
    assert hub == {}


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
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    for ours in ("manifest.json", ".corpusfit/run.json", "eval/manifest.json", "notes/mine.txt"):
        (folder / ours).parent.mkdir(exist_ok=True)
        (folder / ours).write_text(json.dumps({"format": FORMAT, "where": "/home/me"}))
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


def evaluation(model: Path) -> Finished:
    scores = {"model": 0.625, "base": 0.5}
    return Finished(
        Path("eval"),
        {
            "command": "evaluate",
            "repeat": ["corpusfit", "evaluate", "--model", str(model)],
            "task": {"name": "chemprot", "test": 546},
            "metric": "micro_f1",
            "unit": "points",
            "seeds": 4,
            "results": [
                {"model": name, "size": 0, "test": {"micro_f1": {"mean": mean}}}
                for name, mean in scores.items()
            ],
            "comparisons": [
                {
                    "size": 0,
                    "difference": 0.125,
                    "low": 0.01,
                    "high": 0.2,
                    "verdict": "better by 12.5 points (p = 0.010)",
                }
            ],
        },
    )


def test_a_model_has_its_verdict_and_what_was_left_out_in_its_card(tmp_path, hub):
    guard = {"texts": 546, "data": {"texts": 900, "holders": 3, "held": 2}}
    from huggingface_hub import ModelCard

    adapted = model(tmp_path, guard=guard)

    adapted.push_to_hub("me/adapted", public=True, evaluations=[evaluation(tmp_path)])

    made = hub["me/adapted"]
    assert (made["kind"], made["private"]) == ("model", False)
    assert set(made["files"]) == {"README.md", "config.json", "model.safetensors"}
    card = made["files"]["README.md"].decode()
    assert (
        "| all | 62.5 | 50.0 | +12.5 (+1.0 to +20.0) | better by 12.5 points (p = 0.010) |" in card
    )
    (result,) = ModelCard(card).data.eval_results  # as the hub reads its header
    assert (result.dataset_name, result.metric_value) == ("chemprot", 0.625)
    assert "3 training texts" in card
    assert "| task | 3.000 | 2.500 |" in card
    assert "/home/me" not in card


def test_a_card_of_a_model_says_that_nothing_was_found(tmp_path, hub):
    guard = {"texts": 546, "data": {"texts": 900, "holders": 0, "held": 0}}
    model(tmp_path, guard=guard).push_to_hub("me/adapted")
    card = hub["me/adapted"]["files"]["README.md"].decode()
    assert "None of 900 training texts contains one of 546 held-out texts." in card


def test_a_model_is_not_compared_when_it_is_pushed(tmp_path, hub, cli):
    manifest = model(tmp_path).manifest
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    done = cli("push", tmp_path, "me/adapted", "--task", "task.jsonl")
    assert done.code == 2
    assert "(--task) must be left out with a model" in done.err
    assert hub == {}


def test_a_sentence_encoder_has_its_pooling_on_the_hub(tmp_path, hub):
    adapted = model(tmp_path, "tsdae")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text("{}")
    adapted.push_to_hub("me/encoder")
    files = hub["me/encoder"]["files"]
    assert set(files) == {
        *("README.md", "config.json", "model.safetensors"),
        "1_Pooling/config.json",
    }
    assert "library_name: sentence-transformers" in files["README.md"].decode()


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/home/me/a.jsonl", "a.jsonl"),
        ("pair:/home/me/a.de,/home/me/a.en", "pair:a.de,a.en"),
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


def test_a_run_of_another_command_is_no_evaluation(run, tmp_path, hub):
    with pytest.raises(UsageError):
        model(tmp_path).push_to_hub("me/adapted", evaluations=[run])
    assert hub == {}


def test_the_evaluation_of_another_model_is_refused(tmp_path, hub):
    with pytest.raises(UsageError):
        model(tmp_path).push_to_hub("me/adapted", evaluations=[evaluation(tmp_path / "other")])
    assert hub == {}


@pytest.mark.slow  # the library asks several times
def test_without_a_login_nothing_is_made(run, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(StorageError):
        run.push_to_hub("me/chosen")
    assert hub == {}


def test_scores_without_a_selection_are_not_published(run, hub):
    scored = corpusfit.Selection(run.path, {**run.manifest, "command": "score", "selected": None})
    with pytest.raises(UsageError):
        scored.push_to_hub("me/chosen")


def test_a_card_has_the_bits_of_an_evaluation_in_their_unit(tmp_path, hub):
    found = evaluation(tmp_path)
    bits = {
        **found.manifest,
        "unit": "bits per byte",
        "results": [
            {"model": name, "size": 0, "test": {"micro_f1": {"mean": -bits}}}
            for name, bits in (("model", 0.8521), ("base", 0.95))
        ],
    }
    evaluations = [Finished(found.path, bits)]
    model(tmp_path).push_to_hub("me/adapted", evaluations=evaluations)
    card = hub["me/adapted"]["files"]["README.md"].decode()
    assert "| all | 0.8521 | 0.9500 | +0.1250 (+0.0100 to +0.2000) |" in card
