"""The command line: help, what goes to which stream, exit codes, and the small commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from journeys import digests, prose

import corpusfit
from corpusfit import Selection
from corpusfit.cli.app import app
from corpusfit.pipeline import commands, ranking
from corpusfit.pipeline.cost_model import Gigabyte
from corpusfit.score import registry

COMMANDS = [c.callback.__name__ for c in app.registered_commands]
SELECTED = {"out", "counts", "selected", "plan", "method", "warnings", "seconds", "corpus"}


@pytest.fixture
def inputs(task, pile):
    return ("--target", task, "--corpus", pile)


def only_json(done):
    """The one JSON object that standard output holds."""
    assert done.code == 0, done.err
    assert done.out.endswith("}\n")
    assert done.out.count("\n") == 1
    return json.loads(done.out, parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))


def test_the_commands():
    assert set(COMMANDS) >= {"demo", "select", "score", "choose", "rank", "methods"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_of_the_command_itself(cli, command):
    done = cli(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Example:" in done.out
    example = done.out.split("Example:")[1].split("Options:")[0]
    lines = [line for line in example.splitlines() if "corpusfit " in line]
    assert lines[0].startswith(f"    corpusfit {command}")
    assert all(line.startswith("    corpusfit ") for line in lines)
    assert all(line.count("corpusfit") == 1 for line in lines)
    assert "--json" in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_use_options_that_exist(cli, command):
    helped = cli(command, "--help").out
    example = helped.split("Example:")[1].split("Options:")[0]
    for word in example.split():
        if word.startswith("--"):
            assert f"  {word}" in helped.split("Options:")[1] or word in cli("choose", "--help").out


def test_without_arguments_it_shows_the_commands(cli):
    done = cli()
    assert all(f"  {command}" in done.out + done.err for command in COMMANDS)
    assert "corpusfit demo" in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["select"], "Missing option"),
        (["selct"], "select"),
        (["select", "--methud", "knn"], "--methud"),
        (["methods", "knm"], "Did you mean 'knn'?"),
        (["rank", "--target", "x", "--corpus", "y", "--seeds", "few"], "--seeds"),
        (["rank", "--target", "x", "--corpus", "y", "--seeds", "0"], "--seeds must be 1 or more"),
        (["choose", "x", "--fraction", "2"], "--fraction must be in (0, 1]; got 2.0."),
        (["choose", "x", "--fraction", "0.1", "--tokens", "5"], "--fraction and --tokens"),
        (["choose", "x", "--weights", "best"], "--weights must be one of top, continuous"),
        (["choose", "x", "--set", "cut.gamma=5"], "cut.gamma"),
    ],
)
def test_wrong_usage_is_worded_and_exits_with_2(cli, arguments, says):
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seed", "-1"], "seed must be"),
        (["--seed", str(2**63)], "seed must be"),
        (["--unit", "page"], "--unit must be one of window, sentence"),
        (["--set", "cut.gama=3"], "Perhaps cut.gamma?"),
        (["--set", "cut.gamma"], "--set must be KEY=VALUE; got 'cut.gamma'"),
        (["--set", "method.k=3"], "--method must be named"),
        (["--method", "knn", "--set", "method.kk=3"], "kk"),
        (["--method", "knn", "--set", "method.k=0"], "method.k"),
        (["--threshold", "nan"], "--threshold must be a finite number"),
        (["--threshold", "inf"], "--threshold must be a finite number"),
        (["--set", "choose.c=nan"], "choose.c must be"),
        (["--set", "choose.alpha=inf"], "choose.alpha must be"),
        (["--set", "read.shard_mb=inf"], "read.shard_mb must be"),
        (["--segments", "0"], "--segments must be above 0"),
        (["--engine", "spark"], "--engine must be local or ray; got 'spark'"),
        (["--workers", "0"], "--workers must be 1 or more"),
        (["--plan", "nowhere.toml"], "--plan must be a readable TOML file; nowhere.toml"),
        (["--weights", "resample", "--threshold", "1"], "--threshold must be left out"),
    ],
)
def test_wrong_settings_leave_no_folder(cli, inputs, tmp_path, arguments, says):
    done = cli("select", *inputs, "--out", tmp_path / "out", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert says in done.err
    assert not (tmp_path / "out").exists()


def test_select_and_choose_as_json(cli, inputs, tmp_path):
    out = tmp_path / "out"
    found = only_json(cli("select", *inputs, "--out", out, "--method", "random", "--json"))
    assert found.keys() >= SELECTED
    assert found["out"] == str(out)
    assert {k: v for k, v in found.items() if k != "out"} == json.loads(
        (out / "manifest.json").read_text()
    )
    chosen = only_json(cli("choose", out, "--segments", 7, "--json"))
    assert chosen["selected"]["segments"] == 7
    again = only_json(cli("choose", out, "--tokens", 300, "--json"))
    assert again["selected"]["tokens"] <= 300


def test_warnings_and_errors_leave_standard_output_to_json(cli, pile, jsonl, tmp_path):
    few = jsonl("few.jsonl", prose("task", 3))
    arguments = ("select", "--corpus", pile, "--out", tmp_path / "o", "--method", "random")
    done = cli(*arguments, "--target", few, "--json")
    assert only_json(done)["warnings"]
    assert done.err.startswith("Warning: The target has only 3 different texts")
    failed = cli(*arguments, "--target", few, "--seed", 3, "--json")
    assert (failed.code, failed.out) == (1, "")
    assert "seed was 0, is 3" in failed.err


def test_a_run_for_people(cli, inputs, pile, tmp_path):
    (pile / "broken.jsonl").write_text('{"text": "good one"}\n{"text"\n')
    out = tmp_path / "out"
    done = cli("select", *inputs, "--out", out, "--method", "random", "--fraction", 0.5)
    assert done.code == 0
    assert done.err.startswith("452 rows read: 451 scored, 1 rejected; 451 units, 451 segments.\n")
    assert f"1 rows rejected: malformed JSON (see {out / 'rejects.jsonl'})" in done.err
    assert "Method: random." in done.err
    assert done.out.startswith("Selected: 226 segments, about ")
    table = [line.split() for line in done.out.splitlines() if ".jsonl" in line]
    assert {row[0] for row in table} == {p.name for p in pile.iterdir()}
    assert sum(int(row[-4]) for row in table) == 226


def test_score_says_how_to_go_on(cli, inputs, tmp_path):
    out = tmp_path / "out"
    done = cli("score", *inputs, "--out", out, "--method", "random")
    assert (done.code, done.out) == (0, "")
    assert f"corpusfit choose {out}" in done.err
    scored = only_json(cli("score", *inputs, "--out", out, "--method", "random", "--json"))
    assert scored["selected"] is None
    assert cli("choose", out).code == 0
    assert digests(out, "selected")


def test_the_composition_of_many_sources_is_shortened(cli, task, jsonl, tmp_path):
    for i in range(33):
        jsonl(f"many/{i}.jsonl", prose("market", 2, seed=i))
    done = cli(
        *("select", "--target", task, "--corpus", tmp_path / "many", "--method", "random"),
        *("--out", tmp_path / "out"),
    )
    assert done.out.count(".jsonl") == 30
    assert "… and 3 more sources; all are in manifest.json." in done.err


@pytest.mark.parametrize("command", ["select", "score"])
@pytest.mark.parametrize("method", ["random", "domain_cosine"])
def test_a_dry_run_writes_nothing(cli, inputs, tmp_path, tiny_static, command, method):
    out = tmp_path / "out"
    arguments = (command, *inputs, "--out", out, "--method", method, "--dry-run")
    before = sorted(p.name for p in tmp_path.rglob("*"))
    done = cli(*arguments, "--embedder", tiny_static)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("3 files, ")
    assert "nothing was written" in done.err
    found = only_json(cli(*arguments, "--embedder", tiny_static, "--json"))
    assert set(found) == {
        *("sources", "stored_mb", "text_mb", "units", "seconds", "workers", "memory_mb"),
        "disk_mb",
    }
    assert found["sources"] == 3
    assert 150 <= found["units"] <= 900
    assert min(found.values()) > 0
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_methods(cli):
    done = cli("methods")
    assert (done.code, done.err) == (0, "One method in full: corpusfit methods NAME\n")
    found = only_json(cli("methods", "--json"))["methods"]
    assert [m["name"] for m in found] == registry.names()
    for method in found:
        assert method["name"] in done.out
        assert method.keys() >= {"family", "reads", "needs", "what", "settings"}
        assert method["what"]


@pytest.mark.parametrize("name", registry.names())
def test_a_method_in_full(cli, name):
    done = cli("methods", name)
    assert done.code == 0
    assert done.out.startswith(f"`{name}")
    assert re.search(r"\((19|20)\d\d[a-z]?\)|section \d", done.out)  # where it is from
    lines = done.out.splitlines()
    settings = only_json(cli("methods", name, "--json"))["methods"][0]["settings"]
    for setting, value in settings.items():
        shown = f"  {setting} = {value!r}"
        (line,) = (line for line in lines if line.startswith(shown))
        assert line.removeprefix(shown).strip()  # what it means


def test_rank_leaves_out_what_cannot_be_fitted(cli, pile, jsonl):
    words = jsonl("words.jsonl", [f"kinase{i}" for i in range(30)])
    arguments = ("rank", "--target", words, "--corpus", pile, "--seeds", 2)
    named = ("--method", "tfidf", "--method", "ngram_coverage", "--method", "random")
    done = cli(*arguments, *named, "--json")
    assert {v["method"] for v in only_json(done)["ranking"]} == {"tfidf", "random"}
    assert "Warning: ngram_coverage is left out of the ranking: method.order must be" in done.err
    failed = cli(*arguments, "--method", "ngram_coverage")
    assert (failed.code, failed.out) == (1, "")
    assert "Error: method.order must be at most the number of words" in failed.err


def test_rank(cli, inputs, tiny_static, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    named = ("--method", "random", "--method", "domain_cosine", "--method", "knn")
    arguments = ("rank", *inputs, "--embedder", tiny_static, "--seeds", 2, *named)
    found = only_json(cli(*arguments, "--json"))
    assert found["seeds"] == 2
    assert {v["method"] for v in found["ranking"]} == {"random", "domain_cosine", "knn"}
    assert found["ranking"][-1]["method"] == "random"
    for verdict in found["ranking"]:
        for figure in ("agreement", "f1", "auroc", "ap"):
            mean, deviation = verdict[figure]
            assert 0 <= mean <= 1
            assert deviation >= 0
    best = {v["method"]: v["auroc"][0] for v in found["ranking"]}
    assert best["domain_cosine"] > best["random"]
    done = cli(*arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Ranking of methods (mean ± standard deviation over seeds)")
    assert done.out.count(" ± ") >= 3 * 4
    assert sorted(tmp_path.rglob("*")) == before


def test_rank_shows_what_a_gigabyte_takes(cli, inputs, tiny_static, monkeypatch):
    monkeypatch.setattr(Gigabyte, "encoding", lambda *_: 7.2e9)
    named = ("--method", "tfidf", "--method", "domain_cosine", "--method", "random")
    arguments = ("rank", *inputs, "--embedder", tiny_static, "--seeds", 1, *named)
    costs = {v["method"]: v["cost"] for v in only_json(cli(*arguments, "--json"))["ranking"]}
    assert 0 < costs["tfidf"] < 7.2e9
    assert costs["domain_cosine"] == pytest.approx(7.2e9, rel=1e-3)
    lines = {line.split()[0]: line for line in cli(*arguments).out.splitlines() if line.split()}
    assert lines["method"].endswith("a GB")
    assert lines["domain_cosine"].endswith("2,000,000.0 h")


def test_rank_leaves_out_what_cannot_be_used_unless_it_was_named(
    cli, inputs, tiny_static, monkeypatch
):
    arguments = ("rank", *inputs, "--embedder", tiny_static, "--seeds", 1)
    failed = cli(*arguments, "--method", "random", "--method", "domain_finetune")
    assert (failed.code, failed.out) == (2, "")
    assert "Error: method.embedder must be a transformer" in failed.err
    monkeypatch.setattr(commands, "candidates", lambda: ["random", "domain_finetune"])
    done = cli(*arguments, "--json")
    assert [v["method"] for v in only_json(done)["ranking"]] == ["random"]
    assert "Warning: domain_finetune is left out of the ranking: method.embedder" in done.err


def test_what_rank_tries_without_being_told():
    tried = ranking.candidates()
    assert {"knn", "tfidf", "cluster_ratio", "domain_classifier", "blend", "random"} <= {*tried}
    assert not {"pyod", "domain_finetune", "textrank", "textgram", "oracle"} & {*tried}


@pytest.mark.slow
def test_rank_with_a_transformer(cli, inputs, tiny_encoder):
    arguments = ("--method", "domain_cosine", "--method", "centroid_distance", "--seeds", 1)
    found = only_json(cli("rank", *inputs, "--embedder", tiny_encoder, *arguments, "--json"))
    assert [v["auroc"][1] for v in found["ranking"]] == [0, 0]


def test_a_plan_file_and_overrides(cli, inputs, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('seed = 4\n[cut]\nunit = "sentence"\n[method]\nname = "random"\n')
    arguments = ("--plan", plan, "--set", "cut.gamma=3", "--seed", 5)
    found = only_json(cli("select", *inputs, "--out", tmp_path / "out", *arguments, "--json"))
    assert found["plan"]["cut"] == {"unit": "sentence", "pieces": 256, "gamma": 3}
    assert (found["plan"]["seed"], found["method"]["name"]) == (5, "random")


def test_words_of_the_api_are_checked_too(task, pile, tmp_path, inline):
    given = {"target": task, "corpus": pile, "out": tmp_path / "out", "machine": inline}
    with pytest.raises(corpusfit.CorpusfitError, match=r"fractoin.*fraction"):
        corpusfit.select(**given, fractoin=0.1)
    with pytest.raises(corpusfit.CorpusfitError, match=r"A setting of choose.*got 'method'"):
        corpusfit.choose(tmp_path / "out", method="knn")
    with pytest.raises(corpusfit.CorpusfitError, match=r"cut\.gamma"):
        corpusfit.choose(tmp_path / "out", settings=["cut.gamma=5"])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_module_is_the_command(command, inputs, tmp_path):
    words = ("--out", tmp_path / "out", "--method", "random", "--workers", 1, "--json")
    done = command("select", *inputs, *words)
    assert only_json(done)["workers"] == 1
    assert done.err == ""
    refused = command("select", "--fraction", 2)
    assert refused.code == 2
    assert refused.err.startswith("Usage: python -m corpusfit select")


@pytest.mark.slow
def test_demo(cli, tmp_path, tiny_static, monkeypatch):
    """All of it, but for the length of its trainings."""
    for name, value in (("STEPS", 5), ("SEEDS", 2), ("EPOCHS", 1)):
        monkeypatch.setattr(f"corpusfit.cli.demo.{name}", value)
    done = cli("demo", "--out", tmp_path / "demo", "--embedder", tiny_static, "--json")
    found = only_json(done)
    texts = (tmp_path / "demo/text/corpus/network.jsonl").read_text().splitlines()
    run = Selection(Path(found["out"]), found)
    hits = sum(s["source"] == "network.jsonl" for s in run)
    assert found["selected"]["segments"] == len(list(run)) == len(texts) > 100
    assert found["precision"] == hits / len(texts)
    assert found["recall"] == hits / found["selected"]["by_source"]["network.jsonl"]["segments"]
    assert 0 < found["chance"] < 0.5
    assert "Task: 100 docstrings of Python's network modules." in done.err
    judged = found["judged"]
    assert [r["size"] for r in judged["results"]] == [100, 100]
    told = (tmp_path / "demo/report.html").read_text("utf-8")
    for part in ("Did it help?", "Side by side", "Adapted models", "Selected: selected/selection"):
        assert part in told
    assert judged["task"]["labels"] == ["mail", "sockets", "web"]
    assert judged["comparisons"][0]["verdict"]
