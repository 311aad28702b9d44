"""How a score is shown."""

from corpusfit.evaluation.tables import magnitude


def test_a_mean_has_the_sign_of_a_score_and_none_of_an_error():
    means = ((-0.1, "points"), (0.3, "points"), (-0.85, "bits per byte"), (2.5, "nats per token"))
    assert [magnitude(*mean) for mean in means] == [-0.1, 0.3, 0.85, 2.5]
