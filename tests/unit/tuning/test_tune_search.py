"""The parts of `tune`: rungs, early stops, budgets, settings, and the division of the target."""

import dataclasses
import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.engine import Progress
from corpusfit.core.errors import InputError, UsageError
from corpusfit.tuning.plan import SearchPlan, TunePlan
from corpusfit.tuning.running import conclude, divide
from corpusfit.tuning.schedule import (
    RANDOM,
    Rung,
    Setting,
    grid,
    halving,
    is_behind,
    rounds,
    seconds_of,
    steps_within,
)
from corpusfit.tuning.search import EarlyStopError, Trial, TrialCallback, order

PLAN = TunePlan().with_value("model.name", "m")


@given(eta=st.integers(2, 5), power=st.integers(1, 4), budget=st.integers(1, 10**7))
def test_rungs_are_those_of_the_paper(eta, power, budget):
    """Jamieson and Talwalkar (2016), Figure 3: r_k = floor(B / (|S_k| ceil(log_eta n)))."""
    n = eta**power
    if budget // (n * power) < 1:
        return
    found = halving(n, budget, eta=eta, least=1)
    expected = [(n // eta**k, budget * eta**k // (n * power)) for k in range(power)]
    assert [(rung.trials, rung.steps) for rung in found] == expected


@given(
    settings=st.integers(2, 300),
    budget=st.integers(1, 10**6),
    eta=st.integers(2, 6),
    least=st.integers(1, 50),
)
def test_rungs_keep_to_the_budget(settings, budget, eta, least):
    assert rounds(settings, eta) == max(1, next(r for r in range(99) if eta**r >= settings))
    if budget < 2 * least:
        with pytest.raises(UsageError, match=f"at least {2 * least:,} steps"):
            halving(settings, budget, eta=eta, least=least)
        return
    found = halving(settings, budget, eta=eta, least=least)
    assert sum(rung.trials * rung.steps for rung in found) <= budget
    assert all(rung.steps >= least for rung in found)
    assert [r.passed for r in found] == [*(r.trials for r in found[1:]), 1]
    assert found[-1].trials >= 2
    more = found[0].trials + 1
    assert more > settings or budget // (more * rounds(more, eta)) < least


@pytest.mark.parametrize("seed", range(30))
def test_no_trial_that_could_pass_on_is_stopped(seed):
    """Brute force: a stopped trial is not among the best at its step, and enough trials remain."""
    chance = random.Random(seed)
    n, steps = chance.randint(2, 30), (2, 3, 4)
    passed = chance.randint(1, n)
    curves = [{step: chance.random() for step in (0, *steps)} for _ in range(n)]
    rung = Rung(n, 4, passed)
    found = []
    for i, curve in enumerate(curves):
        callback = TrialCallback(rung, found, 0.0, Progress(), Progress())
        stopped = False
        try:
            for step in (0, *steps):
                callback.record({"step": step, "heldout": {"task": curve[step]}})
        except EarlyStopError:
            stopped = True
            at = callback.losses[-1][0]
            others = [t.at(at) for t in found if t.at(at) is not None]
            assert sum(other < curve[at] for other in others) >= passed
        found.append(
            Trial(Setting(str(i), 0.1, "off"), 1, 4, tuple(callback.losses), 0, 0.0, 0.0, stopped)
        )
    ended = [trial for trial in found if not trial.stopped]
    assert len(ended) >= passed
    assert order(found)[: len(ended)] == sorted(ended, key=lambda t: t.loss)


def test_a_difference_within_the_margin_stops_nothing():
    assert is_behind(1.02, [1.0, 3.0], 1, 0.01)
    assert not is_behind(1.005, [1.0, 3.0], 1, 0.01)
    assert not is_behind(9.0, [1.0], 2, 0.01)


@pytest.mark.parametrize(("settings", "step", "around"), [(2, 0.5, 0), (13, 0.1, 2), (25, 1, 9)])
def test_a_time_allows_as_many_steps_as_fit(settings, step, around):
    search = SearchPlan(budget="20min")
    found = steps_within(search, settings, elapsed=60, step=step, around=around)

    def seconds(steps):
        return seconds_of(halving(settings, steps, eta=3, least=20), step, around)

    assert seconds(found) <= 1140
    assert seconds(found) > 1140 - settings * (around + 3 * step) - 60
    with pytest.raises(UsageError, match="at least"):
        steps_within(search, settings, elapsed=1200, step=step, around=around)


@pytest.mark.parametrize(
    ("budget", "steps", "seconds"),
    [
        ("2000 steps", 2000, None),
        ("7", 7, None),
        ("1 step", 1, None),
        ("90s", None, 90.0),
        ("1.5 h", None, 5400.0),
        ("30min", None, 1800.0),
    ],
)
def test_a_budget_is_steps_or_a_time(budget, steps, seconds):
    plan = PLAN.with_value("search.budget", budget).check()
    assert (plan.search.steps, plan.search.seconds) == (steps, seconds)


def test_the_grid_has_every_setting_once_and_the_baseline_first():
    plan = SearchPlan(fractions="0.1,1,0.05")
    found = grid(plan, ["a", "b", RANDOM])
    assert found[0] == Setting(RANDOM, 1.0, "off")
    assert found[1] == Setting("a", 0.1, "off")
    assert len(found) == len(set(found)) == 2 * 3 * 2 - 2 + 3
    drawn = [s for s in found if s.weights == "resample"]
    assert {s.fraction for s in drawn} == {0.1, 0.05}
    assert {s.method for s in drawn} == {"a", "b"}


def test_a_second_phase_is_a_choice_like_the_others():
    found = grid(SearchPlan(fractions="0.1", weights="off", then_task="yes,no"), ["a"])
    assert [s.label for s in found] == ["random 0.1", "a 0.1 then task", "a 0.1"]
    assert found[1].selection == found[2]
    plan = PLAN.adaptation(20, then_task=True, batch=16)
    assert (plan.train.max_steps, plan.then_task.max_steps) == (15, 5)
    assert (plan.train.batch, plan.then_task.batch) == (16, 16)
    assert PLAN.adaptation(20).train.max_steps == 20
    assert not PLAN.adaptation(20).then_task.on


def test_drawing_centers_lambda_where_the_fraction_ends():
    """The 0.1 quantile of the standard normal distribution is -1.281552 (published tables)."""
    plan = PLAN.selection("dsir", 0.1, "resample")
    assert (plan.choose.policy, plan.choose.fraction) == ("resample", 0.1)
    assert plan.choose.alpha == pytest.approx(-1.281552, abs=1e-6)
    assert PLAN.selection("dsir", 0.1).choose.policy == "top"


def words(seed, n):
    chance = random.Random(seed)
    return " ".join(
        f"{chance.choice('bcdfgk')}{chance.choice('aeiou')}{chance.randint(0, 99)}"
        for _ in range(n)
    )


def grams(text):
    found = re.findall(r"\w+", text.lower())
    return {tuple(found[i : i + 5]) for i in range(len(found) - 4)}


def test_no_text_of_the_held_out_part_is_selected_by():
    """Brute force over word 5-grams: no copy, near-duplicate or guarded text on the wrong side."""
    texts = [words(i, 40) for i in range(60)]
    texts += [text.upper() + "!" for text in texts[:15]]  # copies
    texts += [" ".join(text.split()[:37]) + " other end here" for text in texts[15:30]]
    texts += [words(100 + i, 20) + " " + texts[30 + i] for i in range(10)]  # one within another
    guarded = texts[50:55]
    found = divide(texts, guarded, PLAN)
    assert found.guarded == 5
    assert len(found.clean) == len(texts) - 5
    assert not set(found.fit) & set(found.heldout)
    assert len(found.heldout) >= round(0.25 * len(found.clean))
    for text in found.heldout:
        for other in found.fit:
            shared = grams(text) & grams(other)
            assert len(shared) < 0.8 * min(len(grams(text)), len(grams(other)))
    for text in guarded:
        assert text not in (*found.fit, *found.heldout)
    assert found.near == len(found.clean) - len(found.fit) - len(found.heldout) > 0
    assert divide(texts, guarded, PLAN) == found
    other = divide(texts, guarded, PLAN.with_value("seed", 1))
    assert other.heldout != found.heldout


def test_the_held_out_part_has_at_most_as_many_texts_as_are_measured():
    plan = PLAN.with_value("mix.heldout", 7)
    assert len(divide([words(i, 12) for i in range(100)], [], plan).heldout) == 7


@pytest.mark.parametrize(
    "texts",
    [[], [" ", "…"], [words(i, 9) for i in range(7)], [words(0, 30) + f" {i}" for i in range(40)]],
)
def test_a_target_with_too_few_texts_is_named(texts):
    with pytest.raises(InputError, match="at least 8 different texts"):
        divide(texts, [], PLAN)


def trial(method, loss, *, rung=1, steps=10, base=5.0):
    return Trial(Setting(method, 0.1, "off"), rung, steps, ((0, base), (steps, loss)), 0, 0.0, 0.0)


def test_conclusions_say_what_is_not_shown():
    rungs = [Rung(3, 10, 2), Rung(2, 30, 1)]
    trials = [trial("a", 4.0, rung=2, steps=30), trial("b", 4.005, rung=2, steps=30)]
    trials += [trial("a", 4.4), trial("b", 4.5), trial(RANDOM, 4.9)]
    text = " ".join(conclude(trials, rungs, 0.01))
    assert "a 0.1; held-out loss on the target 5.000 → 4.000" in text
    assert "No difference shown, within 0.01: b 0.1." in text
    assert "4.400 with a 0.1, and 4.900 with random text" in text
    early = dataclasses.replace(trials[1], losses=((0, 5.0), (5, 4.005)), stopped=True)
    assert "No difference" not in " ".join(conclude([trials[0], early, *trials[2:]], rungs, 0.01))
    stopped = dataclasses.replace(trials[-1], losses=((0, 5.0), (5, 4.95)), stopped=True)
    halfway = dataclasses.replace(trials[2], losses=((0, 5.0), (5, 4.7), (10, 4.4)))
    text = " ".join(conclude([*trials[:2], halfway, trials[3], stopped], rungs, 0.01))
    assert "At 5 steps the loss is 4.700 with a 0.1, and 4.950 with random text" in text
    worse = [trial(RANDOM, 5.1, rung=2), trial("a", 5.2, rung=2), trial(RANDOM, 5.1)]
    text = " ".join(conclude(worse, rungs, 0.01))
    assert "Random text was best" in text
    assert "No setting lowered the loss" in text
    level = [trial(RANDOM, 4.0, rung=2), trial("a", 4.001, rung=2), trial(RANDOM, 4.0)]
    text = " ".join(conclude(level, rungs, 0.01))
    assert "No difference shown, within 0.01: a 0.1." in text
    assert "no method" not in text
    several = [
        *worse[:1],
        dataclasses.replace(worse[0], setting=Setting(RANDOM, 0.2, "off")),
        *worse[1:],
    ]
    text = " ".join(conclude(several, rungs, 0.01))
    assert "No difference shown, within 0.01: random 0.2." in text
    assert "Random text was best" in text
    assert math.isinf(Trial(Setting("a", 0.1, "off"), 1, 9, (), 0, 0.0, 0.0, error="x").loss)


def test_a_trial_is_known_by_all_digits_of_its_fraction():
    keys = {Setting("a", fraction, "off").key for fraction in (0.1, 0.12345671, 0.12345672)}
    assert len(keys) == 3
    assert "a-0.1" in keys


def test_a_loss_that_is_not_measured_is_not_trained_on():
    causal = PLAN.with_value("objective.name", "causal")
    with pytest.raises(UsageError, match=r"`objective\.loss_on`"):
        causal.with_value("objective.loss_on", "assistant").check()


def test_a_filter_is_of_the_corpus_and_not_of_what_was_selected_by_it():
    plan = PLAN.with_value("read.where", "kept == true")
    assert plan.selection("dsir").read.where == "kept == true"
    assert plan.adaptation(10).read.where == ""
