"""A name that corpusfit had is refused with what to do instead."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import corpusfit
from corpusfit.cli.app import COMMANDS, app
from corpusfit.core import registry
from corpusfit.core.errors import UsageError
from corpusfit.core.gone import GONE, gone, moved
from corpusfit.core.manifest import Finished


@pytest.mark.parametrize("name", [name for name in GONE if " " not in name])
def test_a_public_name_of_before_is_refused_with_what_to_do_instead(name):
    with pytest.raises(AttributeError, match=re.escape(GONE[name])):
        getattr(corpusfit, name)
    assert name not in COMMANDS


@pytest.mark.parametrize("name", GONE)
def test_what_to_do_instead_exists(name):
    commands = re.findall(r"`corpusfit (\w+)", GONE[name])
    public = re.findall(r"`corpusfit\.(\w+)", GONE[name])
    assert {*commands} <= COMMANDS.keys()
    assert {*public} <= {*corpusfit.__all__}


OPTIONS = [name for name in GONE if " --" in name and name.split()[0] in COMMANDS]


@pytest.mark.parametrize("typed", ["report DIR DIR", *OPTIONS])
def test_what_a_command_no_longer_takes_is_refused(typed):
    done = CliRunner().invoke(app, typed.split())
    assert done.exit_code == 2
    assert GONE[typed] in " ".join(done.output.split())


@pytest.mark.parametrize("typed", ["adapt --time", "rank --seeds", "select --weights"])
def test_a_keyword_of_before_is_refused_with_what_to_do_instead(typed):
    function, word = typed.split(" --")
    with pytest.raises(UsageError, match=re.escape(GONE[typed])):
        getattr(corpusfit, function)(**{word: 1})


def test_in_python_one_page_shows_one_run():
    with pytest.raises(UsageError, match="each folder"):
        corpusfit.report(["a", "b"])


def test_a_name_that_never_was_has_no_sentence():
    assert not gone("nosuch")


def test_a_method_of_before_is_refused_with_what_to_do_instead():
    run = Finished(Path("out"), {})
    with pytest.raises(AttributeError, match="hf upload"):
        _ = run.push_to_hub
    assert not hasattr(run, "nosuch")


@pytest.mark.parametrize("name", ["Composition", "compose", "run"])
def test_a_public_name_that_moved_is_refused_with_its_package(name):
    with pytest.raises(AttributeError, match="pip install corpusfit-papers"):
        getattr(corpusfit, name)


@pytest.mark.parametrize("name", ["compose", "run"])
def test_without_its_package_a_command_that_moved_is_refused_with_it(name, monkeypatch):
    monkeypatch.setattr(registry, "_entries", lambda group: {})
    done = CliRunner().invoke(app, [name, "recipe.toml"])
    assert done.exit_code != 0
    assert moved(name) in f"{done.output} {done.exception}"
    assert f"  {name} " not in CliRunner().invoke(app, ["--help"]).output
