"""What the measures of a fit say: which model is kept, by which score, and how often by mistake."""

import dataclasses

import numpy as np
import pytest

from corpusfit.core.engine.pace import format_duration
from corpusfit.evaluation.points import POINTS
from corpusfit.evaluation.significance import Difference, difference
from corpusfit.fitting.schedule import MOST, Costs, Schedule, with_replicates
from corpusfit.fitting.verdict import GENERAL, LOSS, Measure, conclude

SCHEDULE = Schedule(
    max_steps=100, batch=16, length=128, tokens=200_000, replicates=4, finetunings=0
)
COSTS = Costs(select=60, random=20, step=0.2, around=10, probe=15, finetune=0)
NOTHING = Difference(0.001, -0.02, 0.022, 0.03, 0.01, 0.01)
BETTER = Difference(0.02, 0.01, 0.03, 0.014, 0.005, 0.005)
WORSE = Difference(-0.02, -0.03, -0.01, 0.014, 0.005, 0.005)


def measure(name, over_random, over_base, random_over_base=NOTHING, unit=POINTS, **more):
    means = (0.50, 0.51, 0.52)
    return Measure(name, unit, 4, 500, *means, over_random, over_base, random_over_base, **more)


FELL = measure(LOSS, BETTER, BETTER, unit="nats per token")
ROSE = measure(LOSS, WORSE, WORSE, unit="nats per token")


@pytest.mark.parametrize(
    ("loss", "scores", "kept"),
    [  # of the selection over random text and over the base, and of random text over the base
        (FELL, (BETTER, BETTER, NOTHING), "selection"),
        (FELL, (NOTHING, BETTER, BETTER), "selection"),
        (FELL, (BETTER, WORSE, WORSE), "base"),
        (FELL, (WORSE, BETTER, BETTER), "random"),
        (FELL, (WORSE, NOTHING, BETTER), "random"),
        (FELL, (WORSE, NOTHING, NOTHING), "base"),
        (FELL, (NOTHING, NOTHING, NOTHING), "selection"),
        (ROSE, (NOTHING, NOTHING, NOTHING), "base"),
        (ROSE, (BETTER, BETTER, NOTHING), "selection"),
        (dataclasses.replace(FELL, over_random=WORSE), (NOTHING, NOTHING, NOTHING), "base"),
        (dataclasses.replace(FELL, of_base=False), (NOTHING, NOTHING, NOTHING), "base"),
    ],
)
def test_which_model_is_kept(loss, scores, kept):
    assert conclude("task", [loss, measure("probe", *scores)], SCHEDULE, COSTS).keep == kept


@pytest.mark.parametrize(
    ("over_base", "said"),
    [
        (WORSE, "worse than the base by 0.020 nats per token (-0.030 to -0.010)"),
        (NOTHING, "better than the base by 0.001 nats per token (-0.020 to +0.022, not shown)"),
        (BETTER, "better than the base by 0.020 nats per token (+0.010 to +0.030)"),
    ],
)
def test_what_was_lost_on_general_text_is_said_and_decides_nothing(over_base, said):
    general = measure(GENERAL, WORSE, over_base, unit="nats per token")
    probe = measure("probe", BETTER, BETTER)
    found = conclude("task", [FELL, general, probe], SCHEDULE, COSTS)
    without = conclude("task", [FELL, probe], SCHEDULE, COSTS)
    assert said in found.lost
    assert "worse than random text by 0.020 nats per token" in found.lost
    assert dataclasses.replace(found, lost="") == without
    assert conclude("task", [FELL, general], SCHEDULE, COSTS).keep == "selection"


def test_models_that_all_answer_alike_decide_nothing():
    alike = Difference(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    failed = measure("fine-tuned", alike, alike, alike, failed=12)
    found = conclude("task", [FELL, failed, measure("probe", BETTER, BETTER)], SCHEDULE, COSTS)
    assert found.keep == "selection"
    assert "12 of 12" in found.measured
    assert "500 held-out seq" in conclude("task", [FELL, failed], SCHEDULE, COSTS).measured


def test_what_is_shown_comes_first_then_what_is_not_then_the_model_and_why():
    lower = dataclasses.replace(NOTHING, mean=-0.023, low=-0.061, high=0.015)
    probe = measure("probe", NOTHING, lower, metric="macro f1")

    found = conclude("task", [FELL, probe], SCHEDULE, COSTS)

    assert found.shown.startswith("task: no difference is shown by macro f1 of a probe")
    assert "by the loss on the task's text, the selection is better" in found.shown
    assert "macro f1 of the probe" in found.not_shown
    assert "the base (-2.3 points, -6.1 to +1.5" in found.not_shown
    assert "loss" not in found.not_shown
    assert found.keep == "selection"
    assert "open" in found.why
    assert f"first of {SCHEDULE.replicates} trainings" in found.why


def test_what_general_text_costs_is_said_where_the_loss_alone_decides():
    probe = measure("probe", NOTHING, NOTHING)
    costly = measure(GENERAL, WORSE, WORSE, unit="nats per token")
    free = dataclasses.replace(costly, over_base=NOTHING)
    assert "a cost of 0.020" in conclude("task", [FELL, costly, probe], SCHEDULE, COSTS).why
    assert "cost" not in conclude("task", [FELL, free, probe], SCHEDULE, COSTS).why


def test_nothing_reads_as_minus_zero():
    little = dataclasses.replace(NOTHING, mean=-0.0001)
    probe = measure("probe", little, NOTHING)
    general = measure(GENERAL, little, NOTHING, unit="nats per token")
    found = conclude("task", [FELL, general, probe], SCHEDULE, COSTS)
    assert "+0.0 points" in found.not_shown
    assert "-0.000" not in found.lost
    assert "-0.0 " not in found.not_shown


def test_what_is_shown_by_both_leaves_nothing_open():
    tuned = measure("fine-tuned", BETTER, BETTER)
    found = conclude("task", [FELL, tuned], SCHEDULE, COSTS)

    assert found.why.startswith("Keep the model adapted on the selection")
    assert "random text by 2.0 points" in found.shown
    assert not found.not_shown
    assert not found.more


def test_that_nothing_was_fine_tuned_is_said_also_where_all_is_shown():
    found = conclude("task", [FELL, measure("probe", BETTER, BETTER)], SCHEDULE, COSTS)
    assert found.not_shown.startswith("Not measured")
    assert "fine-tuning" in found.not_shown


def test_with_nothing_fine_tuned_yet_a_task_with_labels_has_no_score():
    costs = dataclasses.replace(COSTS, finetune=50)
    assert "any score" in conclude("task", [FELL], SCHEDULE, costs).not_shown
    assert "any score" not in conclude("task", [FELL], SCHEDULE, COSTS).not_shown


def test_the_score_that_could_show_the_smaller_difference_decides():
    """Also where the other one shows a difference, and whatever its sign."""
    fine = dataclasses.replace(NOTHING, detectable=0.01)
    coarse = dataclasses.replace(WORSE, detectable=0.05)
    measures = [FELL, measure("probe", fine, BETTER), measure("fine-tuned", coarse, coarse)]
    assert conclude("task", measures, SCHEDULE, COSTS).keep == "selection"
    measures = [FELL, measure("probe", coarse, coarse), measure("fine-tuned", fine, BETTER)]
    assert conclude("task", measures, SCHEDULE, COSTS).keep == "selection"


def test_of_a_program_of_others_no_time_is_said():
    """More of its trainings are asked for by number."""
    outside = dataclasses.replace(SCHEDULE, max_steps=0, batch=0)
    probe = measure("probe", NOTHING, NOTHING)
    found = conclude("task", [FELL, probe], outside, Costs(0, 0, 0, 0, 0, 0))
    assert f"{MOST} seeds find" in found.more
    assert "With 6 seeds" in found.more
    assert "with a time" not in found.not_shown + found.more
    done = dataclasses.replace(outside, replicates=MOST, finetunings=MOST)
    assert not conclude("task", [FELL, probe], done, Costs(0, 0, 0, 0, 0, 0)).more


def test_more_says_what_was_not_done_and_the_time_for_it():
    costs = dataclasses.replace(COSTS, finetune=50)
    without = conclude("task", [FELL, measure("probe", NOTHING, NOTHING)], SCHEDULE, costs).more
    six = dataclasses.replace(SCHEDULE, replicates=6, finetunings=3)
    assert format_duration(six.needed(costs)) in without
    then = with_replicates(SCHEDULE, costs, six.needed(costs))
    assert then.finetunings >= 3
    most = dataclasses.replace(SCHEDULE, replicates=MOST, finetunings=MOST)
    assert format_duration(most.needed(costs)) in without
    # where fine-tuning takes far longer, so many replicates come before it
    costly = dataclasses.replace(COSTS, finetune=5_000)
    probed = conclude("task", [FELL, measure("probe", NOTHING, NOTHING)], SCHEDULE, costly).more
    time = dataclasses.replace(SCHEDULE, replicates=MOST).needed(costly)
    assert format_duration(time) in probed
    assert with_replicates(SCHEDULE, costly, time).replicates == MOST
    tuned = dataclasses.replace(SCHEDULE, finetunings=3)
    assert "No model" not in conclude("task", [FELL], tuned, costs).more
    assert "No model" not in conclude("task", [FELL], SCHEDULE, COSTS).more


def test_without_a_score_the_loss_decides():
    assert conclude("task", [FELL], SCHEDULE, COSTS).keep == "selection"
    assert conclude("task", [ROSE], SCHEDULE, COSTS).keep == "base"


def test_of_two_models_that_are_alike_few_are_called_better():
    """Three or six replicates that share a test set, without a true difference: 2,000 tries."""
    rng = np.random.default_rng(0)
    for replicates in (3, 6):
        wrong = 0
        for _ in range(2_000):
            values = rng.normal(rng.normal(0, 0.01), 0.01, replicates)
            over = difference(values.tolist(), 0.01, 500)
            measures = [FELL, measure("probe", over, NOTHING)]
            said = conclude("t", measures, SCHEDULE, COSTS).not_shown
            wrong += "random text" not in said
        assert wrong / 2_000 < 0.06
