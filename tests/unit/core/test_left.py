"""What earlier versions had is refused with what to do instead."""

import re

import pytest
from typer.testing import CliRunner

import corpusfit
from corpusfit.cli.app import app
from corpusfit.core import registry
from corpusfit.core.errors import UsageError
from corpusfit.core.gone import SETTINGS
from corpusfit.core.plan import Plan
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.training.plan import AdaptPlan

PLANS = {
    "objective": AdaptPlan,
    "task": EvaluatePlan,
    "likelihood": EvaluatePlan,
    "adapter": AdaptPlan,
    "embed": Plan,
    "finetune": EvaluatePlan,
    "mix": AdaptPlan,
    "decode": EvaluatePlan,
    "read": Plan,
    "then_task": AdaptPlan,
    "train": AdaptPlan,
}
NAMES = [name for name in SETTINGS if name.partition(".")[0] in PLANS]


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_or_a_value_that_left_is_refused(name, monkeypatch):
    """With no other package installed, whose values they may be."""
    monkeypatch.setattr(registry, "_entries", lambda group: {})
    plan = PLANS[name.partition(".")[0]]()
    given = name if "=" in name else f"{name}=1"
    with pytest.raises(UsageError, match=re.escape(SETTINGS[name])):
        getattr(plan.with_overrides([given]), name.partition(".")[0]).check()


def test_a_value_of_a_keyword_that_left_is_refused():
    words = {"task": "t", "corpus": "c", "out": "o", "model": "m", "objective": "simcse"}
    with pytest.raises(UsageError, match="tsdae"):
        corpusfit.fit(**words)


def test_an_option_that_left_is_refused():
    words = ["evaluate", "--task", "t", "--model", "m", "--out", "o", "--shots", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert SETTINGS["shots"] in " ".join(done.output.split())
