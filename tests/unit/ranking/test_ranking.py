"""Rankings of made-up bits: the order, what is equal, what is said."""

from types import SimpleNamespace

import numpy as np
import pytest

from corpusfit.core.types import text_array
from corpusfit.ranking.ranking import (
    NONE_BETTER,
    Evaluation,
    FoldBits,
    Ranking,
    amounts,
    ranked_methods,
)
from corpusfit.scoring.heldout_bits import FOLDS, HALVES, HeldOut
from corpusfit.scoring.likeness import Likeness

N = 40
WORDS = 10


def evaluation(*amounts_of_bits, noise=0.0):
    """Methods with a mean of bits per word at each amount, and some noise over texts."""
    rng = np.random.default_rng(0)
    tokens, documents = np.full(N, WORDS), np.arange(N)
    empty = (np.empty(0),) * 3
    halves = np.zeros((FOLDS, 100), np.int64)
    held = HeldOut(*empty, text_array([""] * N), tokens, documents % FOLDS, documents, {}, halves)
    folds = {}
    for method in amounts_of_bits[0]:
        noises = rng.normal(0, noise, N)
        values = [(bits[method] + noises) * WORDS for bits in amounts_of_bits]
        for f in range(FOLDS):
            each = np.stack([[v * (held.folds == f)] * HALVES for v in values])
            folds.setdefault(method, []).append(FoldBits(method, each, 2.0))
    return Evaluation(held, folds, {})


def ranking(bits, noise=0.0):
    found = evaluation(bits, noise=noise)
    return Ranking(tuple(ranked_methods(found, [0.2], [0.2])), 0.2)


@pytest.mark.parametrize(("noise", "first"), [(0.5, "cynical"), (0.0, "dsir")])
def test_the_default_is_first_among_equals_only(noise, first):
    found = ranking({"dsir": 8.0, "moore_lewis": 8.01, "cynical": 8.02, "random": 12.0}, noise)
    names = [each.method for each in found]
    assert names[0] == first
    assert names[-1] == "random"
    assert {each.method for each in found if each.equal} == (
        {"dsir"} if noise == 0.0 else {"dsir", "moore_lewis", "cynical"}
    )
    others = [each.bits for each in found[1:]]
    assert others == sorted(others)
    said = [text for text in found.findings() if "not shown worse" in text]
    assert len(said) == (noise > 0 and found[0].behind[0] > 0)
    assert NONE_BETTER not in found.findings()


def test_the_default_is_said_to_be_unbeaten_or_to_be_beaten():
    others = {"moore_lewis": 9.0, "random": 12.0}
    assert ranking({"dsir": 8.5, "cynical": 8.0} | others).findings() == [NONE_BETTER]
    (said,) = ranking({"dsir": 8.0, "cynical": 8.5} | others).findings()
    assert said.startswith("dsir ")
    assert ranking({"dsir": 8.0} | others).findings() == []


@pytest.mark.parametrize(("best", "shown"), [(8.0, True), (11.99, False), (12.5, False)])
def test_a_best_method_that_is_not_better_than_random_text_is_said_so(best, shown):
    found = ranking({"cynical": best, "dsir": 13.0, "random": 12.0}, noise=0.3)
    assert any("not shown better than random" in text for text in found.findings()) != shown


def test_methods_that_are_worse_than_random_text_are_named():
    found = ranking({"cynical": 8.0, "dsir": 11.9, "field:edu": 13.0, "random": 12.0}, noise=0.3)
    (said,) = [text for text in found.findings() if "worse than random text" in text]
    assert "field:edu" in said
    assert "dsir" not in said


def test_a_foreign_target_is_the_first_thing_said():
    foreign = Likeness(100, 12.0, 11.5, 8.0, 0.125, foreign=True)
    found = Ranking(ranking({"cynical": 8.0, "random": 9.0}).methods, 0.2, foreign)
    assert found.findings()[0] == foreign.warning()
    assert "12 %" in foreign.warning()


@pytest.mark.parametrize(
    ("units", "asked", "expected"),
    [
        (10_000, 0.2, [0.2, 0.001, 0.01, 0.1, 0.3]),
        (10_000, 0.01, [0.01, 0.001, 0.1, 0.3]),
        (1_000, 0.001, [0.01, 0.1, 0.3]),  # half a unit: by the next larger share
        (4, 0.2, [0.2]),
    ],
)
def test_amounts_of_too_few_words_are_left_out(units, asked, expected):
    held = SimpleNamespace(measurable=lambda share: share * units / HALVES >= 5)
    assert amounts(held, asked) == expected
