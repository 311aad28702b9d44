"""Scores as they are shown."""

from corpusfit.evaluation.points import cell, magnitude


def test_a_score_in_points():
    assert cell(0.72314, 0.047) == "72.31 ± 4.70"
    assert cell(0.5, None) == "50.00"
    assert cell(-0.00001, 0.0) == "0.00 ± 0.00"
    assert cell(1.0, 0.123456) == "100.00 ± 12.35"


def test_a_mean_has_the_sign_of_a_score_and_none_of_an_error():
    means = ((-0.1, "points"), (0.3, "points"), (-0.85, "bits per byte"), (2.5, "nats per token"))
    assert [magnitude(*mean) for mean in means] == [-0.1, 0.3, 0.85, 2.5]
