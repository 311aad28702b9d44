"""The application: its version, its groups of commands, completion, and the cache command."""

import errno
import json
import os
import re
import time
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

import corpusfit
from corpusfit.cli import main
from corpusfit.cli.app import COMMANDS, JOURNEY, app
from corpusfit.cli.options import Command
from corpusfit.core.errors import StorageError


def run(*args, **env):
    return CliRunner().invoke(app, args, env=env)


def test_the_version_is_that_of_the_package():
    found = run("--version")
    assert found.exit_code == 0
    named = dict(line.split(" ", 1) for line in found.stdout.splitlines())
    assert named.keys() == {"corpusfit", "Python", "torch", "transformers", "devices"}
    assert version("corpusfit") == named["corpusfit"] == corpusfit.__version__
    assert "cpu" in named["devices"]


def test_help_lists_every_command_once_in_its_group():
    text = run("--help").stdout
    for title, names in JOURNEY.items():
        listed = text.partition(f"{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\w+) ", listed, re.M) == list(names)
    ours = [name for name, c in COMMANDS.items() if c.show.__module__.startswith("corpusfit.")]
    assert sorted(ours) == sorted(name for names in JOURNEY.values() for name in names)


@pytest.mark.parametrize(
    "words",
    [("evaluate", "--model", "a", "--model=b"), ("select", "--tokens", "1", "--tokens", "2")],
)
def test_a_repeated_option_of_one_value_is_warned_of(words):
    assert f"{words[1]} is given 2 times" in run(*words).stderr


def test_options_may_be_spelled_with_underscores():
    found = run("adapt", "--model", "m", "--data", "d", "--learning_rate", "much", "--dry_run")
    assert found.exit_code == 2
    assert "--learning-rate" in found.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("fit", "--learning-rate", "1"), "Commands that have it: adapt, evaluate"),
        (("fit", "--model_name_or_path", "m"), "Possible options: --model"),
        (("adapt", "--num_train_epochs", "1"), "Possible options: --epochs"),
        (("select", "--fractoin", "1"), "--fraction"),
    ],
)
def test_an_option_that_a_command_lacks_is_refused_with_what_has_it(words, named):
    found = run(*words)
    assert found.exit_code == 2
    assert named in " ".join(found.stderr.split())


def test_an_option_of_many_values_is_repeated(tmp_path):
    missing = [word for name in "ab" for word in ("--corpus", str(tmp_path / name))]
    found = run("select", "--target", str(tmp_path / "c"), *missing, "--out", str(tmp_path / "o"))
    assert "--corpus" not in found.stderr


DRY = {
    "select": ["--target", "a", "--corpus", "b"],
    "adapt": ["--data", "a", "--model", "b"],
    "evaluate": ["--task", "a", "--model", "b"],
    "fit": ["--task", "a", "--corpus", "b", "--model", "c"],
}


@pytest.mark.parametrize("name", DRY)
def test_only_a_dry_run_does_without_out(name, monkeypatch):
    function = getattr(corpusfit, name)
    seen = []
    monkeypatch.setitem(vars(function), "dry_run", lambda **words: seen.append(words) or {})
    monkeypatch.setitem(vars(COMMANDS[name]), "dry_run", lambda facts: None)
    assert run(name, *DRY[name], "--dry-run").exit_code == 0
    assert [words.keys() & {"out"} for words in seen] == [set()]
    found = run(name, *DRY[name])
    assert found.exit_code == 2
    assert "--out" in found.stderr


@pytest.mark.parametrize(
    ("words", "found"), [("corpusfit sel", "select"), ("corpusfit select --frac", "--fraction")]
)
def test_the_shell_completes_commands_and_options(words, found):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = run(prog_name="corpusfit", _CORPUSFIT_COMPLETE="complete_bash", **asked)
    assert found in done.stdout.split()


def test_cache_is_listed_and_cleared(tmp_path):
    (tmp_path / "surveys").mkdir()
    old, new = (tmp_path / f"surveys/{letter * 32}.json" for letter in "ab")
    for path, age in ((old, 10), (new, 0)):
        path.write_text("{}")
        os.utime(path, (time.time() - age * 86_400,) * 2)
    cache = ("cache", "--cache", str(tmp_path), "--json")
    listed = json.loads(run(*cache).stdout)
    assert [entry["path"] for entry in listed["entries"]] == [str(old), str(new)]
    removed = json.loads(run(*cache, "clear").stdout)
    assert removed["entries"] == listed["entries"][:1]
    assert (old.exists(), new.exists()) == (False, True)
    assert run(*cache, "nosuch").exit_code == 1


def test_a_fault_of_the_machine_is_an_error_with_a_cure_and_another_one_keeps_its_traceback(
    monkeypatch,
):
    for error, kind in (
        (OSError(errno.EMFILE, "Too many open files"), StorageError),
        (MemoryError(), StorageError),
        (json.JSONDecodeError("unexpected end", "{", 1), StorageError),
        (ValueError("Parquet magic bytes not found in footer."), StorageError),
        (FileNotFoundError(errno.ENOENT, "gone"), FileNotFoundError),
    ):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr(Command, "callback", fail)
        assert type(run("methods").exception) is kind


@pytest.mark.parametrize("words", [["{0}"], ["--{0}"], ["select", "--{0}"], ["select", "{0}"]])
def test_words_of_a_command_line_are_safe_to_show(words):
    shown = run(*(word.format("a\u202eb\x1b[2J") for word in words))
    assert shown.exit_code == 2
    assert not {"\u202e", "\x1b"} & {*shown.output}


@pytest.mark.parametrize("words", [["explain", "x" * 5000, "--text", "a"], ["report", "x" * 5000]])
def test_a_name_that_is_too_long_is_an_error_in_words(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["corpusfit", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (1, 2)
    assert capsys.readouterr().err.startswith("Error: ")
