"""How far a stage is, and how long it will take."""

import pytest

from corpusfit.core.engine.pace import Pace, format_duration


def test_it_is_never_done_and_never_at_its_end_while_work_is_left():
    """More comes than was announced."""
    pace, shares = Pace(90, 0.0), []
    for now in range(1, 101):
        pace.add(1, float(now))
        shares.append(pace.share)
        assert pace.share < 1
        assert pace.left(float(now)) >= 1
    assert shares == sorted(shares)


def test_a_stop_lengthens_the_time_left():
    """Closed form: 50 of 100 in 50 s, then nothing for 200 s."""
    pace = Pace(100, 0.0)
    for now in range(1, 51):
        pace.add(1, float(now))
    assert pace.left(50.0) == pytest.approx(50)
    assert pace.left(250.0) == pytest.approx(250)


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


def test_the_share_never_goes_back_while_the_time_left_grows():
    """Closed form: half is done, then it shows that this was a quarter."""
    pace = Pace(1, 0.0)
    pace.add(0.5, 10.0)
    assert pace.share == 0.5

    pace.add(-0.25, 10.0)

    assert (pace.share, pace.left(10.0)) == (0.5, 30)


def test_an_unknown_total_has_no_share_and_no_time_left():
    pace = Pace(0, 0.0)
    pace.add(5, 1.0)
    pace.add(5, 2.0)
    assert (pace.share, pace.left(3.0)) == (0, None)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.123, "0.12 s"), (9.0, "9 s"), (59.4, "59 s"), (90, "1.5 min"), (3.6e6, "1,000.0 h")],
)
def test_times_are_said_in_a_unit_that_suits(seconds, said):
    assert format_duration(seconds) == said
