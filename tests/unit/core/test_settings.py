"""Every setting is checked: a wrong value is refused in a message that names setting and value."""

import re

import pytest
import typer

import corpusfit
from corpusfit.cli.app import app
from corpusfit.core.errors import UsageError
from corpusfit.core.options import settings_of
from corpusfit.core.plan import Plan
from corpusfit.core.settings import Settings
from corpusfit.domains.plan import ClustersPlan
from corpusfit.evaluation.plan import EvaluatePlan, SplitPlan
from corpusfit.training.plan import AdaptPlan

PLANS = {
    "select": Plan(),
    "adapt": AdaptPlan().with_value("model.name", "m"),
    "evaluate": EvaluatePlan().with_value("model.name", "m"),
    "clusters": ClustersPlan(),
    "split": SplitPlan().with_value("split.dev", 0.1),
}
WRONG = ([], "nonsense", -1, 0, 1, 2**70, -0.5, 2.5, float("nan"), float("inf"))
TOGETHER = [
    ("select", ["choose.fraction=0.1", "choose.tokens=5"], "choose.tokens"),
    ("select", ["choose.policy=resample", "choose.threshold=1.5"], "1.5"),
    ("select", ["choose.balance=cluster"], "nothing"),
    ("select", ["choose.clusters=c"], "'c'"),
    ("select", ["choose.balance=cluster", "choose.clusters=c", "choose.threshold=1.5"], "1.5"),
    ("select", ["cut=5"], "5"),
    ("select", ["cut.gama=5"], "cut.gama"),
    ("select", ["gama"], "gama"),
    ("adapt", ["model.init=tiny"], "`model.name=m` `model.init=tiny`"),
    ("adapt", ["model.vocabulary=500"], "500"),
    ("adapt", ["model.tokenizer_characters=0"], "0"),
    ("adapt", ["model.name=", "model.init=tiny", "model.vocabulary=5"], "5"),
    ("adapt", ["objective.name=causal", "objective.whole_word=true"], "True"),
    ("adapt", ["train.max_steps=5", "train.epochs=2"], "train.max_steps=5"),
    ("adapt", ["model.name=", "model.init=tiny", "adapter.kind=lora"], "lora"),
    ("adapt", ["model.new_head=true", "adapter.kind=lora"], "lora"),
    ("clusters", ["mixture.k=5;10"], "5;10"),
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
                if " must be " not in message:
                    wrong.append(f"no allowed value: {message}")
        if not refused:
            wrong.append(f"{path}: no value was refused")
    assert wrong == []


@pytest.mark.parametrize(("command", "overrides", "came"), TOGETHER)
def test_settings_that_exclude_each_other_are_refused_with_a_cure(command, overrides, came):
    message = refusal(PLANS[command], overrides)
    assert " must be " in message or message.endswith("exclude each other. Pass one.")
    assert came in message
    assert re.search(r"\. [A-Z]|\. .*\?", message.partition("; got ")[2] or message), (
        "no cure: " + message
    )


def test_the_list_of_commands_cuts_no_sentence():
    group = typer.main.get_command(app) if isinstance(app, typer.Typer) else app
    context = group.make_context("corpusfit", ["methods"], resilient_parsing=True)
    assert "..." not in group.get_help(context).split("Select text:")[1]


def test_a_setting_that_left_is_refused_with_what_to_do_instead():
    cure = "cascade.*run:OUT"
    with pytest.raises(UsageError, match=cure):
        Plan().with_overrides(["cascade.stages=dsir>knn"])
    with pytest.raises(UsageError, match=cure):
        corpusfit.select(target="t", corpus="c", out="o", cascade="dsir>knn")
