"""What a budget allows, by constructed costs."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.plan import AutoPlan, MethodPlan, Plan
from corpusfit.selection.auto import pick
from corpusfit.selection.budget import (
    Decision,
    apply_decision,
    candidates,
    decide,
    format_duration,
    read_decision,
    write_decision,
)
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Run

COSTS = {"minilm": 9_000.0, "static": 100.0, "moore_lewis": 5.0}


def planned(budget, *more):
    more = ["embed.embedder=minilm", f"auto.budget={budget}", *more]
    return Plan().with_overrides(more).check()


@pytest.mark.parametrize(
    ("budget", "seconds"),
    [
        ("90s", 90),
        ("20min", 1_200),
        ("2h", 7_200),
        ("1.5h", 5_400),
        ("0.25 min", 15),
        ("0.50@1.20", 1_500),
        ("3@6", 1_800),
        ("", math.inf),
    ],
)
def test_a_budget_is_seconds_a_gigabyte(budget, seconds):
    assert AutoPlan(budget).seconds() == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    "budget",
    [
        "90",
        "h",
        "-1h",
        "0s",
        "0@1",
        "1@0",
        "1@",
        "@1",
        "1e3s",
        "nans",
        "2 hours",
        "1h30min",
        "2h\n",
    ],
)
def test_what_is_no_budget_is_refused(budget):
    with pytest.raises(UsageError, match=r"^`auto\.budget` must ") as e:
        AutoPlan(budget).check()
    assert repr(budget) in str(e.value)


def test_an_endless_budget_is_refused():
    with pytest.raises(UsageError, match=r"^`auto\.budget` must .*9999h"):
        AutoPlan("9" * 400 + "h").check()


def test_a_named_method_needs_no_budget():
    with pytest.raises(
        UsageError,
        match=r"^`auto\.budget` must .*90s with `method\.name=knn`.* Leave out `auto\.budget`",
    ):
        planned("90s", "method.name=knn")


@pytest.mark.parametrize(
    ("budget", "chosen", "measured"),
    [
        ("3h", "minilm", ["minilm"]),
        ("9000s", "minilm", ["minilm"]),
        ("20min", "static", ["minilm", "static"]),
        ("0.01@0.10", "static", ["minilm", "static"]),
        ("99s", "moore_lewis", ["minilm", "static", "moore_lewis"]),
        ("1s", "moore_lewis", ["minilm", "static", "moore_lewis"]),
    ],
)
def test_the_first_that_fits_and_nothing_after_it(budget, chosen, measured):
    found = decide(planned(budget), COSTS.get)
    assert found.chosen == chosen
    assert list(found.costs) == measured
    assert found.fits == (budget != "1s")


def test_if_nothing_fits_the_cheapest():
    slow_words = {**COSTS, "moore_lewis": 200.0}
    found = decide(planned("80s"), slow_words.get)
    assert (found.chosen, found.fits) == ("static", False)
    said = found.excess()
    for part in ("The budget 80s allows", "1.3 min per GB", "static", "1.7 min", "20 s (25%)"):
        assert part in said


def test_what_cannot_be_had_is_passed_over():
    found = decide(planned("20min"), {**COSTS, "static": None}.get)
    assert found.chosen == "moore_lewis"
    assert list(found.costs) == ["minilm", "moore_lewis"]


def test_static_is_tried_after_networks_only(tiny_static):
    assert candidates("minilm") == ["minilm", "static", "moore_lewis"]
    for static in ("static", "static:minilm", str(tiny_static)):
        assert candidates(static) == [static, "moore_lewis"]


def test_the_plan_follows_the_decision():
    plan = planned("20min", "cut.gamma=3")
    static = apply_decision(plan, decide(plan, COSTS.get))
    assert static == plan.with_value("embed.embedder", "static")
    words = apply_decision(plan, Decision("1s", 1.0, "moore_lewis", COSTS))
    assert words == plan.with_value("method.name", "moore_lewis")


def test_a_decision_names_budget_costs_and_choice():
    said = decide(planned("20min"), COSTS.get).sentence()
    for part in (
        "The budget 20min allows",
        "20.0 min per GB",
        "minilm takes 2.5 h",
        "static takes 1.7 min",
    ):
        assert part in said
    assert said.endswith("embeddings by static.")
    assert decide(planned("9s"), COSTS.get).sentence().endswith("(moore_lewis).")


def test_a_decision_holds_for_what_was_asked(tmp_path):
    folder, decision = SelectionFolder(tmp_path), decide(planned("20min"), COSTS.get)
    assert read_decision(folder, "this") is None
    write_decision(folder, decision, "this")
    assert read_decision(folder, "this") == decision
    assert read_decision(folder, "that") is None
    assert Decision(**dataclasses.asdict(decision)) == decision


@pytest.mark.parametrize(
    ("budget", "picked"),
    [("", "knn"), ("100s", "knn"), ("20s", "dsir"), ("5s", "dsir")],
)
def test_auto_picks_among_the_methods_that_fit(tmp_path, inline, budget, picked):
    folder = SelectionFolder(tmp_path)
    best = "dsir" if budget in ("20s", "5s") else "knn"
    figures = {"knn": (9.0, 50.0), "consensus": (9.5, 200.0), "dsir": (9.8, 10.0)}
    figures["random"] = (10.0, 5.0)
    ranking = [
        {"method": m, "bits": bits, "cost": cost, "behind": [bits - figures[best][0]] * 3}
        for m, (bits, cost) in figures.items()
    ]
    folder.fit.mkdir(parents=True)
    (folder.fit / "ranking.json").write_text(json.dumps(ranking))
    run = Run(inline, inline.start(), folder.work, planned(budget), [], [])
    sample = Sample(folder.fit, "not read")
    assert pick(run, folder, sample, sample).method == MethodPlan(picked)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.123, "0.12 s"), (9.0, "9 s"), (59.4, "59 s"), (90, "1.5 min"), (3.6e6, "1,000.0 h")],
)
def test_times_are_said_in_a_unit_that_suits(seconds, said):
    assert format_duration(seconds) == said
