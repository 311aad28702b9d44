"""Every chart is well-formed SVG, whose texts are escaped and whose marks are where they belong."""

from xml.etree import ElementTree as ET

import pytest

from corpusfit.reporting import charts
from corpusfit.reporting.charts import Axis

HOSTILE = "<script>bad()</script>\u202e\x00"
CHARTS = {
    "scores": charts.scores_chart([0.0, 1.0, 2.0], [7, 3], 1.0),
    "scores without a threshold": charts.scores_chart([0.0, 1.0], [0], None),
    "shares": charts.shares_chart({HOSTILE: (0.6, 0.2), "x" * 500: (0.4, 0.8)}),
    "no shares": charts.shares_chart({}),
    "gains": charts.gains_chart({"over base": (1.0, -0.5, 2.5)}, HOSTILE, "points"),
    "no gains": charts.gains_chart({"over base": (0.0, 0.0, 0.0)}, "loss", "nats"),
    "losses": charts.losses_chart(
        {"selection": [(0, 3.0), (5, 2.0)], "random": [(0, 3.0)]}, "nats"
    ),
}


def drawn(name, kind):
    return list(ET.fromstring(CHARTS[name]).iter(f"{{http://www.w3.org/2000/svg}}{kind}"))


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_well_formed_and_escaped(name):
    assert not drawn(name, "script")
    assert ET.fromstring(CHARTS[name]).get("aria-label")
    assert "\u202e" not in CHARTS[name]
    assert "NaN" not in CHARTS[name]


def test_a_bar_counts_its_segments_and_is_full_from_the_threshold_on():
    low, high = drawn("scores", "rect")
    assert float(low.get("height")) / float(high.get("height")) == pytest.approx(7 / 3, rel=0.01)
    assert float(low.get("fill-opacity")) < float(high.get("fill-opacity")) == 1.0
    assert "7 segments" in low[0].text


def test_a_source_has_two_bars_of_its_shares():
    widths = [float(bar.get("width")) for bar in drawn("shares", "rect")]
    assert [width / widths[-1] for width in widths] == pytest.approx([0.75, 0.25, 0.5, 1], abs=0.01)


@pytest.mark.parametrize(("low", "blue"), [(-0.5, False), (0.5, True)])
def test_a_gain_is_blue_where_its_interval_excludes_zero(low, blue):
    shown = charts.gains_chart({"over base": (1.0, low, 2.5)}, "probe", "points")
    assert (charts.COLORS["selection"] in shown) == blue


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3e-9, 4e-9), (17, 1e12), (2, 2), (-7, -6.5)])
def test_an_axis_has_a_few_round_numbers_between_its_ends(low, high):
    axis = Axis(low, high, 0.0, 100.0)
    assert 1 <= len(axis.ticks()) <= 7
    assert all(0 <= round(axis.at(tick), 6) <= 100 for tick in axis.ticks())
