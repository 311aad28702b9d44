"""The section on a fit."""

import json

import pytest

from corpusfit.reporting.verdict import verdict_part
from corpusfit.reporting.writing import page

GAIN = {"mean": 0.02, "low": -0.01, "high": 0.05, "detectable": 0.03}
LOSS = {"name": "loss", "unit": "nats per token", "base": 3.0, "random": 2.5, "selection": 2.0}
MANIFEST = {
    "command": "fit",
    "measures": [
        {**LOSS, "over_random": GAIN, "over_base": GAIN},
        {
            "name": "probe",
            "unit": "points",
            "base": 0.5,
            "random": 0.6,
            "selection": 0.75,
            "over_random": GAIN,
            "over_base": GAIN,
        },
    ],
    "word_vectors": {
        "gains": [{"words": n, "over_random": GAIN} for n in (5_000, 10_000)],
        "sentence": "Word vectors score more.",
    },
    "task": {"name": "topics"},
    "plan": {"seed": 3},
    "schedule": {"replicates": 4, "tokens": 5000},
    "shown": "It is better than random text.",
    "lost": "General text: no change.",
    "not_shown": "Not shown: more.",
    "more": "A longer time would show it.",
    "why": "Keep it.",
    "measured": "Measured on 500 texts.",
    "selected": "It selected.",
    "kept": "base",
    "keep": "tiny",
    "repeat": ["corpusfit", "fit"],
}


@pytest.fixture
def fitted(tmp_path):
    for name, last in (("selection", 2.0), ("random", 2.5)):
        folder = tmp_path / "models" / f"{name}-3"
        folder.mkdir(parents=True)
        rows = [{"step": 0, "heldout": {"task": 3.0}}, {"step": 1, "loss": 9}]
        rows.append({"step": 2, "heldout": {"task": last, "general": 4.0}})
        (folder / "losses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_verdict_comes_first_and_each_gain_has_its_interval(fitted):
    part = verdict_part(fitted, MANIFEST)
    assert "topics" in part.title
    shown, lost, not_shown, why, *_ = part.summary
    assert (shown, lost) == (MANIFEST["shown"], MANIFEST["lost"])
    assert not_shown == "Not shown: more. A longer time would show it."
    assert why.startswith("Keep it. Model: tiny")
    gains = part.sheets["gains"]
    assert "5,000 word pieces" in gains.caption
    assert gains.rows[1][1:5] == ("50.0", "60.0", "75.0", "+2.0 (-1.0 to +5.0; 3.0)")
    rows = part.sheets["measures"].rows
    assert [row[2:4] for row in rows] == [(2.5, 2.0), (3.0, 2.0), (60.0, 75.0), (50.0, 75.0)]
    assert rows[2][4:] == (2.0, -1.0, 5.0, 3.0)
    assert list(part.charts) == ["gain-1", "gain-2", "words", "loss"]
    assert "10,000 words" in part.charts["words"][0]
    assert part.charts["words"][1] == "Word vectors score more."
    assert part.charts["loss"][0].count("<polyline") == 2
    assert page("t", [part]).count("<svg") == 4


def test_a_program_of_others_leaves_no_losses_by_step(fitted):
    (fitted / "models/random-3/losses.jsonl").unlink()
    assert "loss" not in verdict_part(fitted, MANIFEST).charts
