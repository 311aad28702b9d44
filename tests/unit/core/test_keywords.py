"""The functions of the API: each option is a typed keyword, for editors and type checkers."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.core.keywords import MACHINE, Keywords
from corpusfit.core.options import settings_of

FUNCTIONS = {
    name: thing
    for name in corpusfit.__all__
    if inspect.isfunction(thing := getattr(corpusfit, name))
}
SCRIPT = """\
import corpusfit

run = corpusfit.select(
    target="t.jsonl",
    corpus="c.jsonl",
    out="out",
    fractoin=0.1,
    method="knn",
)
model = corpusfit.adapt(
    data=run.path,
    out="model",
    model="m",
    max_steps="many",
)
corpusfit.split(data="t", out="o", dev=10, near=True)
"""


ROOMS = ("selection", "training", "evaluation", "domains")
ROOMS += ("fitting", "ranking", "reporting", "text")
MODULES = {room: importlib.import_module(f"corpusfit.{room}.api") for room in ROOMS}
KEYWORDS = {
    name: keywords
    for module in MODULES.values()
    for name, keywords in vars(module).items()
    if isinstance(keywords, Keywords)
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_is_that_of_its_room(name):
    (room,) = [room for room, module in MODULES.items() if FUNCTIONS[name] in vars(module).values()]
    assert FUNCTIONS[name] is getattr(MODULES[room], name)
    package = importlib.import_module(f"corpusfit.{room}")
    assert name in package.__all__
    if importlib.util.find_spec(f"corpusfit.{room}.{name}") is None:
        assert getattr(package, name) is FUNCTIONS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_hides_its_keywords(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    hidden = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert [p for p in parameters.values() if p.kind in hidden] == []
    words = list(KEYWORDS[name.upper()].settings) if name.upper() in KEYWORDS else []
    words += MACHINE if "machine" in parameters else []
    assert [*parameters][-len(words) or len(parameters) :] == words
    assert all(f"    {word}: " in inspect.getdoc(FUNCTIONS[name]) for word in words)


def test_the_keywords_of_a_machine_stand_in_its_place(tmp_path):
    assert corpusfit.cache(cache=tmp_path) == corpusfit.cache(
        machine=corpusfit.Machine(cache=tmp_path)
    )
    with pytest.raises(UsageError, match=r"`cache` must be left out with `machine`"):
        corpusfit.cache(machine=corpusfit.Machine(), cache=tmp_path)
    with pytest.raises(UsageError, match="`workers` must be 1 or more"):
        corpusfit.contamination(task=["a"], data=["b"], workers=0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_keyword_is_refused(name, tmp_path):
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    needed = {p.name: str(tmp_path) for p in parameters if p.default is p.empty}
    with pytest.raises((UsageError, TypeError), match="nosuch"):
        FUNCTIONS[name](**needed, nosuch=2)


def test_a_similar_keyword_is_named(tmp_path):
    for function in (corpusfit.explain, corpusfit.contamination):
        needed = {"out": tmp_path} if function is corpusfit.explain else {"task": "a", "data": "b"}
        with pytest.raises(UsageError, match="workers"):
            function(**needed, worker=2)


@pytest.mark.slow
def test_mypy_finds_a_wrong_keyword_and_a_wrong_type(tmp_path):
    """With the settings and the cache of `make types`, so that only the script is checked anew."""
    script = tmp_path / "user.py"
    script.write_text(SCRIPT, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-pretty", script],
        cwd=Path(__file__).parents[3],
        check=False,
        capture_output=True,
        text=True,
    )
    errors = [line.split(": error: ") for line in done.stdout.splitlines() if ": error: " in line]
    places = [Path(place).name for place, _ in errors]  # the cache keeps an earlier run's folder
    assert places == ["user.py:3", "user.py:14"], done.stdout
    assert "fractoin" in errors[0][1]
    assert "max_steps" in errors[1][1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"fraction": 2}, "`choose.fraction` "),
        ({"settings": ["choose.fraction=2"]}, "`choose.fraction` "),
        ({"plan": "plan.toml"}, "`choose.fraction` "),
        ({"settings": ["choose.c=-1"]}, "`choose.c` "),
    ],
)
def test_an_error_names_a_setting_by_its_path(tmp_path, monkeypatch, given, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text("choose.fraction = 2\n")
    with pytest.raises(UsageError) as refused:
        corpusfit.select(target="t", corpus="c", out="o", **given)
    assert str(refused.value).startswith(f"{named}must be ")
    assert "--" not in str(refused.value)


@pytest.mark.parametrize("name", ["SELECT", "ADAPT", "EVALUATE", "CLUSTERS", "SPLIT"])
def test_a_word_names_one_setting_of_a_plan(name):
    keywords = KEYWORDS[name]
    words = [setting.option.word for setting in settings_of(keywords.plan).values()]
    offered = [setting.path for setting in keywords.settings.values()]
    assert len(set(offered)) == len(offered)
    assert len(set(filter(None, words))) == len([*filter(None, words)]), words
    groups = [field for field in vars(keywords.plan()) if field != "seed"]
    assert groups == [getattr(keywords.plan(), group).group for group in groups]


def test_a_call_without_a_required_argument_says_what_it_is():
    with pytest.raises(UsageError, match="`out` must be given: folder"):
        corpusfit.select(["a"], ["b"])
    # the first clause of several lines
    with pytest.raises(UsageError, match=r"`task` must be given: .*texts\.$"):
        corpusfit.fit()
    with pytest.raises(UsageError, match="`corpus` must be given"):
        corpusfit.fit(task=["a"], out="out")


def test_where_no_setting_can_be_given_an_error_names_the_keyword():
    given = {"task": "t", "corpus": "c", "out": "o"}
    with pytest.raises(UsageError, match=r"^`kind` must be one of"):
        corpusfit.fit(**given, model="m", kind="taging")
    with pytest.raises(UsageError, match=r"`model` must be given.*`model="):
        corpusfit.fit(**given)


def test_an_unknown_keyword_is_refused_with_all_that_there_are():
    with pytest.raises(UsageError, match=r"task, corpus, .* method, .* model"):
        corpusfit.fit(task="t", corpus="c", out="o", model="m", learning_rate=1)
    with pytest.raises(UsageError, match="`model_name_or_path` is called `model`"):
        corpusfit.fit(task="t", corpus="c", out="o", model_name_or_path="m")
