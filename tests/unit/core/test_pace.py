"""How far a stage is and how long it will take, against engines whose end is known."""

from __future__ import annotations

import heapq
from itertools import accumulate

import numpy as np
import pytest

from corpusfit.core.engine.pace import Pace, format_duration


def engine(weights, workers, *, reports=1, speed=lambda _: 1.0, jitter=0.0, start=0.0):
    """What a slow engine reports, as (second, work), and when it ends; no time passes.

    Workers take the next piece when they are free, and report so many parts of it.
    """
    rng = np.random.default_rng(0)
    free, told = [start] * workers, []
    for weight in weights:
        now, own = heapq.heappop(free), 1 + jitter * rng.uniform(-1, 1)
        for _ in range(reports):
            now += weight / reports / speed(now) * own
            told.append((now, weight / reports))
        heapq.heappush(free, now)
    return sorted(told), max(free)


def prepared(kind, seconds):
    """An engine whose workers say that their first piece is prepared, late and not all at once."""
    told, end = kind
    ready = [(seconds, 1e-6), (1.2 * seconds, 1e-6)]
    return [*ready, *((now + seconds, work) for now, work in told)], end + seconds


def watched(told, total, end, *, begin=None):
    """(second, true share, said share, seconds said to be left) twice a second."""
    pace, at = Pace(total, 0.0), 0
    for now in np.arange(0.0, end, 0.5):
        if begin is not None and now < begin:
            pace.add(0, now)  # the workers are starting
        while at < len(told) and told[at][0] <= now:
            pace.add(told[at][1], now)
            at += 1
        yield now, pace.done / total, pace.share, pace.left(now)


LARGE = [60, 60, 20, 60, 40, 60] * 60
KINDS = {
    "constant": engine([1] * 600, 1),
    "uneven": engine([1] * 600, 2, jitter=0.3),
    "slowing to half": engine([1] * 600, 1, speed=lambda now: 1 - now / 1800),
    "few large shards, two workers": engine([120] * 12, 2, reports=40, jitter=0.2),
    "large shards, many workers": engine(LARGE, 16, reports=20, jitter=0.2),
    "workers that start slowly": engine([60] * 40, 4, reports=30, jitter=0.1, start=45),
    "pieces that are prepared first": prepared(engine([40] * 12, 2, reports=100, jitter=0.1), 60),
    "large shards, two workers, whole shards only": engine([30] * 60, 2, jitter=0.1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_tenth_the_time_left_is_within_a_factor_of_one_and_a_half(kind):
    """Until nine tenths of the time; then more and more workers find no further shard."""
    told, end = KINDS[kind]
    begin = 45 if "start slowly" in kind else None
    total = sum(work for _, work in told)
    checked = 0
    for now, done, _, left in watched(told, total, end, begin=begin):
        if done >= 0.1 and now < 0.9 * end:
            assert (end - now) / 1.5 < left < (end - now) * 1.5, (now, left, end - now)
            checked += 1
    assert checked > 100


def test_whole_shards_of_many_workers_are_told_after_two_rounds():
    """A cluster reports whole shards only; in the first round nothing can be known."""
    told, end = engine([60] * 240, 16, jitter=0.1)
    for now, _, _, left in watched(told, 60 * 240, end):
        if 2.2 * 60 < now < 0.9 * end:
            assert (end - now) / 1.5 < left < (end - now) * 1.5, (now, left, end - now)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_never_done_and_never_at_its_end_while_work_is_left(kind):
    told, end = KINDS[kind]
    total = 0.9 * sum(work for _, work in told)  # more comes than was announced
    for _, _, share, left in watched(told, total, end):
        assert share < 1
        assert left is None or left >= 1
    shares = [share for _, _, share, _ in watched(told, total, end)]
    assert shares == list(accumulate(shares, max))


def test_a_stop_lengthens_the_time_left():
    """Closed form: 50 of 100 in 50 s, then nothing for 200 s."""
    pace = Pace(100, 0.0)
    for now in range(1, 51):
        pace.add(1, float(now))
    assert pace.left(50.0) == pytest.approx(50)
    assert pace.left(250.0) > 400


def test_what_was_skipped_says_nothing_about_the_speed():
    """Closed form: 40 of 100 were there, 30 take 30 s, 30 are left."""
    pace = Pace(100, 0.0)
    pace.skip(40)
    assert (pace.share, pace.left(5.0), pace.skipped_all) == (0.4, None, True)
    for now in range(1, 31):
        pace.add(1, float(now))
    assert pace.share == pytest.approx(0.7)
    assert pace.left(30.0) == pytest.approx(30)
    assert not pace.skipped_all
    pace.finish()
    assert pace.share == 1


def test_the_clock_starts_when_work_begins():
    """Closed form: workers need 100 s to start, then 10 of 100 take 10 s."""
    pace = Pace(100, 0.0)
    pace.add(0, 100.0)
    for now in range(101, 111):
        pace.add(1, float(now))
    assert pace.left(110.0) == pytest.approx(90)


def test_an_unknown_total_has_no_share_and_no_time_left():
    pace = Pace(0, 0.0)
    pace.add(5, 1.0)
    pace.add(5, 2.0)
    assert (pace.share, pace.left(3.0)) == (0, None)


def test_a_million_reports_are_few():
    pace = Pace(1e6, 0.0)
    for now in range(20_000):
        pace.add(1, float(now))
    assert len(pace._seen) < 5_000


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.123, "0.12 s"), (9.0, "9 s"), (59.4, "59 s"), (90, "1.5 min"), (3.6e6, "1,000.0 h")],
)
def test_times_are_said_in_a_unit_that_suits(seconds, said):
    assert format_duration(seconds) == said
