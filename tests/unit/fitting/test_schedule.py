"""What a time is used for: a pure function of costs."""

from __future__ import annotations

import dataclasses

import pytest

from corpusfit.core.engine.pace import format_duration, parse_duration
from corpusfit.core.errors import UsageError
from corpusfit.fitting.schedule import (
    ENOUGH_STEPS,
    FEWEST,
    FEWEST_STEPS,
    LATEST,
    LONG_STEPS,
    MOST,
    Costs,
    first_schedule,
    with_fewer_steps,
    with_replicates,
)

LAPTOP = Costs(select=60, random=20, step=0.2, around=10, probe=15, finetune=200)
PLENTY = 1e9


def schedule(seconds, costs=LAPTOP, corpus_tokens=PLENTY):
    return first_schedule(costs, seconds, corpus_tokens, batch=16, length=128)


@pytest.mark.parametrize("minutes", [10, 20, 30, 60, 120, 600])
def test_it_fits_in_the_time_and_each_text_is_seen_about_once(minutes):
    found = schedule(60 * minutes)
    assert found.seconds(LAPTOP) <= 60 * minutes
    assert FEWEST <= found.replicates <= MOST
    assert found.tokens == found.max_steps * 16 * 128


def test_more_time_goes_into_steps_replicates_and_fine_tuning_in_turn():
    short, six, long, most = map(schedule, (600, 1300, 3300, 4 * 3600))
    assert (
        short.max_steps
        <= ENOUGH_STEPS
        < six.max_steps
        < long.max_steps
        == LONG_STEPS
        <= most.max_steps
    )
    assert (short.replicates, six.replicates) == (FEWEST, 2 * FEWEST)
    assert six.replicates <= long.replicates <= most.replicates
    assert short.finetunings == six.finetunings == 0 < FEWEST <= most.finetunings


def test_more_time_later_keeps_the_training_and_takes_nothing_back():
    begun = schedule(600)
    for seconds in (60, 600, 1200, 7200, 40_000):
        later = with_replicates(begun, LAPTOP, seconds)
        assert (later.max_steps, later.tokens) == (begun.max_steps, begun.tokens)
        assert later.replicates >= begun.replicates
        assert later.finetunings >= begun.finetunings
    assert with_replicates(begun, LAPTOP, 40_000).replicates == MOST


def test_what_does_not_fit_any_more_is_dropped_but_not_what_is_done():
    """Fine-tuning goes before the sixth replicate, and three replicates stay."""
    begun = schedule(4 * 3600)
    assert begun.replicates > 2 * FEWEST
    slow = dataclasses.replace(LAPTOP, probe=60, around=20)

    def revised(seconds, done=FEWEST, tuned=0):
        least = dataclasses.replace(begun, replicates=done, finetunings=tuned)
        return with_replicates(least, slow, seconds, LATEST)

    found = [revised(seconds) for seconds in (14_000, 8_000, 5_000, 60)]
    amounts = [(each.replicates, each.finetunings) for each in found]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[-1] == (FEWEST, 0)
    kept = revised(60, done=5, tuned=4)
    assert (kept.replicates, kept.finetunings) == (5, 4)
    assert all(
        each.seconds(slow) <= seconds
        for each, seconds in zip(found, (14_000, 8_000, 5_000), strict=False)
    )


@pytest.mark.parametrize(
    ("slower", "fewer"), [(0.5, False), (1.1, False), (1.5, True), (3, True), (100, True)]
)
def test_steps_that_take_longer_are_fewer_where_the_fewest_replicates_do_not_fit(slower, fewer):
    begun = schedule(600)
    assert begun.replicates == FEWEST
    slow = dataclasses.replace(LAPTOP, step=slower * LAPTOP.step)
    found = with_fewer_steps(begun, slow, 600)
    assert (found != begun) == fewer
    assert found.tokens == begun.tokens
    assert FEWEST_STEPS <= found.max_steps <= begun.max_steps
    assert found.max_steps == FEWEST_STEPS or found.seconds(slow) <= 600


def test_of_many_replicates_some_are_dropped_before_steps():
    begun = schedule(4 * 3600)
    slow = dataclasses.replace(LAPTOP, step=1.5 * LAPTOP.step)
    assert with_fewer_steps(begun, slow, 4 * 3600) == begun


def test_of_a_small_corpus_a_quarter_is_selected_and_seen_three_times_at_most():
    found = schedule(7200, corpus_tokens=400_000)
    assert found.tokens == 100_000
    assert found.max_steps == 3 * 100_000 // (16 * 128)


def test_a_task_without_fine_tuning_uses_the_time_for_replicates():
    found = schedule(4 * 3600, Costs(60, 20, 0.2, 10, 0, 0))
    assert (found.finetunings, found.replicates) == (0, MOST)


def test_a_time_that_is_too_short_gives_the_shortest_schedule_and_the_time_it_needs():
    shortest = schedule(120)
    assert (shortest.max_steps, shortest.replicates) == (FEWEST_STEPS, FEWEST)
    assert not shortest.fits(LAPTOP, 120)
    shown = parse_duration("time", format_duration(shortest.needed(LAPTOP)).replace(" ", ""))
    enough = schedule(shown)
    assert enough.fits(LAPTOP, shown)
    assert (enough.max_steps, enough.replicates) >= (FEWEST_STEPS, FEWEST)
    assert shortest.seconds(LAPTOP) == pytest.approx(
        60 + 3 * 20 + 6 * (10 + FEWEST_STEPS * 0.2) + 7 * 15
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30min", 1800), ("6m", 360), ("1.5 h", 5400), (20, 20.0)]
)
def test_durations(text, seconds):
    assert parse_duration("`time`", text) == seconds


@pytest.mark.parametrize("text", ["", "30", "minutes", "-5min", "0s", 0, float("nan")])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="time"):
        parse_duration("`time`", text)
