"""A package of three files, those of docs/extending.md, adds a part of each kind."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from journeys import WORDS, prose, write_rows

import corpusfit
from corpusfit.cli.app import COMMANDS
from corpusfit.contracts import check_objective, check_task_type
from corpusfit.core import registry
from corpusfit.core.errors import PackageError
from corpusfit.evaluation import tasks
from corpusfit.text import contract
from corpusfit.training import objectives

PAGE = Path(__file__).parents[2] / "docs/extending.md"


def install(folder, files, name, entries):
    """What pip makes of a package: its files, and what importlib.metadata reads."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    info = folder / f"{name}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    groups = (
        f"[{group}]\n" + "".join(f"{key} = {module}\n" for key, module in named.items())
        for group, named in entries.items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def site(tmp_path_factory, monkeypatch):
    """A folder of installed packages, which are forgotten afterwards."""
    folder = tmp_path_factory.mktemp("site")
    caches = (registry._entries, contract.formats, tasks.load, objectives.load)
    monkeypatch.syspath_prepend(folder)
    before = dict(COMMANDS)
    for cached in caches:
        cached.cache_clear()
    yield folder
    for cached in caches:
        cached.cache_clear()
    for name in COMMANDS.keys() - before:
        del COMMANDS[name]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("bars", "bent")]:
        del sys.modules[name]


@pytest.fixture
def bars(site):
    """The package of the page."""
    toml, *modules, tests = re.findall(
        r"^```(?:toml|python)\n(.*?)^```", PAGE.read_text(), re.M | re.S
    )
    project = tomllib.loads(toml)["project"]
    files = dict(zip(("bars/__init__.py", "bars/parts.py"), modules, strict=True))
    install(site, files, project["name"], project["entry-points"])
    found = {}
    exec(compile(tests, PAGE, "exec"), found)
    return found


@pytest.fixture
def run_with_bars(bars, tmp_path, cli):
    """A selection of a format of the package by a method of the package."""
    target = write_rows(tmp_path / "task.jsonl", prose("task", 40))
    texts = [*prose("market", 100), *prose("task", 100, seed=1)]
    rows = [f"{i}|{text}\n" for i, text in enumerate(texts)]
    (tmp_path / "corpus.psv").write_text("id|text\n" + "".join(rows))
    out = tmp_path / "out"
    words = ("--method", "shared", "--fraction", "0.2", "--no-report")
    sides = ("--target", target, "--corpus", tmp_path / "corpus.psv")
    assert cli("select", *sides, "--out", out, *words).code == 0
    return out


def test_a_format_a_method_and_a_command(run_with_bars, cli):
    """A selection of texts with the target's words, which the command prints."""
    chosen = [segment["text"] for segment in corpusfit.open(run_with_bars)]
    assert len(chosen) > 5
    assert not {*WORDS["market"]} & {word for text in chosen for word in text.split()}
    found = cli("head", run_with_bars, "--count", "2", "--json")
    assert json.loads(found.out) == {"texts": chosen[:2]}
    printed = cli("head", run_with_bars)
    assert printed.out.splitlines() == [" ".join(text.split()) for text in chosen[:3]]


def test_its_tests_pass(bars, tmp_path):
    bars["test_the_method"]()
    bars["test_the_format"](tmp_path)


def test_commands_of_packages_are_listed_by_package(bars, cli):
    listed = cli("--help").out.partition("\nbars:\n")[2]
    assert re.findall(r"^  (\w+) ", listed.partition("\n\n")[0], re.M) == ["head"]
    assert "Did you mean 'head'" in cli("heat").err


def test_a_core_command_looks_for_no_package(bars, cli, monkeypatch):
    """Neither entry points nor modules of a package, for help and for wrong usage."""
    monkeypatch.setattr(registry, "_entries", pytest.fail)
    assert cli("select", "--help").code == 0
    assert cli("adapt", "--model", "m", "--data", "a", "--out", "b", "--batch", "-1").code == 2
    assert "bars" not in sys.modules


BROKEN = {
    "bent/no_module.py": "import nosuch_module",
    "bent/no_command.py": "",
    "bent/two.py": "from corpusfit.training.objectives.causal import Causal\n"
    "class A(Causal): pass\nclass B(Causal): pass\n",
}


def test_a_broken_package_is_in_nobody_s_way(site, cli):
    """Help and other commands work; what is broken is one sentence that names the package."""
    entries = {
        "corpusfit.commands": {"bend": "bent.no_module", "curl": "bent.no_command"},
        "corpusfit.objectives": {"two": "bent.two", "none": "bent.no_command"},
        "corpusfit.tasks": {"gone": "bent.no_module"},
    }
    install(site, BROKEN, "bent-parts", entries)
    listed = cli("--help")
    assert listed.code == 0
    assert listed.out.partition("\nbent-parts:\n")[2].count("broken") == 2
    assert cli("methods", "--json").code == 0
    for name in ("bend", "curl"):
        found = cli(name)
        assert found.code == 1
        assert "pip uninstall bent-parts" in found.err
        assert found.err.count("\n") == 1
    for load, name in ((objectives.load, "two"), (objectives.load, "none"), (tasks.load, "gone")):
        with pytest.raises(PackageError, match="bent-parts"):
            load(name)


@pytest.mark.slow
def test_an_objective_and_a_kind_of_task(run_with_bars, tmp_path):
    """A model that is trained on the endings of texts alone, and probed with loose labels."""
    adapted = corpusfit.adapt(
        init="tiny",
        objective="ending",
        data=run_with_bars,
        out=tmp_path / "adapted",
        max_steps=2,
        batch=2,
        length=32,
        settings=["train.device=cpu", "train.evaluations=1", "model.vocabulary=300"],
    )
    assert adapted.manifest["words"].startswith("ending for 2 steps")
    for split, n in (("train", 8), ("dev", 4), ("test", 4)):
        texts = [(label, text) for label in ("bio", "BIO", "Money") for text in prose("task", n)]
        rows = [{"text": text, "label": label} for label, text in texts]
        write_rows(tmp_path / f"task/{split}.jsonl", rows)
    evaluated = corpusfit.evaluate(
        model=adapted.path,
        task=tmp_path / "task",
        kind="loose",
        out=tmp_path / "evaluated",
        seeds=1,
        frozen=True,
        settings=["finetune.device=cpu"],
    )
    assert evaluated.manifest["task"]["kind"] == "loose"
    assert evaluated.manifest["task"]["labels"] == ("bio", "money")
    check_task_type("loose", tmp_path / "task")
    check_objective("ending", str(adapted.path), str(run_with_bars), tmp_path / "checked")
