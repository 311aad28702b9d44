"""The command line: help, what goes to which stream, exit codes, and the small commands."""

import gzip
import io
import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from journeys import WORDS, prose, write_rows

import corpusfit
from corpusfit.cli import demo, main
from corpusfit.cli.app import JOURNEY, app
from corpusfit.core import registry
from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.plan import DEFAULT_FRACTION
from corpusfit.ranking import ranking
from corpusfit.scoring.methods import dsir
from corpusfit.scoring.names import METHODS
from corpusfit.scoring.names import names as method_names


def commands():
    """The commands by name, whether the application is made at once or when it is needed."""
    group = typer.main.get_command(app) if isinstance(app, typer.Typer) else app
    context = group.make_context("corpusfit", ["methods"], resilient_parsing=True)
    return {name: group.get_command(context, name) for name in group.list_commands(context)}


COMMANDS = commands()
OURS = [name for names in JOURNEY.values() for name in names]
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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_of_the_command_itself(cli, command):
    done = cli(command, "--help")
    assert done == cli(command, "-h")
    assert (done.code, done.err) == (0, "")
    assert "Example:" in done.out
    example = done.out.split("Example:\n\n")[1].split("\n\n")[0]
    lines = [line for line in example.splitlines() if "corpusfit " in line]
    assert lines[0].startswith(f"    corpusfit {command}")
    assert all(line.startswith("    corpusfit ") for line in lines)
    assert all(line.count("corpusfit") == 1 for line in lines)
    options = {word for word in example.split() if word.startswith("--")}
    known = done.out.partition("Options:")[2] + cli("choose", "--help").out
    assert [option for option in options if f"  {option}" not in known] == []
    assert "--json" in done.out
    assert max(map(len, done.out.replace(example, "").splitlines())) <= 80


def test_several_values_of_an_option_are_told_to_repeat_it(cli):
    """As a shell makes them of `--corpus *.txt`."""
    done = cli("select", "--target", "a", "--corpus", "b", "c", "--out", "d")
    assert done.code == 2
    assert "--corpus A --corpus B" in done.err
    assert "--corpus A" not in cli("select", "--target", "a", "c", "--out", "d").err


def test_without_arguments_it_shows_the_commands(cli):
    done = cli()
    assert all(f"  {command}" in done.out + done.err for command in COMMANDS)
    assert "corpusfit demo" in done.out + done.err


def required(command):
    """The shortest command line that the parser takes."""
    words = [command.name]
    for param in command.params:
        if param.required:
            words += [param.opts[0]] if param.param_type_name == "option" else []
            words.append(f"no-{param.name}")
    return words


def wrong(done):
    """The one sentence that wrong usage gives."""
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err
    *before, sentence = done.err.strip().splitlines()
    assert not before or before[0].startswith("Usage: corpusfit")
    assert sentence.startswith("Error: ")
    return sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_does_not_exist_is_named(cli, command):
    assert "--nonsense" in wrong(cli(*required(COMMANDS[command]), "--nonsense", "5"))


@pytest.mark.parametrize("command", [n for n, c in COMMANDS.items() if len(required(c)) > 1])
def test_what_is_missing_is_named(cli, command):
    sentence = wrong(cli(command))
    first = next(p for p in COMMANDS[command].params if p.required)
    assert (first.metavar if first.param_type_name == "argument" else first.opts[0]) in sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_that_is_none_is_named_with_its_option(cli, command):
    numbers = [p for p in COMMANDS[command].params if p.metavar in ("N", "NUMBER")]
    for param in numbers:
        sentence = wrong(cli(*required(COMMANDS[command]), param.opts[0], "few"))
        assert param.opts[0] in sentence
        assert "'few'" in sentence


UNUSABLE = {
    "demo": (["--workers", "few"], "--workers", "few"),
    "fit": (["--time", "soon"], "--time", "soon"),
    "clusters": (["--k", "5;10"], "--k", "5;10"),
    "select": (["--fraction", "1.5"], "--fraction", "1.5"),
    "choose": (["--policy", "best"], "--policy", "best"),
    "explain": (["--top", "few"], "--top", "few"),
    "rank": (["--fraction", "1.5"], "--fraction", "1.5"),
    "methods": (["knm"], "method", "knm"),
    "split": (["--dev", "few"], "--dev", "few"),
    "contamination": (["--workers", "0"], "--workers", "0"),
    "adapt": (["--model", "m", "--replay-share", "2.5"], "--replay-share", "2.5"),
    "evaluate": (["--train-size", "1;2"], "--train-size", "1;2"),
    "report": (["--nothing"], "--nothing", "--nothing"),
    "cache": (["clean"], "action", "clean"),
}


@pytest.mark.parametrize("command", OURS)
def test_a_value_that_is_not_allowed_is_named_with_its_option(cli, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, option, value = UNUSABLE[command]
    sentence = wrong(cli(*required(COMMANDS[command]), *arguments))
    assert option in sentence
    assert value in sentence
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["selct"], "select"),
        (["methods", "knm"], "Did you mean 'knn'?"),
        (["methods", "quality"], "field:quality"),
        (["choose", "x", "--fraction", "0.1", "--tokens", "5"], "(--fraction) and `choose.tokens`"),
        (["choose", "x", "--set", "cut.gamma=5"], "cut.gamma"),
        (["tune", "--budget", "30min"], "corpusfit fit"),
        (["score", "--unit", "page"], "corpusfit select"),
        (["cache", "prune"], "corpusfit cache clear"),
        (["cache", "prune", "--older-than", "30"], "corpusfit cache clear"),
    ],
)
def test_a_cure_is_named(cli, arguments, says):
    assert says in wrong(cli(*arguments))


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("adapt", ["--rate", "1e-4"], "--learning-rate"),
        ("adapt", ["--steps=5"], "--max-steps"),
        ("adapt", ["--set", "train.rate=1e-4"], "`train.learning_rate` (--learning-rate)"),
        ("adapt", ["--set", "train.clip=1"], "`train.max_grad_norm`"),
        ("evaluate", ["--rate", "1e-4"], "--learning-rate"),
        ("evaluate", ["--set", "finetune.warmup=0"], "`finetune.warmup_steps`"),
    ],
)
def test_the_former_name_of_a_setting_is_refused_with_the_new_one(cli, command, old, new):
    assert new in wrong(cli(*required(COMMANDS[command]), *old))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seed", "-1"], "(--seed) must be"),
        (["--set", "foo=3"], "or seed; got 'foo'. "),
        (["--policy", "lambda"], "here use continuous"),
        (["--set", "method.k=3"], "`method.name` (--method)"),
        (["--method", "knn", "--set", "method.kk=3"], "kk"),
        (["--method", "knn", "--set", "method.k=0"], "method.k"),
        (["--fraction", "120%"], "got 1.2"),
        (["--engine", "spark"], "(--engine) must be one of local, inline, ray; got 'spark'"),
        (["--workers", "0"], "(--workers) must be 1 or more"),
        (["--plan", "nowhere.toml"], "(--plan) must be a readable TOML file; nowhere.toml"),
        (["--policy", "resample", "--threshold", "1"], "(--threshold) must be left out"),
    ],
)
def test_wrong_settings_leave_no_folder(cli, inputs, tmp_path, arguments, says):
    done = cli("select", *inputs, "--out", tmp_path / "out", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert says in done.err
    assert not (tmp_path / "out").exists()


PRINTED = {
    "methods": "random",
    "cache": "list",
    "split": "--data {task} --dev 5 --out {new}",
    "contamination": "--task {task} --data {pile}",
}
OF_A_RUN = {
    "choose": ["--segments", "7"],
    "explain": ["--text", "kinase"],
    "report": [],
}


@pytest.mark.parametrize("command", PRINTED)
def test_json_is_one_object(cli, command, task, pile, tiny_static, tmp_path):
    for side in ("de", "en"):
        text = "\n".join(f"{side} {text}" for text in prose("kitchen", 30))
        (tmp_path / f"pairs.{side}").write_text(text, "utf-8")
    places = {"task": task, "pile": pile, "static": tiny_static, "new": tmp_path / "new"}
    places["pairs"] = tmp_path / "pairs"
    words = [word.format(**places) for word in PRINTED[command].split()]
    assert only_json(cli(command, *words, "--json"))


def test_json_of_a_run_is_one_object(cli, inputs, tmp_path):
    out = tmp_path / "out"
    only_json(cli("select", *inputs, "--out", out, "--method", "random", "--json"))
    for command, arguments in OF_A_RUN.items():
        assert only_json(cli(command, out, *arguments, "--json"))


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
    arguments += ("--set", "cut.pieces=256")
    done = cli(*arguments, "--target", few, "--json")
    assert only_json(done)["warnings"]
    assert done.err.startswith("Warning: The target has only 3 different texts")
    failed = cli(*arguments, "--target", few, "--seed", 3, "--json")
    assert (failed.code, failed.out) == (1, "")
    assert "seed was 0, is 3" in failed.err
    quiet = cli(*arguments, "--target", few, "--quiet", "--seed", 1, "--overwrite")
    assert quiet.err.startswith("Warning: The target has only 3 different texts")
    assert [line for line in quiet.err.splitlines() if not line.startswith("Warning: ")] == []
    assert "Selected: " in quiet.out


@pytest.mark.parametrize(
    ("between", "texts", "named"),
    [
        ("\n\n", 30, "lines (`read.txt=lines` (--set read.txt=lines)"),
        ("\n", 30, "one per line (`read.txt=blocks` (--set read.txt=blocks)"),
        (" ", 1, "pass `read.txt=lines` (--set read.txt=lines)"),
    ],
)
def test_how_a_text_file_is_divided_is_said(cli, pile, tmp_path, between, texts, named):
    (tmp_path / "task.txt").write_text(between.join(prose("task", 30)))
    words = ("--target", tmp_path / "task.txt", "--corpus", pile, "--method", "random")
    done = cli("select", *words, "--out", tmp_path / "o", "--no-report")
    assert f" {texts} different text" in done.err
    assert named in done.err


@pytest.mark.parametrize(("texts", "noted"), [(2, True), (1, False)])
def test_many_text_files_of_several_paragraphs_may_be_a_document_each(cli, tmp_path, texts, noted):
    for number in range(20):
        own = prose("market", texts, seed=number)
        (tmp_path / f"pile/{number}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / f"pile/{number}.txt").write_text("\n\n".join(own))
    words = ("--target", tmp_path / "pile", "--corpus", tmp_path / "pile", "--method", "random")
    done = cli("select", *words, "--out", tmp_path / "o", "--no-report")
    assert done.code == 0
    assert len(re.findall(r"--set read\.txt=file", done.err)) == 2 * noted


def test_a_run_for_people(cli, inputs, pile, tmp_path):
    (pile / "broken.jsonl").write_text('{"text": "good one"}\n{"text"\n')
    out = tmp_path / "out"
    amount = ("--segments", 226, "--set", "cut.pieces=256")
    done = cli("select", *inputs, "--out", out, "--method", "random", *amount)
    assert done.code == 0
    assert done.err.startswith("452 rows read: 451 scored, 1 rejected; 451 units, 451 segments.\n")
    assert f"1 row rejected: malformed JSON (see {out / 'rejects.jsonl'})" in done.err
    assert "Method: random." in done.err
    assert done.out.startswith("Selected: 226 segments, about ")
    table = [line.split() for line in done.out.splitlines() if ".jsonl" in line]
    assert {row[0] for row in table} == {p.name for p in pile.iterdir()} - {"broken.jsonl"}
    assert "1 other source" in done.err
    assert sum(int(row[-4]) for row in table) == 226


def test_the_composition_of_many_sources_is_shortened(cli, task, jsonl, tmp_path):
    for i in range(33):
        jsonl(f"many/{i}.jsonl", prose("market", 2, seed=i))
    done = cli(
        *("select", "--target", task, "--corpus", tmp_path / "many", "--method", "random"),
        *("--out", tmp_path / "out", "--fraction", 1),
    )
    assert done.out.count(".jsonl") == 30
    assert "3 more sources" in done.err


@pytest.mark.parametrize("method", ["random", "domain_cosine"])
def test_a_dry_run_writes_nothing(cli, inputs, tmp_path, tiny_static, method):
    arguments = ("select", *inputs, "--method", method, "--dry-run")
    arguments += ("--set", "cut.pieces=256")
    before = sorted(p.name for p in tmp_path.rglob("*"))
    done = cli(*arguments, "--embedder", tiny_static)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("3 files, ")
    assert "nothing was written" in done.err
    found = only_json(cli(*arguments, "--embedder", tiny_static, "--json"))
    assert set(found) == {
        *("sources", "stored_mb", "text_mb", "units", "seconds", "workers", "memory_mb"),
        *("devices", "disk_mb"),
    }
    assert found.pop("devices") == 0
    assert found["sources"] == 3
    assert 150 <= found["units"] <= 900
    assert min(found.values()) > 0
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_a_dry_run_projects_each_kind_of_file(tmp_path, inline):
    """Text is a third of a file's bytes, all of another's, and many times those of the archive."""
    task = write_rows(tmp_path / "task.jsonl", prose("task", 40))
    rows = [{"text": text, "other": 2 * text} for text in prose("task", 12_000)]
    lines = write_rows(tmp_path / "c/a.jsonl", rows).read_bytes()
    (tmp_path / "c/b.jsonl.gz").write_bytes(gzip.compress(30 * lines))
    (tmp_path / "c/c.txt").write_text("\n\n".join(row["text"] for row in 3 * rows))
    found = corpusfit.select.dry_run(
        target=task, corpus=tmp_path / "c", method="random", machine=inline
    )
    characters = 34 * sum(len(row["text"]) for row in rows)
    assert found["text_mb"] == pytest.approx(characters / 1e6, rel=0.05)


def test_output_into_a_file_that_is_not_utf_8(monkeypatch, inline_cli):
    """As of Windows: letters that it lacks are replaced."""
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["corpusfit", "methods"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    out.flush()
    assert b"isolation_forest" in out.buffer.getvalue()


def test_methods(cli):
    done = cli("methods")
    assert done.code == 0
    assert "corpusfit methods NAME" in done.err
    found = only_json(cli("methods", "--json"))["methods"]
    assert [m["name"] for m in found] == method_names()
    for method in found:
        assert method["name"] in done.out
        assert method.keys() >= {"family", "reads", "needs", "what", "settings"}
        assert method["what"]


def test_methods_without_those_of_a_broken_package(cli, monkeypatch):
    broken = EntryPoint("far", "no_such_module", METHODS.group)
    monkeypatch.setattr(
        registry, "_entries", lambda group: {"far": broken} if group == METHODS.group else {}
    )
    done = cli("methods")
    assert done.code == 0
    assert "cynical" in done.out
    assert "no_such_module" in done.err
    assert cli("methods", "far").code == 1


@pytest.mark.parametrize("name", method_names())
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


def test_rank_leaves_out_what_cannot_be_fitted(cli, pile, jsonl, monkeypatch):
    def fit(*_, **__):
        raise InputError("the target has too few words")

    monkeypatch.setattr(dsir.Dsir, "fit", fit)
    words = jsonl("words.jsonl", WORDS["task"])
    arguments = ("rank", "--target", words, "--corpus", pile)
    named = ("--method", "moore_lewis", "--method", "dsir", "--method", "random")
    done = cli(*arguments, *named, "--json")
    assert {v["method"] for v in only_json(done)["ranking"]} == {"moore_lewis", "random"}
    assert "Warning: dsir is left out of the ranking: the target has" in done.err
    failed = cli(*arguments, "--method", "dsir")
    assert (failed.code, failed.out) == (1, "")
    assert "Error: the target has too few words" in failed.err


@pytest.mark.parametrize("target", [["one text alone"], prose("task", 9, seed=1)])
def test_rank_refuses_a_target_without_two_texts_to_hold_out(cli, pile, jsonl, target):
    """One text; texts of the corpus. Others beside them are enough."""
    path = jsonl("few.jsonl", target)
    arguments = ("rank", "--target", path, "--corpus", pile, "--method", "moore_lewis", "--json")
    failed = cli(*arguments)
    assert (failed.code, failed.out) == (1, "")
    assert "Add other texts" in failed.err
    jsonl("few.jsonl", [*target, *prose("task", 2)])
    assert {v["method"] for v in only_json(cli(*arguments))["ranking"]} == {"moore_lewis", "random"}


def test_rank(cli, inputs, tiny_static, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    named = ("--method", "random", "--method", "domain_cosine", "--method", "knn")
    arguments = ("rank", *inputs, "--embedder", tiny_static, *named)
    found = only_json(cli(*arguments, "--json"))
    assert {v["method"] for v in found["ranking"]} == {"random", "domain_cosine", "knn"}
    assert found["ranking"][-1]["method"] == "random"
    bits = {v["method"]: v["bits"] for v in found["ranking"]}
    assert list(bits) == sorted(bits, key=bits.get)
    best, *others = found["ranking"]
    assert best["behind"] == [0, 0, 0]
    for verdict in others:
        difference, low, high = verdict["behind"]
        assert low <= difference <= high
        assert difference == pytest.approx(verdict["bits"] - best["bits"])
    assert found["fraction"] == DEFAULT_FRACTION
    assert best["than_random"][2] < 0
    # of 450 units, a hundredth is too few to be evaluated
    curve = dict(best["curve"])
    assert list(curve) == [0.001, 0.01, 0.1, DEFAULT_FRACTION, 0.3]
    assert [share for share, figure in curve.items() if figure is None] == [0.001, 0.01]
    assert curve[DEFAULT_FRACTION] == best["bits"]
    assert found["likeness"]["words"] > 100
    assert not found["likeness"]["foreign"]
    other = only_json(cli(*arguments, "--fraction", 0.05, "--json"))
    assert other["fraction"] == 0.05
    shares = [share for share, figure in other["ranking"][0]["curve"] if figure is not None]
    assert shares == [0.05, 0.1, 0.3]
    (again,) = (v for v in other["ranking"] if v["method"] == best["method"])
    assert dict(again["curve"])[0.1] == curve[0.1]
    done = cli(*arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(found["findings"][0])
    assert sorted(tmp_path.rglob("*")) == before


def test_rank_leaves_out_what_cannot_be_used_unless_it_was_named(
    cli, inputs, tiny_static, monkeypatch
):
    def fit(*_, **__):
        raise UsageError("`method.order` has no file")

    monkeypatch.setattr(dsir.Dsir, "fit", fit)
    arguments = ("rank", *inputs, "--embedder", tiny_static)
    failed = cli(*arguments, "--method", "random", "--method", "dsir")
    assert (failed.code, failed.out) == (2, "")
    assert "Error: `method.order` has no file" in failed.err
    monkeypatch.setattr(ranking, "candidates", lambda: ["random", "dsir"])
    done = cli(*arguments, "--json")
    assert [v["method"] for v in only_json(done)["ranking"]] == ["random"]
    assert "Warning: dsir is left out of the ranking: `method.order`" in done.err


def test_the_methods_that_rank_compares_by_default():
    tried = ranking.candidates()
    assert {"knn", "moore_lewis", "domain_classifier", "blend", "cynical", "random"} <= {*tried}
    assert not {"fasttext", "field", "model", "oracle"} & {*tried}


def test_rank_compares_methods_that_score_the_corpus_as_a_whole(cli, inputs, tiny_static):
    named = ("cynical", "moore_lewis")
    arguments = (a for name in named for a in ("--method", name))
    found = cli("rank", *inputs, "--embedder", tiny_static, *arguments, "--json")
    ranking = {v["method"]: v for v in only_json(found)["ranking"]}
    assert {*ranking} == {*named, "random"}
    assert all(v["bits"] > 0 and v["seconds"] > 0 for v in ranking.values())


def test_a_plan_file_and_overrides(cli, inputs, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('seed = 4\n[cut]\nunit = "sentence"\n[method]\nname = "random"\n')
    arguments = ("--plan", plan, "--set", "cut.gamma=3", "--seed", 5)
    found = only_json(cli("select", *inputs, "--out", tmp_path / "out", *arguments, "--json"))
    assert found["plan"]["cut"] == {"unit": "sentence", "pieces": None, "gamma": 3}
    assert (found["plan"]["seed"], found["method"]["name"]) == (5, "random")


def test_words_of_the_api_are_checked_too(task, pile, tmp_path, inline):
    given = {"target": task, "corpus": pile, "out": tmp_path / "out", "machine": inline}
    with pytest.raises(corpusfit.CorpusfitError, match=r"fractoin.*fraction"):
        corpusfit.select(**given, fractoin=0.1)
    with pytest.raises(corpusfit.CorpusfitError, match=r"fraction.*got 'method'"):
        corpusfit.choose(tmp_path / "out", method="knn")
    with pytest.raises(corpusfit.CorpusfitError, match=r"cut\.gamma"):
        corpusfit.choose(tmp_path / "out", settings=["cut.gamma=5"])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_module_is_the_command(command, inputs, tmp_path):
    words = ("--out", tmp_path / "out", "--method", "random", "--workers", 1, "--json")
    done = command("select", *inputs, *words)
    assert only_json(done)["workers"] == 1
    assert not re.search(
        "warning|error", done.err, re.IGNORECASE
    )  # a slow stage tells its progress
    refused = command("select", "--fraction", 2)
    assert refused.code == 2
    assert refused.err.startswith("Usage: python -m corpusfit select")


@pytest.mark.slow
def test_demo_without_the_extra_train_stops_after_the_selection(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    found = only_json(cli("demo", "--out", tmp_path / "demo", "--json"))
    assert found["method"]["name"] == "cynical"
    assert found["precision"] > 4 * found["chance"]
    assert "losses" not in found
    own = only_json(cli("demo", "--out", tmp_path / "demo", "--method", "random", "--json"))
    assert own["method"]["name"] == "random"


@pytest.mark.slow
def test_demo(cli, tmp_path, monkeypatch):
    """All of it, but for the number and the length of its trainings."""
    monkeypatch.setitem(demo.CONTINUED, "replicates", 2)
    for training in (demo.BASE, demo.CONTINUED):
        monkeypatch.setitem(training, "max_steps", 2)
    done = cli("demo", "--out", tmp_path / "demo", "--seed", 3, "--json")
    found = only_json(done)
    run = corpusfit.open(tmp_path / "demo/fit/selection")
    hits = sum(s["segments"] for s in run if s["source"] == "network.jsonl")
    assert run.manifest["plan"]["seed"] == 3
    assert found["precision"] == hits / sum(s["segments"] for s in run)
    segments = run.manifest["selected"]["by_source"]["network.jsonl"]["segments"]
    assert found["recall"] == hits / segments
    assert 0 < found["chance"] < 0.5 < found["precision"]
    assert "100 docstrings" in done.err
    loss, _general, score = found["measures"]
    assert (loss["name"], loss["replicates"], score["name"]) == ("loss", 2, "score")
    manifest = json.loads((tmp_path / "demo/fit/models/selection-4/manifest.json").read_text())
    assert [Path(s["name"]).name for s in manifest["task"]] == ["heldout.jsonl"]
    counts = manifest["counts"]
    assert counts["guard"]["texts"] > counts["task"]["texts"] == 180  # and general text
    told = (tmp_path / "demo/fit/report.html").read_text("utf-8")
    for part in ("Verdict: ", "Selection: selection", "Loss on held-out text"):
        assert part in told
