"""The surrogate against scikit-learn's kernel ridge, a closed form, and chance."""

import numpy as np
import pytest

from corpusfit.core.artifacts import restore, store
from corpusfit.core.errors import InputError
from corpusfit.scoring.surrogate import PENALTIES, Surrogate, fit_surrogate


def known(n, seed=0, d=16):
    """Vectors, and a smooth function of their directions."""
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((n, d)).astype(np.float32)
    along = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, (np.sin(3 * along[:, 0]) + along[:, 1] ** 2 + 7).astype(np.float32)


def directions(vectors, center):
    placed = vectors.astype(np.float64) - center
    return placed / np.linalg.norm(placed, axis=1, keepdims=True)


def test_with_every_unit_a_landmark_it_is_kernel_ridge_regression():
    from sklearn.kernel_ridge import KernelRidge

    vectors, scores = known(120)
    unseen, _ = known(50, seed=1)
    center, bias = vectors.mean(axis=0, dtype=np.float64), scores.mean(dtype=np.float64)
    for penalty in (0.01, 1.0):
        ours = fit_surrogate(vectors, scores, seed=0, landmarks=120, penalties=(penalty,))
        theirs = KernelRidge(alpha=penalty, kernel="rbf", gamma=0.25)
        theirs.fit(directions(vectors, center), scores - bias)
        expected = theirs.predict(directions(unseen, center)) + bias
        np.testing.assert_allclose(ours.score(unseen), expected, atol=2e-3)


def test_with_hardly_a_penalty_it_interpolates():
    vectors, scores = known(100)
    fitted = fit_surrogate(vectors, scores, seed=0, landmarks=100, penalties=(1e-7,))
    np.testing.assert_allclose(fitted.score(vectors), scores, atol=0.01)


def test_it_tells_unseen_units_apart():
    (vectors, scores), (unseen, truth) = known(3_000), known(1_000, seed=1)
    found = fit_surrogate(vectors, scores, seed=0).score(unseen)
    top = set(np.argsort(-truth)[:100].tolist())
    assert len(top & set(np.argsort(-found)[:120].tolist())) > 85  # by chance 12


def test_the_penalty_is_the_one_that_predicts_left_out_units_best():
    """The closed form of the errors against leaving each unit out."""
    vectors, scores = known(60, d=4)
    scores = scores + np.random.default_rng(5).normal(0, 0.3, 60).astype(np.float32)
    chosen = fit_surrogate(vectors, scores, seed=0, landmarks=60)
    alone = [
        fit_surrogate(vectors, scores, seed=0, landmarks=60, penalties=(p,)) for p in PENALTIES
    ]
    which = [np.array_equal(chosen.weights, one.weights) for one in alone].index(True)
    # plain kernel ridge, refitted without each unit; center and mean stay those of all
    x = directions(vectors, vectors.mean(axis=0, dtype=np.float64))
    kernel = np.exp(-0.25 * ((x[:, None] - x[None]) ** 2).sum(axis=2))
    aims = scores.astype(np.float64) - scores.mean(dtype=np.float64)

    def missed(penalty):
        total = 0.0
        for i in range(60):
            rest = np.delete(np.arange(60), i)
            weights = np.linalg.solve(kernel[np.ix_(rest, rest)] + penalty * np.eye(59), aims[rest])
            total += (kernel[i, rest] @ weights - aims[i]) ** 2
        return total

    assert which == int(np.argmin([missed(p) for p in PENALTIES]))


def test_a_score_depends_on_the_unit_alone_and_survives_storing(tmp_path):
    vectors, scores = known(700)
    fitted = fit_surrogate(vectors, scores, seed=0, landmarks=100)
    whole = fitted.score(vectors)
    assert np.array_equal(whole[300:307], fitted.score(vectors[300:307]))
    store(tmp_path / "s.safetensors", "it", fitted)
    again = restore(tmp_path / "s.safetensors", lambda _: Surrogate)
    assert np.array_equal(again.score(vectors), whole)


def test_the_draw_of_landmarks_depends_on_the_seed_alone():
    vectors, scores = known(300)
    one, same, other = (fit_surrogate(vectors, scores, seed=s, landmarks=50) for s in (1, 1, 2))
    assert np.array_equal(one.landmarks, same.landmarks)
    assert not np.array_equal(one.landmarks, other.landmarks)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_equal_units_are_enough(n):
    vectors = np.ones((n, 3), np.float32)
    fitted = fit_surrogate(vectors, np.full(n, 2, np.float32), seed=0)
    assert fitted.score(np.eye(3, dtype=np.float32)) == pytest.approx(2.0)


def test_another_width_is_an_error():
    with pytest.raises(InputError, match="shape"):
        fit_surrogate(*known(30), seed=0).score(np.ones((2, 5), np.float32))
