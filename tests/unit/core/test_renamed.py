"""The names of training settings are those of transformers; former ones are refused with them."""

import dataclasses

import pytest

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.core.options import settings_of
from corpusfit.core.settings import RENAMED
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.training.plan import AdaptPlan

PLANS = {"train": AdaptPlan, "then_task": AdaptPlan, "finetune": EvaluatePlan}
FORMER = [
    (f"{group}.{old}", f"{group}.{new}")
    for group, plan in PLANS.items()
    for old, new in RENAMED.items()
    if new in settings_of(type(getattr(plan(), group)))
]


def test_the_names_are_those_of_transformers():
    transformers = pytest.importorskip("transformers", reason="the extra models is not installed")
    names = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    # those of the arguments of its example scripts, which its trainer does not have
    scripts = {"model", "out", "length"}
    assert {new for old, new in RENAMED.items() if old not in names} - scripts <= names
    train = settings_of(type(AdaptPlan().train))
    assert {*RENAMED.values()} - train.keys() == {"model", "out"}
    assert not train.keys() & RENAMED.keys()
    schedules = {kind.value for kind in transformers.SchedulerType}
    assert {*train["lr_scheduler_type"].option.allowed} <= schedules


@pytest.mark.parametrize(("old", "new"), FORMER)
def test_a_former_name_is_refused_with_the_new_one(old, new, tmp_path):
    plan = PLANS[old.partition(".")[0]]()
    value = settings_of(type(plan))[new].default or 1
    with pytest.raises(UsageError) as refused:
        plan.with_value(old, value)
    assert str(refused.value) == f"`{old}` is called `{new}`."
    with pytest.raises(UsageError, match=f"`{new}`"):
        plan.with_overrides([f"{old}={value}"])
    (tmp_path / "plan.toml").write_text(f"{old} = {value!r}\n")
    with pytest.raises(UsageError, match=f"`{new}`"):
        plan.with_toml(tmp_path / "plan.toml")
    assert plan.with_value(new, value)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        ("adapt", {"data": "d", "out": "o", "rate": 1e-4}),
        ("adapt", {"data": "d", "out": "o", "steps": 3}),
        ("evaluate", {"task": "t", "out": "o", "rate": 1e-4}),
    ],
)
def test_a_former_keyword_is_refused_with_the_new_one(function, given):
    old = next(word for word in given if word in RENAMED)
    with pytest.raises(UsageError, match=f"^`{old}` is called `{RENAMED[old]}`"):
        getattr(corpusfit, function)(**given)


def test_a_rate_that_stays_has_the_name_of_what_it_does():
    with pytest.raises(UsageError, match=r"Perhaps constant_with_warmup\?"):
        AdaptPlan().with_overrides(["train.lr_scheduler_type=constant"]).train.check()
