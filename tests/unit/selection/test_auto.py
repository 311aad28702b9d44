"""What `auto` uses, by constructed rankings."""

import pytest

from corpusfit.core.plan import MethodPlan
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.selection.auto import CONTENDERS, FALLBACK, contenders, decide_by_bits

NAMES = ("dsir", "moore_lewis", "knn", "consensus")


def row(method, bits, low, high):
    return {"method": method, "bits": bits, "behind": (bits - 10.0, low, high)}


RANKING = [
    row("knn", 10.0, 0, 0),
    row("consensus", 10.01, -0.02, 0.04),
    row("dsir", 10.49, 0.4, 0.58),
    row("moore_lewis", 10.6, 0.5, 0.7),
    row("random", 10.81, 0.7, 0.9),
]


def test_the_fewest_bits_win_and_a_sentence_says_by_how_much():
    found = decide_by_bits([RANKING[0], *RANKING[2:]], NAMES)
    assert found.method == MethodPlan("knn")
    assert found.reason == (
        "auto uses knn: 10.00 bits per word on held-out target text, 0.49 fewer than dsir "
        "(95 % interval 0.40 to 0.58) and 0.81 fewer than random."
    )


def test_of_methods_that_are_not_distinguishable_the_cheaper_one():
    alike = [row("knn", 10.0, 0, 0), row("dsir", 10.02, -0.01, 0.05), *RANKING[3:]]
    found = decide_by_bits(alike, NAMES)
    assert found.method.name == "dsir"
    assert "0.02 more than knn (95 % interval -0.01 to 0.05" in found.reason
    assert "0.79 fewer than random" in found.reason
    assert decide_by_bits(RANKING, NAMES).method.name == "knn"  # before consensus
    costly_first = decide_by_bits(RANKING, ("consensus", "knn", "dsir"))
    assert costly_first.method.name == "consensus"


def test_the_baseline_is_never_used():
    better = [row("random", 9.5, -0.7, -0.3), row("knn", 10.0, 0, 0)]
    found = decide_by_bits(better, NAMES)
    assert found.method.name == "knn"
    assert found.reason.endswith("0.50 more than random.")


@pytest.mark.parametrize("names", [NAMES, (*NAMES, "cynical")])
def test_without_a_verdict_a_stated_method(names):
    found = decide_by_bits([], names)
    assert found.method.name == next(n for n in FALLBACK if n in names)
    assert found.method.name in found.reason
    assert "too few" in found.reason


def test_the_contenders_exist_and_those_on_words_come_first():
    found = contenders()
    assert found == [*CONTENDERS]
    encodes = [registry.build(name, {}).encodes for name in found]
    assert encodes == sorted(encodes)
    assert {*FALLBACK} & {*contenders(alone=True)}
    assert all(issubclass(registry.load(name), Method) for name in contenders(alone=True))
