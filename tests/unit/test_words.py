"""Helps, messages and documentation speak the glossary's words (tests/glossary.toml)."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import typer

from corpusfit import errors
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.api import offers
from corpusfit.cli.app import app
from corpusfit.errors import UsageError
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.explore.plan import ClustersPlan
from corpusfit.options import settings_of
from corpusfit.plan import Plan
from corpusfit.settings import Settings
from corpusfit.workflows.splitting.plan import SplitPlan
from corpusfit.workflows.tuning.plan import TunePlan

ROOT = Path(__file__).parents[2]
GLOSSARY = tomllib.loads((ROOT / "tests/glossary.toml").read_text("utf-8"))["words"]
TEXTS = ("help", "message", "string", "docs")
PLANS = {
    "select": Plan(),
    "adapt": AdaptPlan().with_value("model.name", "m"),
    "evaluate": EvaluatePlan().with_value("model.name", "m"),
    "clusters": ClustersPlan(),
    "split": SplitPlan().with_value("split.dev", 0.1),
    "tune": TunePlan().with_value("model.name", "m"),
}
DEFAULT = re.compile(r"\(default: ((?:[^()]|\([^()]*\))+)\)\.?$")


def found_in(text, kind):
    """The glossary's words in a text, with what to say in their place."""
    plain = " ".join(re.sub(r"`[^`]*`", "CODE", text).split())
    for entry in GLOSSARY:
        if kind in entry.get("where", TEXTS):
            for match in re.finditer(entry["not"], plain, re.IGNORECASE):
                near = plain[max(0, match.start() - 30) : match.end() + 30]
                yield f"{match[0]!r} (say {entry['say']}): …{near}…"


def commands():
    """The commands by name, whether the application is made at once or when it is needed."""
    group = typer.main.get_command(app) if isinstance(app, typer.Typer) else app
    context = group.make_context("corpusfit", ["methods"], resilient_parsing=True)
    return {name: group.get_command(context, name) for name in group.list_commands(context)}


COMMANDS = commands()
OPTIONS = [
    pytest.param(command, option, id=f"{name} {option.opts[0]}")
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and option.name != "help"
]


def help_of(command):
    context = command.make_context(command.name, [], resilient_parsing=True)
    return command.get_help(context)


def test_the_glossary_finds_its_bad_examples_and_not_its_good_ones():
    bad = {
        "And one back.": "help",
        "The only source of chance; 0 if not.": "help",
        "The same of the task, where it is another.": "help",
        "Share of the tokens that it makes; 0.05 if not.": "help",
        "Tell tensorboard, wandb or mlflow how it goes.": "help",
        "Beside it: assigned at random": "help",
        "to the letter": "docs",
        "had not come to rest": "message",
        "nothing can be said, of so few or so alike": "docs",
        "What was known beforehand": "string",
        "A blind guess finds 0.47 %": "string",
        "held against the first": "docs",
        "a pile of text": "docs",
        "vectors of who knows what": "docs",
        "nats a token": "string",
    }
    assert [text for text, kind in bad.items() if not [*found_in(text, kind)]] == []
    good = "Random seed (default: 0). Chance: 0.47 %. The Pile. `pile/`. nats per token. exact"
    assert [*found_in(good, "help")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_has_the_glossarys_words(name):
    help_text = help_of(COMMANDS[name])
    assert [*found_in(help_text, "help")] == []
    assert "[default:" not in help_text
    first = help_text.split("\n\n")[1].strip()
    assert first.endswith(".")
    assert len(first) <= 60


def test_the_list_of_commands_cuts_no_sentence(capsys):
    group = typer.main.get_command(app) if isinstance(app, typer.Typer) else app
    context = group.make_context("corpusfit", ["methods"], resilient_parsing=True)
    listed = group.get_help(context).split("Select text:")[1]
    assert "..." not in listed
    assert [*found_in(listed, "help")] == []


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_an_options_help_stands_alone_and_ends_with_its_default(command, option):
    assert option.help[0].isupper()
    assert not option.help.endswith(".")
    if option.is_flag:
        assert "default" not in option.help
        return
    assert option.metavar
    default = DEFAULT.search(option.help)
    assert bool(default) != option.required
    if default and option.default not in (None, ""):
        assert option.default == type(option.default)(default[1])
    offer = getattr(offers, command.name.upper(), None)
    setting = offer.settings.get(option.name) if isinstance(offer, offers.Offer) else None
    if default and setting and setting.default not in (None, "", "auto"):
        assert default[1].replace(",", "") == setting.shown_default.replace(",", "")


@pytest.mark.parametrize("command", PLANS)
def test_a_settings_description_stands_alone_and_its_default_has_words(command):
    wrong = []
    for setting in settings_of(type(PLANS[command])).values():
        option = setting.option
        words = (option.help, option.default, option.more)
        wrong += [complaint for text in words for complaint in found_in(text, "help")]
        if setting.default in (None, "") and not option.default:
            wrong.append(f"{setting.path}: no default in words")
        if any(text.endswith(".") for text in words) or not (
            option.help[0].isupper() or "`" in option.help[0]
        ):
            wrong.append(f"{setting.path}: {words}")
    assert wrong == []


WRONG = ([], "nonsense", -1, 0, 1, 2**70, -0.5, 2.5, float("nan"), float("inf"))
TOGETHER = [
    ("select", ["choose.fraction=0.1", "choose.tokens=5"], "choose.tokens"),
    ("select", ["choose.policy=resample", "choose.threshold=1.5"], "1.5"),
    ("select", ["method.k=3"], "auto with k"),
    ("select", ["choose.balance=cluster"], "nothing"),
    ("select", ["choose.clusters=c"], "'c'"),
    ("select", ["choose.balance=cluster", "choose.clusters=c", "choose.threshold=1.5"], "1.5"),
    ("select", ["cascade.recall=0.9"], "0.9"),
    ("select", ["cascade.stages=dsir"], "'dsir'"),
    ("select", ["cascade.stages=dsir:2>knn"], "2.0"),
    ("select", ["cascade.stages=dsir:0.2>tfidf:0.3>knn"], "0.3"),
    ("select", ["cascade.stages=dsir:0.2>tfidf>knn"], "dsir:0.2>tfidf>knn"),
    ("select", ["cascade.stages=dsir>knn:0.2"], "knn:0.2"),
    ("select", ["cascade.stages=dsir:0.2>knn", "cascade.recall=0.9"], "0.9"),
    ("select", ["cascade.stages=dsir>knn", "choose.policy=continuous"], "continuous"),
    ("select", ["cascade.stages=dsir>knn", "auto.budget=2h"], "2h"),
    ("select", ["auto.budget=2h", "method.name=knn"], "knn"),
    ("select", ["auto.budget=2 days"], "2 days"),
    ("select", ["fit.shares=a"], "'a'"),
    ("select", ["cut=5"], "5"),
    ("select", ["cut.gama=5"], "cut.gama"),
    ("select", ["gama"], "gama"),
    ("adapt", ["model.init=tiny"], "model.name=m model.init=tiny"),
    ("adapt", ["model.vocabulary=500"], "500"),
    ("adapt", ["model.name=", "model.init=tiny", "model.vocabulary=5"], "5"),
    ("adapt", ["objective.name=causal", "objective.whole_word=true"], "True"),
    ("adapt", ["weights.c=1.0"], "1.0"),
    ("adapt", ["train.steps=5", "train.epochs=2"], "train.steps=5"),
    ("adapt", ["model.name=", "model.init=tiny", "adapter.kind=lora"], "lora"),
    ("adapt", ["model.new_head=true", "adapter.kind=lora"], "lora"),
    ("evaluate", ["augment.kind=backtranslate"], "backtranslate"),
    ("evaluate", ["augment.mt=a"], "augment.mt=a"),
    ("clusters", ["mixture.k=5;10"], "5;10"),
    ("tune", ["search.budget=2 days"], "2 days"),
    ("tune", ["search.fractions=0.1,2"], "'2'"),
    ("tune", ["search.weights=lambda"], "lambda"),
    ("tune", ["model.init=tiny"], "model.init=tiny"),
    ("tune", ["fit.shares=a:1"], "a:1"),
]


def refusal(plan, overrides):
    """The message of a plan's check."""
    with pytest.raises(UsageError) as refused:
        plan.with_overrides(overrides).check()
    return str(refused.value)


@pytest.mark.parametrize("command", PLANS)
def test_the_check_of_every_setting_names_the_setting_and_the_value(command):
    """Wrong values for each setting; at least one is refused for each."""
    plan: Settings = PLANS[command]
    paths = [path for path in settings_of(type(plan)) if path != "method.options"]
    wrong = []
    for path in paths:
        refused = 0
        for value in WRONG:
            try:
                plan.with_value(path, value).check()
            except UsageError as e:
                refused += 1
                message = str(e)
                if path not in message:
                    wrong.append(f"{path} is not named: {message}")
                wrong += found_in(message, "message")
                if " must be " not in message:
                    wrong.append(f"no allowed value: {message}")
        if not refused:
            wrong.append(f"{path}: no value was refused")
    assert wrong == []


@pytest.mark.parametrize(("command", "overrides", "came"), TOGETHER)
def test_settings_that_exclude_each_other_are_refused_with_a_cure(command, overrides, came):
    message = refusal(PLANS[command], overrides)
    assert [*found_in(message, "message")] == []
    assert " must be " in message or message.endswith("exclude each other. Pass one.")
    assert came in message
    assert re.search(r"\. [A-Z]|\. .*\?", message.partition("; got ")[2] or message), (
        "no cure: " + message
    )


def test_the_catalogue_of_errors_has_the_glossarys_words():
    wrong = []
    for _, cls in inspect.getmembers(errors, inspect.isclass):
        wrong += found_in(inspect.getdoc(cls), "message")
    wrong += found_in(str(errors.MissingDependencyError("A report", "report")), "message")
    assert wrong == []


def literals(file):
    """(line, text) of the strings of a module that are sentences and no docstrings."""
    tree = ast.parse(file.read_text("utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    attributes = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(value) for value in node.values}
            text = "".join(v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
            yield node.lineno, text
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings | attributes | parts
        ):
            yield node.lineno, node.value


SOURCES = sorted((ROOT / "src/corpusfit").rglob("*.py"))


@pytest.mark.parametrize(
    "file", SOURCES, ids=lambda file: file.relative_to(ROOT / "src/corpusfit").as_posix()
)
def test_the_strings_of_a_module_have_the_glossarys_words(file):
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {complaint}"
        for line, text in literals(file)
        if " " in text.strip()
        for complaint in found_in(text, "string")
    ]
    assert wrong == []


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PAGES += sorted((ROOT / "src/corpusfit/report/templates").glob("*.html"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_the_glossarys_words(page):
    text = re.sub(r"^( *)```.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    wrong = []
    for paragraph in re.split(r"\n\s*\n|\n(?=[#|*-])", text):
        plain = re.sub(r"\]\([^)]*\)", "]", paragraph)
        wrong += [f"{page.relative_to(ROOT)}: {c}" for c in found_in(plain, "docs")]
    assert wrong == []
