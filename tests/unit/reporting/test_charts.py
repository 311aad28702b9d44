"""Every chart is a valid Vega-Lite specification with its data inside."""

import json

import pytest

from corpusfit.reporting import charts, selected
from corpusfit.reporting.page import as_png, as_svg

SELECTION = {
    "sources": [
        {"name": "<b>.jsonl", "segments": 6, "tokens": 60, "selected_tokens": 30},
        {"name": "b.jsonl", "segments": 4, "tokens": 40, "selected_tokens": 10},
    ],
    "cuts": {"threshold": [2.0, 1.0], "own": 1},
    "scores": {"bins": [0.0, 1.0, 2.0], "sources": [[3, 3], [4, 0]], "target": [0, 5]},
    "examples": [
        {"selected": True, "source": "b.jsonl", "score": 1.5, "text": "<script>bad()</script>"}
    ],
    "targets": [{"score": 1.0, "text": "a text of the task"}],
    "map": {"corpus": [[0.1, 0.2]], "target": [[0.3, 0.4]]},
}
MEAN = {"column": "auto", "size": 100, "mean": 50.0, "low": 40.0, "high": 60.0}
CHARTS = {
    "scores": (selected.scores_chart, SELECTION),
    "composition": (selected.composition_chart, SELECTION),
    "map": (selected.map_chart, SELECTION),
    "training": (
        charts.training_chart,
        [{"model": "m", "text": "task", "step": s, "loss": 3.0 - s} for s in range(3)],
        "Loss",
        "text",
    ),
    "results": (charts.results_chart, [MEAN, {**MEAN, "column": "base"}], "chemprot"),
    "curve": (charts.curve_chart, [MEAN, {**MEAN, "size": 1_000}], "chemprot"),
    "gains": (
        charts.gains_chart,
        [{"over": "over base", "mean": 1.0, "low": -0.5, "high": 2.5}],
        "probe",
        "points",
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_drawn_and_escaped(name):
    chart, *arguments = CHARTS[name]
    spec = chart(*arguments)
    drawn = as_svg(spec)
    assert spec["title"] in drawn
    assert spec["description"]
    assert "<script" not in drawn
    assert "<b>" not in drawn
    json.dumps(spec, allow_nan=False)


def test_png_is_a_png():
    chart, *arguments = CHARTS["gains"]
    assert as_png(chart(*arguments)).startswith(b"\x89PNG")


@pytest.mark.parametrize("chart", [charts.results_chart, charts.curve_chart])
def test_a_chart_of_an_error_names_its_unit(chart):
    in_bits, in_points = chart([MEAN], "a", "bits per byte"), chart([MEAN], "a")
    assert "bits per byte" in json.dumps(in_bits)
    assert "points" not in json.dumps(in_bits)
    assert in_bits["description"] != in_points["description"]
